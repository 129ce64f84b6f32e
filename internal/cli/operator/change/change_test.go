package change_test

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

type ada struct{ deployed.Platform }

func (ada) Who(context.Context) (string, error) { return "ada", nil }

// A long line's change takes a megabyte to describe.
type long struct{}

func (long) Change(context.Context, *deployed.Deployment) (change.Change, error) {
	return change.Change{Consequences: strings.Repeat("ü€", 200_000),
		Apply: func(context.Context) (change.Answer, error) { return change.Answer{}, nil }}, nil
}

// TestLongEntry: an entry of the audit log fits into an item of the table, so that no change is too long to be made.
func TestLongEntry(t *testing.T) {
	tables := memory.NewPayments()
	ctx := change.Recorded(t.Context(), nil, func(_ context.Context, _ bool, consequences string) error {
		if len(consequences) != 1_000_000 {
			t.Errorf("%d bytes are shown", len(consequences))
		}
		return nil
	})
	d := &deployed.Deployment{Platform: ada{}, Out: io.Discard, Tables: deployed.Tables{AuditLog: tables}}
	must.OK(t, (&change.Command[long]{}).Run(ctx, d))
	acts := must.Get(tables.Acts(t.Context(), time.Time{}))(t)
	if len(acts) != 2 || len(acts[0].Effect) > 100_000 || !strings.HasSuffix(acts[0].Effect, "ü€\n… (shortened)") {
		t.Errorf("%d entries, %d bytes in the first", len(acts), len(acts[0].Effect))
	}
}

// TestInterrupted: a command that waits for consent ends when it is interrupted.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	os.Stdin = must.Get(os.OpenFile("/dev/ptmx", os.O_RDWR, 0))(t) // a terminal
	if err := change.Ask(ctx, false, "It pays."); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestKeysOfNodes: a provider's key, which is a part of a node's URL, is not in the audit log.
func TestKeysOfNodes(t *testing.T) {
	tables := memory.NewPayments()
	args := []string{"rails", "add", "--rpc", "https://u:k3y@a.example/v3/k3y", "--rpc=HTTP://b:1?k3y,https://c/k3y",
		"--rpc", "https://d.example", "--reason", "a new one"}
	ctx := change.Recorded(t.Context(), args, func(context.Context, bool, string) error { return nil })
	d := &deployed.Deployment{Platform: ada{}, Out: io.Discard, Tables: deployed.Tables{AuditLog: tables}}
	must.OK(t, (&change.Command[long]{}).Run(ctx, d))
	const want = `rails add --rpc https://a.example/… --rpc=HTTP://b:1/… --rpc https://d.example/… --reason "a new one"`
	for _, act := range must.Get(tables.Acts(t.Context(), time.Time{}))(t) {
		if act.Command != want {
			t.Errorf("%s, want %s", act.Command, want)
		}
	}
}
