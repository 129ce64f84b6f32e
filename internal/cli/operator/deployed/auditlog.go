//go:build !sandbox

package deployed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/remit-payouts/remit/internal/payments/store"
)

// A CopiedLog is a table's audit log. It copies each entry to CloudWatch Logs, where operators cannot change it.
type CopiedLog struct {
	store.AuditLog
	AWS          aws.Config
	Table, Group string
}

// Append stores an entry in the table, then in the copy. If only the first is certain, it is ErrUncopied.
func (l CopiedLog) Append(ctx context.Context, e store.Act) error {
	if err := l.AuditLog.Append(ctx, e); err != nil {
		return err
	}
	text, err := json.Marshal(struct {
		Table string
		store.Act
	}{l.Table, e})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUncopied, err)
	}
	out, err := cloudwatchlogs.NewFromConfig(l.AWS).PutLogEvents(ctx, &cloudwatchlogs.PutLogEventsInput{
		LogGroupName: &l.Group, LogStreamName: aws.String("operators"), // the template makes it
		LogEvents: []types.InputLogEvent{{Timestamp: aws.Int64(e.At.UnixMilli()), Message: aws.String(string(text))}},
	})
	if err == nil && out.RejectedLogEventsInfo != nil {
		err = errors.New("it takes no entry of this time; set the clock of this machine")
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUncopied, err)
	}
	return nil
}
