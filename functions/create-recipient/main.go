// Command create-recipient serves POST /recipients.
package main

import (
	"time"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/apienv"
	"github.com/remit-payouts/remit/internal/aws/eventenv"
)

func main() { apienv.HTTP(wire) }

func wire(env apienv.Env) httpapi.Endpoint {
	book := env.Book()
	book.Hold = time.Duration(env.Int("RECIPIENT_HOLD_SECONDS")) * time.Second
	return httpapi.CreateRecipient(book, env.Payments(), eventenv.Publisher(env), env.Assets(), env.Now)
}
