package dynamo

import (
	"time"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
)

// spendKept is the time from a day's first charge to the removal of its item:
// every clock has left the day by then, and an operator had time to look.
const spendKept = 72 * time.Hour

// placesKept is how long the item of a merchant stays after its last place was taken.
const placesKept = 24 * time.Hour

// expiry returns the time in epoch seconds at which DynamoDB removes an item that began or ended at
// a time. It may be two days late; until then the item is read.
func expiry(from time.Time) int64 { return from.Add(webhook.KeptFor).Unix() }
