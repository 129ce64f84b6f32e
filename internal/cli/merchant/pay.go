package merchant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	remit "github.com/remit-payouts/remit/sdk/go"
)

// Pay is `remit pay`.
type Pay struct {
	File       string        `arg:"" type:"existingfile" help:"CSV: address, amount or amount_units, reference, asset."`
	URL        string        `env:"REMIT_URL" default:"http://127.0.0.1:8080" help:"Where the API is."`
	Key        string        `env:"REMIT_API_KEY" required:"" help:"API key. Another merchant's key pays all again."`
	Name       string        `name:"run" default:" " placeholder:"NAME" help:"Another name is another payout."`
	Asset      string        `default:"default" help:"What to pay if the file does not say. A run pays one asset."`
	Batch      bool          `help:"Pay up to 100 rows in a transaction, all or none. A run keeps its mode."`
	Propose    bool          `help:"Propose the rows, for another key to approve. Nothing is paid now."`
	NotBefore  time.Time     `placeholder:"TIME" help:"With --propose: when they are due, as 2026-01-30T09:00:00Z."`
	DryRun     bool          `help:"Show the payments, and pay nothing."`
	Yes        bool          `help:"Do not ask."`
	Duplicates bool          `help:"Pay rows that repeat an earlier row too, without asking."`
	Again      bool          `help:"Pay rows too that another run or program has paid, without asking."`
	Changed    bool          `help:"Pay rows too that this run has paid with another amount or reference."`
	Wait       bool          `help:"Wait until every payment is final."`
	Patience   time.Duration `default:"2m" help:"How long to retry a row without an answer."`
}

// The statuses of a row in the file of results. A payment's own are beside them: pending, confirmed, failed.
const (
	notSent = "not_sent" // the run ended before its turn
	refused = "refused"  // the API refused it, and nothing was paid
	unknown = "unknown"  // no answer: the payment may have been made; the same run again finds out
)

// An Ended reports a run that paid nothing new (exit status 3), or with rows that are pending (2) or worse (1).
type Ended struct {
	text   string
	status int
}

func (e *Ended) Error() string { return e.text }

// ExitCode is the exit status of the command.
func (e *Ended) ExitCode() int { return e.status }

// A payout is one run of `remit pay`.
type payout struct {
	*Pay
	api   *remit.Client
	rows  []*payRow
	coin  remit.ListedAsset // of every row; while the file is read, the one asked for or the default
	named bool              // the file has a column of assets

	out     io.Writer
	number  int        // of the next numbered payment; see paybatch.go
	first   string     // hash of the one with number 0; "" until it is found
	begins  string     // its hashes by the file of results: of the payment, and on the chain
	size    int        // rows of a batch; the API takes 100
	failed  []string   // descriptions of payments that paid nobody
	lacking [][]string // results of paid rows that the file lacks
	goesOn  bool       // an earlier run did not see the end of every row
	open    time.Time  // until then, requests of the run before may still be carried out

	mu      sync.Mutex  // of the rows' outcomes, the next step and the terminal
	written time.Time   // when the results were written last
	silent  atomic.Bool // the API has given a row no answer: no more are begun
}

// Run reads the file, shows the payments, asks for consent, and pays. FILE.results.csv gets the outcome of each row.
func (c *Pay) Run(ctx context.Context, out io.Writer) error {
	out = folding{out}
	p := &payout{Pay: c, api: connect(c.URL, c.Key), out: out, size: 100}
	if err := p.read(ctx); err != nil {
		return explained(err, p.api)
	}
	if c.Propose {
		return explained(p.propose(ctx), p.api)
	}
	if info, err := os.Stat(p.results()); err == nil && info.Mode().IsRegular() && p.earlier() == nil {
		return fmt.Errorf("reading %s: it was not written by this command, or was changed; restore it: "+
			"without it, changed rows are paid again", p.results())
	}
	p.goesOn, p.open = p.unfinished()
	err := p.look(ctx, false)
	open, is := errors.AsType[*remit.Refused](err)
	is = is && open.Code == "proposal_open"
	if is || err == nil && p.of(func(r *payRow) bool { return r.status == "" }).rows > 0 {
		held, unread := p.proposed(ctx, p.batchKey(0))
		if err = errors.Join(err, unread); held != nil {
			err = fmt.Errorf("this run is proposed (%s is %s); add --propose", held.ID, held.Status)
		}
	}
	if err != nil {
		return fmt.Errorf("nothing was paid: %w", err)
	}
	if p.begins != "" && (p.first == "" || !strings.Contains(p.begins, p.first)) {
		return fmt.Errorf("nothing was paid: %s is of another stack or merchant, or tables were lost; use the --url "+
			"and --key that paid it, or ask the operator; without the file all rows are paid again", p.results())
	}
	p.lacking = p.paidElse()
	if err := p.summary(ctx, out); err != nil || c.DryRun {
		return err
	}
	if err := p.write(0); err != nil { // before the first payment: the hashes must have a place
		return err
	}
	err = p.payNumbered(ctx)
	if err == nil && p.number > 0 && !p.Batch {
		err = p.each(ctx, "Paying", "", p.pay)
	}
	if err == nil && c.Wait {
		err = p.each(ctx, "Waiting", "pending", p.await)
	}
	for _, r := range p.rows {
		if r.status == "" {
			r.status = notSent
		}
	}
	if ctx.Err() != nil {
		err = nil // the rows show how far it came
	}
	if failed := errors.Join(err, p.write(0)); failed != nil {
		return failed
	}
	return p.ended(ctx, out)
}

