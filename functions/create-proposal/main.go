// Command create-proposal serves POST /proposals, and approves and cancels proposals. It has no key and asks no node.
package main

import (
	"log/slog"
	"math/rand/v2"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/apienv"
	"github.com/remit-payouts/remit/internal/aws/eventenv"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
)

func main() { apienv.HTTP(wire) }

func wire(env apienv.Env) httpapi.Endpoint {
	payments, assets := env.Payments(), env.Assets()
	none := func(stack.Config) chain.Provider { return nil }
	proposals := &dispatch.Proposals{Events: eventenv.Publisher(env),
		Rails: dispatch.NewRails(dispatch.Wiring{Config: env.Config(), Nodes: none},
			dispatch.Parts{Store: payments, Book: env.Book(), Log: slog.Default(), Now: env.Now, Draw: rand.IntN})}
	return httpapi.CreateProposal(proposals, payments, assets, env.Now).
		With(httpapi.ApproveProposal(proposals, payments, assets)).With(httpapi.CancelProposal(proposals, payments)).
		Current(env.Keys(), env.Now)
}
