// Command list-transactions serves GET /transactions, GET /assets and the lists of proposals.
package main

import (
	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/meterenv"
	"github.com/remit-payouts/remit/internal/aws/railenv"
)

func main() { meterenv.HTTP(wire) }

func wire(env *boot.Env) httpapi.Endpoint {
	payments, assets := dynamo.OpenPayments(env.AWS, env.String("PAYMENTS_TABLE")), railenv.Assets(env)
	return httpapi.ListTransactions(payments, assets).With(httpapi.ListAssets(assets)).
		With(httpapi.ListProposals(payments)).With(httpapi.GetProposal(payments))
}
