// Command create-recipient serves POST /recipients.
package main

import (
	"time"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/eventenv"
	"github.com/remit-payouts/remit/internal/aws/meterenv"
	"github.com/remit-payouts/remit/internal/aws/railenv"
	"github.com/remit-payouts/remit/internal/merchants/recipient"
)

func main() { meterenv.HTTP(wire) }

func wire(env *boot.Env) httpapi.Endpoint {
	keys := dynamo.OpenAPIKeys(env.AWS, env.String("API_KEYS_TABLE"))
	book := recipient.NewAddressBook(keys, time.Duration(env.Int("RECIPIENT_HOLD_SECONDS"))*time.Second, env.Now)
	payments := dynamo.OpenPayments(env.AWS, env.String("PAYMENTS_TABLE"))
	return httpapi.CreateRecipient(book, payments, eventenv.Publisher(env), railenv.Assets(env), env.Now)
}
