// Command create-recipient serves POST /recipients.
package main

import (
	"time"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/apienv"
	"github.com/remit-payouts/remit/internal/aws/eventenv"
	"github.com/remit-payouts/remit/internal/merchants/recipient"
)

func main() { apienv.HTTP(wire) }

func wire(env apienv.Env) httpapi.Endpoint {
	book := recipient.NewAddressBook(env.Keys(), time.Duration(env.Int("RECIPIENT_HOLD_SECONDS"))*time.Second, env.Now)
	return httpapi.CreateRecipient(book, env.Payments(), eventenv.Publisher(env), env.Assets(), env.Now)
}
