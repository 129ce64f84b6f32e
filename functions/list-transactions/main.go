// Command list-transactions serves GET /transactions, GET /assets and the lists of proposals.
package main

import (
	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/apienv"
)

func main() { apienv.HTTP(wire) }

func wire(env apienv.Env) httpapi.Endpoint {
	payments, assets := env.Payments(), env.Assets()
	return httpapi.ListTransactions(payments, assets).With(httpapi.ListAssets(assets)).
		With(httpapi.ListProposals(payments)).With(httpapi.GetProposal(payments))
}
