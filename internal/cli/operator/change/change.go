// Package change has the one way in which operators' commands change a stack: they show, ask, log, act, log and answer.
package change

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// A Command is a command that changes a stack, with the command line C.
type Command[C Line] struct {
	deployed.Target
	Line C    `embed:""`
	Yes  bool `help:"Do not ask."`
}

// A Line is the command line of a Command. Change reads and checks; it changes nothing.
type Line interface {
	Change(ctx context.Context, d *deployed.Deployment) (Change, error)
}

// A railed line is of the rail of a wallet; of the zero address: of the rail that --rail names.
type railed interface{ Of() token.Address }

// A Change describes the effect of a command.
type Change struct {
	Consequences string
	Agreed       bool                                  // by an earlier command: it is shown, and not asked for
	Apply        func(context.Context) (Answer, error) // nil: there is nothing to do but to answer
	Answer       Answer
}

// An Answer is how a command ended: text, and a value for --json, nil if it has no more to say than the text.
type Answer struct {
	JSON any
	Text string
}

// None is the change of a command that has nothing to do.
func None(text string) Change { return Change{Answer: Answer{Text: text}} }

// Write returns the change that one write makes, with its answer.
func Write(consequences, text string, write func(context.Context) error) Change {
	return Change{Consequences: consequences, Apply: func(ctx context.Context) (Answer, error) {
		return Answered(write(ctx), nil, text)
	}}
}

// Answered returns an answer, or none with an error.
func Answered(err error, json any, text string) (Answer, error) {
	if err != nil {
		return Answer{}, err
	}
	return Answer{json, text}, nil
}

// Run finds the change, and makes it if the operator agrees. Its answer is shown also beside an error.
func (c *Command[C]) Run(ctx context.Context, d *deployed.Deployment) error {
	if line, ok := any(c.Line).(railed); ok {
		var err error
		if d, err = d.Of(ctx, line.Of()); err != nil {
			return err
		}
	}
	change, err := c.Line.Change(ctx, d)
	if err != nil {
		return err
	}
	answer := change.Answer
	if change.Apply != nil {
		answer, err = change.recorded(ctx, d, c.Yes)
	}
	switch {
	case answer.JSON == nil && answer.Text == "":
		return err
	case answer.JSON == nil:
		answer.JSON = map[string]string{"done": answer.Text}
	}
	return errors.Join(d.Show(answer.JSON, answer.Text), err)
}

// A record has a command's line for the audit log, how it asks for consent, and, once it is made, who makes the change.
type record struct {
	command string
	ask     func(ctx context.Context, yes bool, consequences string) error
	who     string
}

type recordKey struct{}

// address is a URL. Its parts other than scheme and host may be a provider's key.
var address = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)(?:[^/?#\s]*@)?([^/?#,\s]*)[^\s]*`)

// Recorded returns a context for a command, of which args is the line. It asks for consent as Ask does.
func Recorded(ctx context.Context, args []string, ask func(context.Context, bool, string) error) context.Context {
	var line []string
	for _, arg := range args {
		if arg = address.ReplaceAllString(arg, "$1$2/…"); arg == "" || strings.ContainsAny(arg, " \t\n\"'\\") {
			arg = strconv.Quote(arg)
		}
		line = append(line, arg)
	}
	return context.WithValue(ctx, recordKey{}, record{command: strings.Join(line, " "), ask: ask})
}

// By returns who makes the change for which Apply got ctx, as the audit log names them: at most their last 256 bytes.
func By(ctx context.Context) string {
	who := ctx.Value(recordKey{}).(record).who
	return who[max(0, len(who)-256):]
}

// recorded makes a change between two entries of the audit log, or none without the first. A crash leaves it "begun".
func (c Change) recorded(ctx context.Context, d *deployed.Deployment, yes bool) (answer Answer, err error) {
	r := ctx.Value(recordKey{}).(record) // of Recorded
	if err := r.ask(ctx, yes || c.Agreed, c.Consequences); err != nil {
		return answer, err
	}
	if r.who, err = d.Who(ctx); err != nil {
		return answer, fmt.Errorf("nothing was changed: asking who you are, for the audit log: %w", err)
	}
	entry := store.Act{ID: rand.Text()[:12], At: time.Now().UTC(), Who: r.who, Command: r.command,
		Effect: shortened(c.Consequences), Outcome: store.Begun}
	switch err = d.AuditLog.Append(ctx, entry); {
	case err == nil:
		answer, err = c.Apply(context.WithValue(ctx, recordKey{}, r))
	case errors.Is(err, deployed.ErrUncopied):
		err = fmt.Errorf("nothing was changed: %w", err)
	default:
		return answer, fmt.Errorf("nothing was changed: %w", err)
	}
	return answer, ended(ctx, d.AuditLog, entry, err)
}

// longest is the most bytes of text in an entry: a table's item holds 400 KB, and an event of the log 256 KB.
const longest = 64 << 10

func shortened(text string) string {
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest], "") + "\n… (shortened)"
}

