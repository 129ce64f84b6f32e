module example.com/worker

go 1.26.0

require github.com/remit-payouts/remit/sdk/go v0.1.0

require (
	github.com/standard-webhooks/standard-webhooks/libraries v0.0.1 // indirect
	golang.org/x/text v0.43.0 // indirect
)
