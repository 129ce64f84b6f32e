//go:build !sandbox

// Package auditcopy copies the audit log to CloudWatch Logs. Operators may add to the
// copy, but not change or delete its entries.
package auditcopy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/remit-payouts/remit/internal/payments/store"
)

// Stream is the stream of the log group for the audit log, which the template makes.
const Stream = "operators"

// A Copy is the copy of a table's audit log.
type Copy struct {
	logs         *cloudwatchlogs.Client
	group, table string
}

// Open returns the copy in a log group of the account of config.
func Open(config aws.Config, group, table string) *Copy {
	return &Copy{cloudwatchlogs.NewFromConfig(config), group, table}
}

// An entry names the table that has it too.
type entry struct {
	Table string
	store.Act
}

// ErrUncopied reports an entry that is in the table, and perhaps not in its copy.
var ErrUncopied = errors.New("copying an entry of the audit log to CloudWatch Logs (check that you have the right logs:PutLogEvents of " +
	"remit policies?)")

// both is an audit log with a copy.
type both struct {
	store.AuditLog
	*Copy
}

// Beside returns a log whose Append stores an entry in the table, then in the copy. If only
// the first is certain, it is ErrUncopied.
func (c *Copy) Beside(table store.AuditLog) store.AuditLog { return both{table, c} }

func (l both) Append(ctx context.Context, e store.Act) error {
	if err := l.AuditLog.Append(ctx, e); err != nil {
		return err
	}
	text, err := json.Marshal(entry{l.table, e})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUncopied, err)
	}
	out, err := l.logs.PutLogEvents(ctx, &cloudwatchlogs.PutLogEventsInput{
		LogGroupName: &l.group, LogStreamName: aws.String(Stream),
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

// entries returns what the copy has.
func (c *Copy) entries(ctx context.Context) (all []entry, err error) {
	pages := cloudwatchlogs.NewFilterLogEventsPaginator(c.logs, &cloudwatchlogs.FilterLogEventsInput{LogGroupName: &c.group})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", c.group, err)
		}
		for _, event := range page.Events {
			var e entry
			if err := json.Unmarshal([]byte(aws.ToString(event.Message)), &e); err != nil {
				return nil, fmt.Errorf("an entry of %s (find in CloudTrail who called PutLogEvents): %w", c.group, err)
			}
			all = append(all, e)
		}
	}
	return all, nil
}

// delay is how old an entry of the table is that CloudWatch Logs must show.
const delay = 5 * time.Minute

// unlike names the entries that only one of table and copy has. The copy has nothing from
// before its first entry; it also has entries of other tables, which a restored table may lack.
func unlike(table string, entries []store.Act, copies []entry, now time.Time) (inTable, inCopy []string) {
	id := func(e store.Act) string {
		e.At = e.At.UTC()
		text, _ := json.Marshal(e)
		return string(text)
	}
	name := func(e store.Act) string {
		return fmt.Sprintf("%s %s of %s (%s)", e.At.UTC().Format(time.RFC3339), e.Outcome, e.Who, e.ID)
	}
	var first time.Time
	kept, stored := map[string]bool{}, map[string]bool{}
	for _, e := range copies {
		if kept[id(e.Act)] = true; first.IsZero() || e.At.Before(first) {
			first = e.At
		}
	}
	for _, e := range entries {
		stored[id(e)] = true
		if !kept[id(e)] && len(copies) > 0 && !e.At.Before(first) && now.Sub(e.At) > delay {
			inTable = append(inTable, name(e))
		}
	}
	for _, e := range copies {
		if e.Table == table && !stored[id(e.Act)] {
			inCopy = append(inCopy, name(e.Act))
		}
	}
	return inTable, inCopy
}

// Compare finds the entries that only the table or only its copy has. It reads the copy
// first, because an entry reaches the table first.
func (c *Copy) Compare(ctx context.Context, table store.AuditLog) (found string, err error) {
	copies, err := c.entries(ctx)
	if err != nil {
		return "", err
	}
	entries, err := table.Acts(ctx, time.Unix(0, 0))
	if err != nil {
		return "", err
	}
	inTable, inCopy := unlike(c.table, entries, copies, time.Now())
	if len(inTable) > 0 {
		err = fmt.Errorf("only the table has %s; find in CloudTrail who deleted the copy", strings.Join(inTable, ", "))
	}
	if len(inCopy) > 0 {
		err = errors.Join(err, fmt.Errorf("only %s has %s; find in CloudTrail who changed the table", c.group, strings.Join(inCopy, ", ")))
	}
	return fmt.Sprintf("%d entries, %d of them copied", len(entries), len(copies)), err
}
