// Command delete-recipient serves POST /recipients/{address}/delete.
package main

import (
	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/meterenv"
	"github.com/remit-payouts/remit/internal/merchants/recipient"
)

func main() { meterenv.HTTP(wire) }

func wire(env *boot.Env) httpapi.Endpoint {
	entries := dynamo.OpenAPIKeys(env.AWS, env.String("API_KEYS_TABLE"))
	return httpapi.DeleteRecipient(recipient.NewAddressBook(entries, 0, env.Now)) // no entry is made here
}
