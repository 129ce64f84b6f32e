package operator

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

	"remit/internal/store"
)

// auditStream is the stream of the log group for the audit log, which the template makes.
const auditStream = "operators"

// An auditCopy is the audit log in CloudWatch Logs. Operators may add to it, and neither
// change nor delete what is there.
type auditCopy struct {
	logs         *cloudwatchlogs.Client
	group, table string
}

// A copied entry names the table that has it too.
type copied struct {
	Table string
	store.Act
}

// auditCopy returns nil if the deployed template is of before there was one.
func (a *account) auditCopy() *auditCopy {
	group := a.outputs["AuditLogGroupName"]
	if group == "" {
		return nil
	}
	return &auditCopy{cloudwatchlogs.NewFromConfig(a.aws), group, a.outputs["PaymentsTableName"]}
}

// errUncopied reports an entry that is in the table, and perhaps not in its copy.
var errUncopied = errors.New("copying an entry of the audit log to CloudWatch Logs (do you have the right logs:PutLogEvents of " +
	"remit policies?)")

// A copiedLog is an audit log with a copy.
type copiedLog struct {
	store.AuditLog
	copy *auditCopy
}

// Append stores an entry in the table, then in the copy. If only the first is certain, it
// is errUncopied.
func (l copiedLog) Append(ctx context.Context, e store.Act) error {
	if err := l.AuditLog.Append(ctx, e); err != nil {
		return err
	}
	text, err := json.Marshal(copied{l.copy.table, e})
	if err != nil {
		return fmt.Errorf("%w: %w", errUncopied, err)
	}
	out, err := l.copy.logs.PutLogEvents(ctx, &cloudwatchlogs.PutLogEventsInput{
		LogGroupName: &l.copy.group, LogStreamName: aws.String(auditStream),
		LogEvents: []types.InputLogEvent{{Timestamp: aws.Int64(e.At.UnixMilli()), Message: aws.String(string(text))}},
	})
	if err == nil && out.RejectedLogEventsInfo != nil {
		err = errors.New("it takes no entry of this time: set the clock of this machine")
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errUncopied, err)
	}
	return nil
}

// entries returns what the copy has.
func (c *auditCopy) entries(ctx context.Context) (all []copied, err error) {
	pages := cloudwatchlogs.NewFilterLogEventsPaginator(c.logs, &cloudwatchlogs.FilterLogEventsInput{LogGroupName: &c.group})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", c.group, err)
		}
		for _, event := range page.Events {
			var e copied
			if err := json.Unmarshal([]byte(aws.ToString(event.Message)), &e); err != nil {
				return nil, fmt.Errorf("an entry of %s (find in CloudTrail who called PutLogEvents): %w", c.group, err)
			}
			all = append(all, e)
		}
	}
	return all, nil
}

// copyDelay is how old an entry of the table is that CloudWatch Logs must show.
const copyDelay = 5 * time.Minute

// unlike names the entries that the table and its copy do not share. The copy holds
// nothing of before its first entry, and of other tables what a restored one may lack.
func unlike(table string, entries []store.Act, copies []copied, now time.Time) (inTable, inCopy []string) {
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
		if !kept[id(e)] && len(copies) > 0 && !e.At.Before(first) && now.Sub(e.At) > copyDelay {
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

// auditLogIsCopied compares the audit log with its copy. It reads the copy first: the
// table has every entry before that.
func (a *account) auditLogIsCopied(ctx context.Context) (string, error) {
	c := a.auditCopy()
	if c == nil {
		return "", errors.New("the deployed template has no log group for it")
	}
	copies, err := c.entries(ctx)
	if err != nil {
		return "", err
	}
	log, err := a.auditLog()
	if err != nil {
		return "", err
	}
	entries, err := log.Acts(ctx, time.Unix(0, 0))
	if err != nil {
		return "", err
	}
	inTable, inCopy := unlike(c.table, entries, copies, time.Now())
	if len(inTable) > 0 {
		err = fmt.Errorf("only the table has %s", strings.Join(inTable, ", "))
	}
	if len(inCopy) > 0 {
		err = errors.Join(err, fmt.Errorf("only %s has %s", c.group, strings.Join(inCopy, ", ")))
	}
	return fmt.Sprintf("%d entries, %d of them copied", len(entries), len(copies)), err
}