func (p *payout) read(ctx context.Context) error {
	if p.Name == "" {
		return errors.New("--run is empty, perhaps for an unset variable: name the payout, or leave --run out")
	}
	p.Name = strings.TrimSpace(p.Name)
	if p.Wait && p.Propose || !p.NotBefore.IsZero() && !p.Propose {
		return errors.New("--wait does not go with --propose, and --not-before only with it")
	}
	file, err := os.ReadFile(p.File)
	if err != nil {
		return err
	}
	var all []remit.ListedAsset
	if all, p.coin, err = assetsOf(ctx, p.api, p.Asset); err != nil { // "" is perhaps of a variable that is not set
		return err
	}
	bad, err := p.parse(file, all)
	if err != nil {
		return fmt.Errorf("%s: %w", p.File, err)
	}
	if more := len(bad) - 20; more > 0 {
		bad = append(bad[:20], "and "+counted(more, "more wrong row"))
	}
	if len(bad) > 0 {
		return fmt.Errorf("%s: nothing was paid; correct these rows:\n  %s", p.File, strings.Join(bad, "\n  "))
	}
	return nil
}

// each calls do with the rows of each payment of a status, several at once, until an error, and shows how far it is.
func (p *payout) each(ctx context.Context, title, status string, do func(context.Context, []*payRow) error) error {
	groups, order, done := map[string][]*payRow{}, []string{}, len(p.rows)
	for _, r := range p.rows {
		if r.status == status {
			if groups[r.key] = append(groups[r.key], r); len(groups[r.key]) == 1 {
				order = append(order, r.key)
			}
			done--
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for _, key := range order {
		group.Go(func() error {
			if ctx.Err() != nil || p.silent.Load() {
				return ctx.Err()
			}
			rows := groups[key]
			if err := do(ctx, rows); err != nil {
				return fmt.Errorf("line %d: %w", rows[0].line, err)
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			done += len(rows)
			p.progress(title, done)
			return nil
		})
	}
	return group.Wait()
}

// progress shows a line on the terminal, which the next one replaces. The caller holds the lock.
func (p *payout) progress(title string, done int) {
	if term.IsTerminal(int(os.Stderr.Fd())) {
		fmt.Fprintf(os.Stderr, "%-40s\r", fmt.Sprintf("%s: %d of %s", title, done, counted(len(p.rows), "row")))
	}
}

// pay asks for a row's payment until the API reports its outcome.
func (p *payout) pay(ctx context.Context, rows []*payRow) error {
	r := rows[0] // of its key
	made, err := p.ask(ctx, r.key, r.order())
	refusal, answered := errors.AsType[*remit.Refused](err)
	switch {
	case err == nil:
		p.noted(r, made)
	case answered && shut(refusal):
		return fmt.Errorf("%w; use another --key, since this one can pay no row", err)
	case answered:
		p.lost(r, refused, why(refusal))
	default:
		p.lost(r, unknown, Plain(err))
		open, is := errors.AsType[*remit.OutcomeUnknown](err)
		p.silent.CompareAndSwap(false, is && open.Last.Status == 0)
	}
	return p.write(time.Second)
}

// ask requests a payment until its outcome is known or the time is over. After a request without an answer, of this
// run or the one before, which may still be carried out, or beside a proposal, a refusal leaves the outcome unknown.
func (p *payout) ask(ctx context.Context, key string, asked any) (remit.Payment, error) {
	lost := time.Now().Before(p.open)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) {
		_ = os.Chtimes(p.results(), time.Time{}, time.Now()) // just before each request leaves
	}})
	made, err := retried(ctx, p.Patience, func() (remit.Payment, error) {
		made, err := p.api.Attempt(ctx, key, asked)
		o, is := errors.AsType[*remit.OutcomeUnknown](err)
		lost = lost || is && o.Last.Status != 429 && !strings.Contains(string(o.Last.Body), "payment_rail_unavailable")
		return made, err
	})
	switch refusal, is := errors.AsType[*remit.Refused](err); {
	case is && refusal.Code == "proposal_open":
		err = errors.New(refusal.Error() + "; its proposal may still pay: have it approved or cancelled")
	case is && lost && refusal.Code != "idempotency_key_reused":
		err = errors.New(refusal.Error() + ", but one before may still pay: run the same command again in 71 seconds")
	}
	return made, err
}

