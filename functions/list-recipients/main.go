// Command list-recipients serves GET /recipients.
package main

import (
	"time"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/meterenv"
	"github.com/remit-payouts/remit/internal/merchants/recipient"
)

func main() { meterenv.HTTP(wire, time.Now) }

// wire names everything that ListRecipientsFunction in template.yaml is granted.
func wire(env *boot.Env) httpapi.Endpoint {
	entries := dynamo.OpenAPIKeys(env.AWS, env.String("API_KEYS_TABLE"))
	book := recipient.NewBook(entries, nil, time.Now) // no entry is made here
	return httpapi.ListRecipients(book, time.Now)
}
