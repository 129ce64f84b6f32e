module github.com/remit-payouts/remit/sdk/go

go 1.26.0

require (
	github.com/standard-webhooks/standard-webhooks/libraries v0.0.1
	golang.org/x/text v0.43.0
)
