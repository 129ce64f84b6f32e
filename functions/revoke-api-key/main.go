// Command revoke-api-key serves POST /api-keys/{id}/revoke.
package main

import (
	"crypto/rand"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"remit/internal/apikey"
	"remit/internal/boot"
	"remit/internal/dynamo"
	"remit/internal/httpapi"
	"remit/internal/meterenv"
)

func main() { boot.HTTP(wire) }

// wire names everything this function may touch. RevokeApiKeyFunction in
// template.yaml is granted exactly this.
func wire(env *boot.Env) http.Handler {
	keys := dynamo.NewAPIKeys(dynamodb.NewFromConfig(env.AWS), env.String("API_KEYS_TABLE"))
	registry := apikey.NewRegistry(keys, boot.Parse(env, "MODE", apikey.ParseMode), time.Now, rand.Reader)
	return meterenv.Refusals(env, httpapi.RevokeAPIKey(rand.Text, registry))
}
