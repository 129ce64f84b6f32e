package dynamo

import (
	"context"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/payments/store"
)

// AuditPartition is the partition of the audit log. Commands are few: one partition and one query do.
const AuditPartition = "audit"

type auditItem struct {
	PK      string `dynamodbav:"pk"`
	SK      string `dynamodbav:"sk"` // <time>#<id>#<outcome>
	Who     string `dynamodbav:"who"`
	Command string `dynamodbav:"command"`
	Effect  string `dynamodbav:"effect,omitempty"`
}

func (s *Payments) Append(ctx context.Context, e store.Act) error {
	sk := strings.Join([]string{instant(e.At), e.ID, string(e.Outcome)}, "#")
	item := encode(auditItem{AuditPartition, sk, e.Who, e.Command, e.Effect})
	return s.make(ctx, create(item, nil), nil, "appending to the audit log")
}

func (s *Payments) Acts(ctx context.Context, since time.Time) ([]store.Act, error) {
	return all(s.partition(ctx, "reading the audit log", AuditPartition, instant(since), "~"), func(item attributes) (store.Act, error) {
		var it auditItem
		r := read(item, &it)
		parts := append(strings.SplitN(it.SK, "#", 3), "", "")
		r.require("sk", len(parts) == 5)
		return decoded(r, store.Act{ID: parts[1], At: r.instant("sk", parts[0]), Who: it.Who, Command: it.Command,
			Effect: it.Effect, Outcome: store.Outcome(parts[2])}, "an entry of the audit log")
	})
}
