package dynamo

import (
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"

	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// progressItem is a wallet.Progress, which every write replaces.
type progressItem struct {
	Mined uint64           `dynamodbav:"mined,omitempty"`
	Paid  []uint64         `dynamodbav:"paid,omitempty"`
	Sent  uint64           `dynamodbav:"sent,omitempty"`
	Waits payment.Progress `dynamodbav:"waits,omitempty"`
}

// keep sets what a round has seen, unless that is nil.
func (c change) keep(seen *wallet.Progress) {
	if seen != nil {
		c.set["progress"] = encodeValue(progressItem(*seen))
	}
}

// progressOf returns the progress in the item of a wallet: none if it cannot be read, which damages nothing.
func progressOf(item attributes) wallet.Progress {
	var it progressItem
	if err := attributevalue.Unmarshal(item["progress"], &it); err != nil {
		return wallet.Progress{}
	}
	return wallet.Progress(it)
}
