// Command delete-recipient serves POST /recipients/{address}/delete.
package main

import (
	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/apienv"
)

func main() {
	apienv.HTTP(func(env apienv.Env) httpapi.Endpoint {
		return httpapi.DeleteRecipient(env.Book())
	})
}
