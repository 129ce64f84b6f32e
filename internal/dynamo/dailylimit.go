package dynamo

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"remit/internal/store"
	"remit/internal/token"
	"remit/internal/wallet"
)

// spendKept is the time from a day's first charge to the removal of its item:
// every clock has left the day by then, and an operator had time to look.
const spendKept = 72 * time.Hour

// Charge implements store.DailyLimits with one conditional update, which makes
// the day's item if it is the first. The item keeps the sum spent, so that a
// limit changed during the day counts at once, and beside it, for people, the
// remainder. When the SDK repeats the update after a lost answer the day may be
// charged twice, never not at all. A limit above 10^38-1 counts as 10^38-1.
func (s *Payments) Charge(ctx context.Context, merchant, mode string, amount, limit token.Amount, now time.Time) error {
	limit = wallet.Spendable(limit)
	if limit.Less(amount) {
		return store.ErrDailyLimit
	}
	_, err := s.update(ctx, &dynamodb.UpdateItemInput{
		Key: spendKey(merchant, mode, now),
		UpdateExpression: aws.String("SET spent = if_not_exists(spent, :zero) + :amount, " +
			"remaining = :room - if_not_exists(spent, :zero), #ttl = if_not_exists(#ttl, :expiry)"),
		ConditionExpression:      aws.String("attribute_not_exists(spent) OR spent <= :room"),
		ExpressionAttributeNames: map[string]string{"#ttl": attrTTL},
		ExpressionAttributeValues: attributes{
			":zero": number(0), ":amount": units(amount), ":room": units(limit.Sub(amount)),
			":expiry": number(uint64(now.Add(spendKept).Unix())),
		},
	})
	return outcome(err, store.ErrDailyLimit, "charging the day of "+merchant)
}

// Refund implements store.DailyLimits. The SDK never repeats it: a repetition
// after a lost answer would give back twice.
func (s *Payments) Refund(ctx context.Context, merchant, mode string, amount token.Amount, now time.Time) error {
	if amount != wallet.Spendable(amount) {
		return nil // no such charge was ever taken
	}
	_, err := s.update(ctx, &dynamodb.UpdateItemInput{
		Key:                       spendKey(merchant, mode, now),
		UpdateExpression:          aws.String("SET spent = spent - :amount, remaining = remaining + :amount"),
		ConditionExpression:       aws.String("spent >= :amount"),
		ExpressionAttributeValues: attributes{":amount": units(amount)},
	}, once)
	return outcome(err, nil, "refunding the day of "+merchant) // a charge of another day, or none, stays
}
