package dynamo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/remit-payouts/remit/internal/payments/store"
)

var _ store.AuditLog = (*Payments)(nil)

// AuditPartition is the partition of the audit log. Commands are few: one partition and
// one query do.
const AuditPartition = "audit"

// auditItem is the item of an entry.
type auditItem struct {
	PK      string `dynamodbav:"pk"`
	SK      string `dynamodbav:"sk"` // <time>#<id>#<outcome>
	Who     string `dynamodbav:"who"`
	Command string `dynamodbav:"command"`
	Effect  string `dynamodbav:"effect,omitempty"`
}

// Append implements store.AuditLog.
func (s *Payments) Append(ctx context.Context, e store.Act) error {
	sk := strings.Join([]string{instant(e.At), e.ID, string(e.Outcome)}, "#")
	_, err := s.db.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &s.name, Item: encode(auditItem{AuditPartition, sk, e.Who, e.Command, e.Effect}),
		ConditionExpression: aws.String("attribute_not_exists(pk)"),
	})
	return outcome(err, nil, "appending to the audit log")
}

// Acts implements store.AuditLog.
func (s *Payments) Acts(ctx context.Context, since time.Time) (all []store.Act, err error) {
	for item, err := range s.query(ctx, &dynamodb.QueryInput{
		KeyConditionExpression:    aws.String("pk = :log AND sk >= :since"),
		ExpressionAttributeValues: attributes{":log": text(AuditPartition), ":since": text(instant(since))},
		ConsistentRead:            aws.Bool(true),
	}) {
		if err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		var it auditItem
		r := read(item, &it)
		parts := strings.SplitN(it.SK, "#", 3)
		r.require("sk", len(parts) == 3)
		if len(parts) == 3 {
			all = append(all, store.Act{ID: parts[1], At: r.instant("sk", parts[0]), Who: it.Who, Command: it.Command, Effect: it.Effect,
				Outcome: store.Outcome(parts[2])})
		}
		if _, err := decoded(r, it, "an entry of the audit log"); err != nil {
			return nil, err
		}
	}
	return all, nil
}
