// Command list-recipients serves GET /recipients.
package main

import (
	"crypto/rand"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"remit/internal/boot"
	"remit/internal/dynamo"
	"remit/internal/httpapi"
	"remit/internal/meterenv"
	"remit/internal/recipient"
)

func main() { boot.HTTP(wire) }

// wire names everything this function may touch. ListRecipientsFunction in
// template.yaml is granted exactly this.
func wire(env *boot.Env) http.Handler {
	entries := dynamo.NewAPIKeys(dynamodb.NewFromConfig(env.AWS), env.String("API_KEYS_TABLE"))
	book := recipient.NewBook(entries, nil, time.Now) // no entry is made here
	return meterenv.Refusals(env, time.Now, httpapi.ListRecipients(rand.Text, book, time.Now))
}
