package dynamo_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"remit/internal/dynamo"
	"remit/internal/dynamo/dynamotest"
)

// TestJobs: a job stays until it is done, and one that was added again for
// later is not ended by the end of its first run.
func TestJobs(t *testing.T) {
	db := dynamotest.Client(t)
	tables := dynamo.Tables{APIKeys: "jobs-keys", Payments: "jobs-payments", Webhooks: "jobs-webhooks"}
	if err := dynamo.CreateTables(t.Context(), db, tables); err != nil {
		t.Fatal(err)
	}
	jobs := dynamo.NewJobs(db, tables.Webhooks)
	first := time.Date(2026, time.March, 4, 5, 6, 7, 8, time.UTC)
	later := first.Add(5 * time.Minute)
	for _, step := range []struct {
		say  string
		do   func() error
		want map[string]time.Time
	}{
		{"two jobs are added", func() error {
			if err := jobs.Add(t.Context(), "a", first); err != nil {
				return err
			}
			return jobs.Add(t.Context(), "b", first)
		}, map[string]time.Time{"a": first, "b": first}},
		{"one is added again for its next attempt", func() error { return jobs.Add(t.Context(), "a", later) },
			map[string]time.Time{"a": later, "b": first}},
		{"the end of its first run leaves it", func() error { return jobs.Done(t.Context(), "a", first) },
			map[string]time.Time{"a": later, "b": first}},
		{"the end of its second removes it", func() error { return jobs.Done(t.Context(), "a", later) },
			map[string]time.Time{"b": first}},
		{"ending what is gone is no error", func() error { return jobs.Done(t.Context(), "a", later) },
			map[string]time.Time{"b": first}},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.say, err)
		}
		got, err := jobs.All(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.say, diff)
		}
	}
}
