// Command create-api-key serves POST /create-api-key.
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

// wire names everything this function may touch. CreateApiKeyFunction in
// template.yaml is granted exactly this.
func wire(env *boot.Env) http.Handler {
	boot.Closed(env)
	keys := dynamo.NewAPIKeys(dynamodb.NewFromConfig(env.AWS), env.String("API_KEYS_TABLE"))
	registry := apikey.NewRegistry(keys, boot.Parse(env, "MODE", apikey.ParseMode), time.Now, rand.Reader)
	open, closed := meterenv.Refusals(env, httpapi.CreateAPIKey(rand.Text, registry)), meterenv.Refusals(env, httpapi.CreateAPIKey(rand.Text, nil))
	if env.String("KEY_CREATION") == "public" {
		return open
	}
	return boot.ForOperators(open, closed)
}
