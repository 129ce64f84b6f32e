package operator

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"remit/internal/apikey"
	"remit/internal/store"
	"remit/internal/wallet"
)

// A record is a command's place in the audit log.
type record struct {
	command string
	log     store.AuditLog // nil until the operator has agreed
	entry   store.Act
}

// recordKey is the key of a context's record.
type recordKey struct{}

// Recorded returns a context whose command the audit log tells of: when the operator
// agrees to its consequences, before anything changes, and when it ends. args is the
// command line.
func Recorded(ctx context.Context, args []string) context.Context {
	return context.WithValue(ctx, recordKey{}, &record{command: strings.Join(args, " ")})
}

// errUnrecorded reports a command whose context is not Recorded's.
var errUnrecorded = errors.New("nothing was changed: the audit log does not know the command")

// recorded is ask, and a consent that it got is in the audit log when it returns. So
// every command that asks is in the log, and one that cannot be logged changes
// nothing.
func (d *deployment) recorded(ctx context.Context, ask func(yes bool, consequences string) error) func(bool, string) error {
	return func(yes bool, consequences string) error {
		if err := ask(yes, consequences); err != nil {
			return err
		}
		r, ok := ctx.Value(recordKey{}).(*record)
		if !ok {
			return errUnrecorded
		}
		who, err := d.who(ctx)
		if err != nil {
			return fmt.Errorf("nothing was changed: asking who you are, for the audit log: %w", err)
		}
		log, err := d.auditLog()
		if err != nil {
			return err
		}
		r.entry = store.Act{ID: cmp.Or(r.entry.ID, rand.Text()[:12]), At: time.Now().UTC(), Who: who, Command: r.command, Effect: consequences,
			Outcome: store.Begun}
		if err := log.Append(ctx, r.entry); err != nil {
			if errors.Is(err, errUncopied) {
				r.log = log // for its end
			}
			return fmt.Errorf("nothing was changed: %w", err)
		}
		r.log = log
		return nil
	}
}

// refusals are the errors with which a store has changed nothing.
var refusals = []error{store.ErrChanged, wallet.ErrUnknown, wallet.ErrNoKey, apikey.ErrNotFound, apikey.ErrExists, apikey.ErrLimit,
	apikey.ErrNotPermitted, apikey.ErrTerms, errUncopied}

// Ended notes in the audit log how a command ended that returned err, and returns
// err. A crash before leaves the command as begun. A command that changes several
// things wraps no refusal once it has changed one.
func Ended(ctx context.Context, err error) error {
	r, ok := ctx.Value(recordKey{}).(*record)
	if !ok || r.log == nil {
		return err
	}
	end := r.entry
	end.At, end.Effect, end.Outcome = time.Now().UTC(), "", store.Done
	if err != nil {
		end.Effect, end.Outcome = err.Error(), store.Unknown
		if slices.ContainsFunc(refusals, func(refusal error) bool { return errors.Is(err, refusal) }) {
			end.Outcome = store.NotDone
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if logged := r.log.Append(ctx, end); logged != nil {
		return errors.Join(err, fmt.Errorf("the command is %s, and the audit log does not have its end in both places: %w", end.Outcome, logged))
	}
	return err
}

// AuditLog is `remit audit-log`.
type AuditLog struct {
	Target
	Since time.Duration `default:"720h" help:"How far back."`
}

// Run shows the commands of a time, oldest first, each with its end. One whose end is
// not there is unknown: it was cut off, or is still at work.
func (c *AuditLog) Run(ctx context.Context, d *deployment) error {
	log, err := d.auditLog()
	if err != nil {
		return err
	}
	entries, err := log.Acts(ctx, time.Now().Add(-c.Since))
	if err != nil {
		return err
	}
	type row struct {
		At      stamp         `json:"at"`
		Who     string        `json:"who"`
		Command string        `json:"command"`
		Effect  string        `json:"agreed_to"`
		Outcome store.Outcome `json:"outcome"`
		Error   string        `json:"error,omitempty"`
	}
	rows, text := []row{}, ""
	for i, e := range entries {
		if e.Outcome != store.Begun {
			continue
		}
		r := row{At: stamp(e.At), Who: e.Who, Command: e.Command, Effect: e.Effect, Outcome: store.Unknown}
		for _, end := range entries[i:] {
			if end.ID == e.ID && end.Outcome != store.Begun {
				r.Outcome, r.Error = end.Outcome, end.Effect
			}
		}
		rows, text = append(rows, r), text+fmt.Sprintf("%s  %-8s  %s  remit %s\n", r.At, r.Outcome, r.Who, r.Command)
	}
	return d.show(rows, text)
}
