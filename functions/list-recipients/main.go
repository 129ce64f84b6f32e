// Command list-recipients serves GET /recipients.
package main

import (
	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/apienv"
)

func main() {
	apienv.HTTP(func(env apienv.Env) httpapi.Endpoint {
		return httpapi.ListRecipients(env.Book(), env.Now)
	})
}
