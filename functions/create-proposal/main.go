// Command create-proposal serves POST /proposals, and approves and cancels proposals. It has no key and asks no node.
package main

import (
	"log/slog"
	"math/rand/v2"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/eventenv"
	"github.com/remit-payouts/remit/internal/aws/meterenv"
	"github.com/remit-payouts/remit/internal/aws/railenv"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/merchants/recipient"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
)

func main() { meterenv.HTTP(wire) }

func wire(env *boot.Env) httpapi.Endpoint {
	payments := dynamo.OpenPayments(env.AWS, env.String("PAYMENTS_TABLE"))
	keys, assets := dynamo.OpenAPIKeys(env.AWS, env.String("API_KEYS_TABLE")), railenv.Assets(env)
	proposals := &dispatch.Proposals{
		Rails: dispatch.NewRails(dispatch.Wiring{Config: railenv.Config(env), Nodes: func(stack.Config) chain.Provider { return nil }},
			dispatch.Parts{
				Store: payments, Book: recipient.NewAddressBook(keys, 0, env.Now), // no entry is made here
				Log: slog.Default(), Now: env.Now, Draw: rand.IntN,
			}),
		Events: eventenv.Publisher(env),
	}
	return httpapi.CreateProposal(proposals, payments, assets, env.Now).
		With(httpapi.ApproveProposal(proposals, payments, assets)).With(httpapi.CancelProposal(proposals, payments)).
		Current(keys, env.Now)
}