func (p *payout) await(ctx context.Context, rows []*payRow) error {
	for {
		now, err := retried(ctx, p.Patience, func() (remit.Payment, error) { return p.api.Get(ctx, rows[0].hash) })
		if err != nil {
			return err
		}
		for _, r := range rows {
			p.noted(r, now)
		}
		if now.Status != "pending" {
			return p.write(time.Second)
		}
		if err := pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

func (p *payout) noted(r *payRow, made remit.Payment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.status, r.hash, r.onChain, r.made = string(made.Status), made.TxHash, made.OnchainTxHash, made.CreatedAt
	if made.BlockNumber != nil {
		r.block = fmt.Sprint(*made.BlockNumber)
	}
	if r.problem = ""; made.Failure != nil {
		r.problem = strings.TrimSpace(string(made.Failure.Code) + " " + made.Failure.Message)
	} else if strings.HasPrefix(string(made.Progress), "waiting") {
		r.problem = string(made.Progress)
	}
}

func (p *payout) lost(r *payRow, status, problem string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.status, r.problem = status, strings.ReplaceAll(problem, "\n", "; ") // a record is a line
}

// inProgress reports whether a payment was accepted and is not signed: it may be made.
func inProgress(err error) bool {
	open, ok := errors.AsType[*remit.OutcomeUnknown](err)
	return ok && open.Last.Status == http.StatusConflict
}

// shut reports whether the key lacks the permission.
func shut(refusal *remit.Refused) bool {
	return refusal.Status == http.StatusUnauthorized ||
		refusal.Status == http.StatusForbidden && refusal.Code != "approval_required" // of this row
}

// why is a refusal's code and reason; of a 422, the first one.
func why(refusal *remit.Refused) string {
	reason, items := refusal.Detail, []remit.InvalidItem{}
	if json.Unmarshal([]byte(reason), &items) == nil && len(items) > 0 { // a sentence is no list
		reason = items[0].Msg
	}
	return strings.TrimSpace(refusal.Code + " " + reason)
}

// retried repeats a request until its answer is final or the time is over, as the API asks or with a growing pause.
func retried[T any](ctx context.Context, patience time.Duration, do func() (T, error)) (T, error) {
	end := time.Now().Add(patience)
	for wait := 500 * time.Millisecond; ; wait = min(2*wait, 30*time.Second) {
		value, err := do()
		open, again := errors.AsType[*remit.OutcomeUnknown](err)
		if again && ctx.Err() != nil {
			return value, errors.New("interrupted before its answer; run it again")
		} else if !again {
			return value, err
		}
		wanted := wait
		if seconds, _ := strconv.ParseUint(open.Last.Header.Get("Retry-After"), 10, 20); seconds > 0 { // 12 days
			wanted = time.Duration(seconds) * time.Second
		}
		if time.Now().Add(wanted).After(end) {
			return value, err
		}
		_ = pause(ctx, wanted) // if it is interrupted, the next attempt ends at once
	}
}

func (p *payout) ended(ctx context.Context, out io.Writer) error {
	p.problems(out)
	counts := map[string]int{}
	for _, r := range p.rows {
		counts[r.status]++
	}
	now := p.of(func(r *payRow) bool { return r.before == "" && r.hash != "" && r.status != "failed" })
	before := p.of(func(r *payRow) bool { return r.before != "" && r.hash != "" && r.status != "failed" })
	then := ""
	if before.rows > 0 {
		then = "; made now: " + counted(now.rows, "row") + ", " + p.tokens(now.sum) + "; before: " + before.text(p)
	}
	if counts["confirmed"] == len(p.rows) {
		if now.rows == 0 && !p.goesOn && p.of(func(r *payRow) bool { return r.before != r.status }).rows == 0 {
			return &Ended{"nothing new: " + before.text(p) + ", confirmed before", 3}
		}
		all := p.of(func(*payRow) bool { return true })
		_, err := fmt.Fprintf(out, "confirmed: %s%s; %s has the hashes\n", all.text(p), then, p.results())
		return err
	}
	var parts []string
	for _, status := range []string{"confirmed", "pending", "failed", refused, unknown, notSent} {
		if n := counts[status]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(status, "_", " ")))
		}
	}
	end := &Ended{fmt.Sprintf("of %s %s%s; %s has each", counted(len(p.rows), "row"), strings.Join(parts, ", "), then, p.results()), 1}
	switch {
	case counts[unknown]+counts[notSent] > 0:
		end.text += "; run the same command again: nothing is paid twice"
	case counts["pending"]+counts["confirmed"] == len(p.rows):
		end.text += "; run the same command again with --wait to see their end"
		end.status = 2
	}
	if ctx.Err() != nil {
		end.text = "interrupted: " + end.text
	}
	return end
}

// problems lists why rows were not paid, and several lines with the same reason as one.
func (p *payout) problems(out io.Writer) {
	for i, r := range p.rows {
		same := func(i int) bool { return p.rows[i].status == r.status && p.rows[i].problem == r.problem }
		if r.problem == "" || i > 0 && same(i-1) {
			continue
		}
		lines, end := fmt.Sprint("line ", r.line), i
		for ; end+1 < len(p.rows) && same(end+1); end++ {
			lines = fmt.Sprintf("lines %d to %d", r.line, p.rows[end+1].line)
		}
		fmt.Fprintf(out, "  %s %s: %s\n", lines, r.status, r.problem)
	}
}