// ErrUnchanged is wrapped by the error of a command that has changed nothing.
var ErrUnchanged = errors.New("nothing was changed")

// refusals are errors after which nothing is changed. A change of several things wraps none once it has changed one.
var refusals = []error{store.ErrChanged, settings.ErrFixed, wallet.ErrUnknown, wallet.ErrNoKey, apikey.ErrExists,
	ErrUnchanged, apikey.ErrNotFound, apikey.ErrLimit, apikey.ErrNotPermitted, apikey.ErrTerms, deployed.ErrUncopied}

// ended logs the outcome of an entry's command, which returned err, and returns err.
func ended(ctx context.Context, log store.AuditLog, entry store.Act, err error) error {
	entry.At, entry.Effect, entry.Outcome = time.Now().UTC(), "", store.Done
	if err != nil {
		entry.Effect, entry.Outcome = shortened(err.Error()), store.Unknown
		if slices.ContainsFunc(refusals, func(refusal error) bool { return errors.Is(err, refusal) }) {
			entry.Outcome = store.NotDone
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if logged := log.Append(ctx, entry); logged != nil {
		return errors.Join(err, fmt.Errorf("the command is %s, and the audit log lacks it: %w", entry.Outcome, logged))
	}
	return err
}

// ErrDeclined reports that the operator did not consent.
var ErrDeclined = errors.New("this command did nothing; answer y at a terminal, or add --yes")

// Ask shows the consequences of a command and asks for consent. Without a terminal to ask on, consent is --yes.
func Ask(ctx context.Context, yes bool, consequences string) error {
	fmt.Fprintln(os.Stderr, consequences)
	if yes {
		return nil
	}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return ErrDeclined
	}
	fmt.Fprint(os.Stderr, "Go on? [y/N] ")
	in, agreed := bufio.NewReader(os.Stdin), make(chan bool, 1)
	go func() { // which nothing ends but an answer
		answer, err := in.ReadString('\n')
		agreed <- err == nil && strings.EqualFold(strings.TrimSpace(answer), "y")
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(os.Stderr)
		return fmt.Errorf("%w: %w", ErrUnchanged, ctx.Err())
	case yes = <-agreed:
	}
	if !yes {
		return ErrDeclined
	}
	return nil
}

// Log is `remit audit-log`.
type Log struct {
	deployed.Target
	Since time.Duration `default:"720h" help:"How far back."`
}

// Run lists the commands since a time, oldest first. The outcome of one that was cut off, or still runs, is unknown.
func (c *Log) Run(ctx context.Context, d *deployed.Deployment) error {
	entries, err := d.AuditLog.Acts(ctx, time.Now().Add(-c.Since))
	if err != nil {
		return err
	}
	type row struct {
		At      deployed.Stamp `json:"at"`
		Who     string         `json:"who"`
		Command string         `json:"command"`
		Effect  string         `json:"agreed_to"`
		Outcome store.Outcome  `json:"outcome"`
		Error   string         `json:"error,omitempty"`
	}
	rows, text := []row{}, ""
	for i, e := range entries {
		if e.Outcome != store.Begun {
			continue
		}
		r := row{At: deployed.Stamp(e.At), Who: e.Who, Command: e.Command, Effect: e.Effect, Outcome: store.Unknown}
		for _, end := range entries[i:] {
			if end.ID == e.ID && end.Outcome != store.Begun {
				r.Outcome, r.Error = end.Outcome, end.Effect
			}
		}
		rows, text = append(rows, r), text+fmt.Sprintf("%s  %-8s  %s  remit %s\n", r.At, r.Outcome, r.Who, r.Command)
	}
	if len(rows) == 0 {
		text = "no change by an operator in this time; look further back with --since\n"
	}
	return d.Show(rows, text)
}
