package merchant

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"
	"golang.org/x/term"

	"github.com/remit-payouts/remit/internal/evm/token"
	remit "github.com/remit-payouts/remit/sdk/go"
)

// Pay is `remit pay`.
type Pay struct {
	File        string        `arg:"" type:"existingfile" help:"A CSV file with a header: address, amount (whole tokens, as 12.5) or amount_units (the token's smallest unit), reference and asset (its name in GET /assets, or a symbol that no other has)."`
	URL         string        `env:"REMIT_URL" default:"http://127.0.0.1:8080" help:"Where the API is."`
	Key         string        `env:"REMIT_API_KEY" required:"" help:"API key. Another merchant's key pays all again."`
	Name        string        `name:"run" placeholder:"NAME" help:"Name of this payout. Another name pays all again."`
	Asset       string        `help:"What to pay if the file does not say; the default if empty. A run pays one asset."`
	Batch       bool          `help:"Pay up to 100 rows in a transaction, all or none. A run keeps its mode."`
	Propose     bool          `help:"Propose the rows, for another key to approve. Nothing is paid now."`
	NotBefore   time.Time     `placeholder:"TIME" help:"With --propose: when they are due, as 2026-01-30T09:00:00Z."`
	DryRun      bool          `help:"Show the payments, and pay nothing."`
	Yes         bool          `help:"Do not ask."`
	Duplicates  bool          `help:"Pay rows that repeat an earlier row too, without asking."`
	Concurrency int           `default:"16" help:"Requests at once."`
	Wait        bool          `help:"Wait until every payment is final."`
	Patience    time.Duration `default:"2m" help:"How long to retry a row without an answer."`
}

// The statuses of a row in the file of results. A payment's own are beside them: pending, confirmed, failed.
const (
	notSent = "not_sent" // the run ended before its turn
	refused = "refused"  // the API refused it, and nothing was paid
	unknown = "unknown"  // no answer: the payment may have been made; the same run again finds out
)

// A NothingNew reports a run whose rows were all paid and confirmed by an earlier run. Its exit code is 3.
type NothingNew struct{ text string }

func (e *NothingNew) Error() string { return e.text }

// ExitCode is the exit status of the command.
func (e *NothingNew) ExitCode() int { return 3 }

// An Incomplete reports a run in which not every row was confirmed. Its exit code is 2 if the
// other rows are pending, and 1 if any row was refused, failed or is unknown.
type Incomplete struct {
	Rows   int            // of the file
	Counts map[string]int // rows of each status
	Advice string

	Interrupted bool // by Ctrl-C or SIGTERM
}

func (e *Incomplete) Error() string {
	var parts []string
	for _, status := range []string{"confirmed", "pending", "failed", refused, unknown, notSent} {
		if n := e.Counts[status]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(status, "_", " ")))
		}
	}
	return map[bool]string{true: "interrupted: "}[e.Interrupted] +
		fmt.Sprintf("of %s %s%s", counted(e.Rows, "row"), strings.Join(parts, ", "), e.Advice)
}

// ExitCode is the exit status of the command.
func (e *Incomplete) ExitCode() int {
	if e.Counts["confirmed"]+e.Counts["pending"] == e.Rows {
		return 2
	}
	return 1
}

// Validate checks the flags.
func (c *Pay) Validate() error {
	if c.Concurrency < 1 || c.Concurrency > 1000 {
		return fmt.Errorf("--concurrency %d: use 1 to 1000", c.Concurrency)
	}
	if c.Wait && c.Propose || !c.NotBefore.IsZero() && !c.Propose {
		return errors.New("--wait does not go with --propose, and --not-before only with it")
	}
	return nil
}

// A payout is one run of `remit pay`.
type payout struct {
	*Pay
	api  *remit.Client
	rows []*payRow
	coin remit.ListedAsset // of every row; while the file is read, the one asked for or the default

	out     io.Writer
	number  int        // of the next numbered payment; see paybatch.go
	first   string     // hash of the one with number 0; "" until it is found
	begins  string     // its hashes by the file of results: of the payment, and on the chain
	size    int        // rows of a batch
	failed  []string   // descriptions of payments that paid nobody
	lacking [][]string // results of paid rows that the file lacks
	goesOn  bool       // an earlier run did not see the end of every row
	open    time.Time  // until then, requests of the run before may still be carried out

	mu      sync.Mutex // of the rows' outcomes, the next step and the terminal
	written time.Time  // when the results were written last
	shown   int        // columns of the line on the terminal
}

// Run reads the file, shows the payments, asks for consent, and pays. FILE.results.csv gets the outcome of each row.
func (c *Pay) Run(ctx context.Context, out io.Writer) error {
	out = folding{out}
	p := &payout{Pay: c, api: connect(c.URL, c.Key), out: out, size: batchLimit}
	if err := p.read(ctx); err != nil {
		return explained(err, p.api)
	}
	if c.Propose {
		return explained(p.propose(ctx), p.api)
	}
	if info, err := os.Stat(p.results()); err == nil && info.Mode().IsRegular() && p.earlier() == nil {
		return fmt.Errorf("reading %s: it was not written by this command, or was changed; move it away", p.results())
	}
	p.goesOn, p.open = p.unfinished()
	err := p.look(ctx, false)
	if held, is := errors.AsType[*remit.Refused](err); is && held.Code == "proposal_open" {
		return fmt.Errorf("nothing was paid: this run is proposed (%s); another key approves it, or cancel it and "+
			"name another --run", regexp.MustCompile(`prp_\w+`).Find(held.Body))
	} else if err != nil {
		return fmt.Errorf("nothing was paid: %w", err)
	}
	if p.begins != "" && (p.first == "" || !strings.Contains(p.begins, p.first)) {
		return fmt.Errorf("nothing was paid: %s is of another stack, or tables were lost; move it away", p.results())
	}
	warnings := p.resembling(ctx)
	p.lacking = p.paidElse()
	for _, r := range p.rows {
		r.before = r.status
	}
	if err := p.summary(ctx, out, warnings); err != nil || c.DryRun {
		return err
	}
	if err := p.write(0); err != nil { // before the first payment: the hashes must have a place
		return err
	}
	err = p.payNumbered(ctx)
	if err == nil && p.number > 0 && !p.Batch {
		err = p.each(ctx, "Paying", unpaidKey, p.pay)
	}
	if err == nil && c.Wait {
		err = p.each(ctx, "Waiting", func(r *payRow) string { return map[bool]string{true: r.hash}[r.status == "pending"] }, p.await)
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
	file, err := os.ReadFile(p.File)
	if err != nil {
		return err
	}
	all, chosen, err := assetsOf(ctx, p.api, p.Asset)
	if err != nil {
		return err
	}
	p.coin = chosen
	bad, err := p.parse(file, all)
	if err != nil {
		return fmt.Errorf("%s: %w", p.File, err)
	}
	if len(bad) > 0 {
		return fmt.Errorf("%s: nothing was paid; correct these rows:\n  %s", p.File, strings.Join(bad, "\n  "))
	}
	var sum token.Amount
	for _, r := range p.rows {
		if sum, err = sum.Add(r.amount); err != nil {
			return fmt.Errorf("%s: the sum of the rows: %w", p.File, err)
		}
	}
	return nil
}

// each calls a function with the rows of each group, several groups at once, and shows how many rows of the file are
// done: those in no group ("") are. The first error ends it.
func (p *payout) each(ctx context.Context, title string, of func(*payRow) string, do func(context.Context, []*payRow) error) error {
	groups, order, done := map[string][]*payRow{}, []string{}, len(p.rows)
	for _, r := range p.rows {
		if name := of(r); name != "" {
			if groups[name] = append(groups[name], r); len(groups[name]) == 1 {
				order = append(order, name)
			}
			done--
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(p.Concurrency)
	for _, name := range order {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			rows := groups[name]
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

// progress replaces the line on the terminal, and ends it once all is done. The caller holds the lock.
func (p *payout) progress(title string, done int) {
	if term.IsTerminal(int(os.Stderr.Fd())) {
		text := fmt.Sprintf("%s: %d of %s", title, done, counted(len(p.rows), "row"))
		fmt.Fprintf(os.Stderr, "\r%-*s", p.shown, text)
		p.shown = utf8.RuneCountInString(text)
	}
	if done == len(p.rows) {
		p.leave()
	}
}

// leave begins a new line on the terminal after a line of progress.
func (p *payout) leave() {
	if p.shown > 0 {
		fmt.Fprintln(os.Stderr)
	}
	p.shown = 0
}

// unpaidKey groups the rows without a payment, each by its own key.
func unpaidKey(r *payRow) string { return map[bool]string{true: r.key}[r.status == ""] }

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
	case answered && refusal.Code == "idempotency_key_reused":
		p.lost(r, refused, cmp.Or(p.cancelled(ctx, r.key), why(refusal)))
	case answered:
		p.lost(r, refused, why(refusal))
	case ctx.Err() != nil:
		p.lost(r, unknown, "the command was interrupted before the answer")
	default:
		p.lost(r, unknown, Plain(err))
	}
	return p.write(time.Second)
}

// ask requests a payment until its outcome is known or the time is over. After a request without an answer, of this
// run or the one before, which may still be carried out, a refusal of the next one leaves the outcome unknown.
func (p *payout) ask(ctx context.Context, key string, asked any) (remit.Payment, error) {
	lost, ctx := time.Now().Before(p.open), touching(ctx, p.results())
	made, err := retried(ctx, p.Patience, func() (remit.Payment, error) {
		made, err := p.api.Attempt(ctx, key, asked)
		open, is := errors.AsType[*remit.OutcomeUnknown](err)
		lost = lost || is && open.Last.Status != 429 && !strings.Contains(string(open.Last.Body), `"payment_rail_unavailable"`)
		return made, err
	})
	if refusal, is := errors.AsType[*remit.Refused](err); is && lost && refusal.Code != "idempotency_key_reused" {
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
	}
	r.stage = string(made.Progress)
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

func why(refusal *remit.Refused) string {
	return strings.TrimSpace(refusal.Code + " " + refusal.Detail)
}

// retried repeats a request until its answer is final or the time is over. It waits as long
// as the API asks, and otherwise twice as long each time, from half a second to half a minute.
func retried[T any](ctx context.Context, patience time.Duration, do func() (T, error)) (T, error) {
	end := time.Now().Add(patience)
	for wait := 500 * time.Millisecond; ; wait = min(2*wait, 30*time.Second) {
		value, err := do()
		open, again := errors.AsType[*remit.OutcomeUnknown](err)
		if !again {
			return value, err
		}
		wanted := wait
		if seconds, _ := strconv.ParseUint(open.Last.Header.Get("Retry-After"), 10, 20); seconds > 0 { // 12 days
			wanted = time.Duration(seconds) * time.Second
		}
		if time.Now().Add(wanted).After(end) {
			return value, err
		}
		if ended := pause(ctx, wanted); ended != nil {
			return value, errors.Join(err, ended)
		}
	}
}

func (p *payout) ended(ctx context.Context, out io.Writer) error {
	p.leave()
	if ctx.Err() == nil {
		p.problems(out)
	}
	counts := map[string]int{}
	for _, r := range p.rows {
		counts[r.status]++
	}
	now := p.of(func(r *payRow) bool { return r.before == "" && r.hash != "" && r.status != "failed" })
	before := p.of(func(r *payRow) bool { return r.before != "" && r.hash != "" && r.status != "failed" })
	then := ""
	if before.rows > 0 {
		then = "; paid now: " + counted(now.rows, "row") + ", " + p.tokens(now.sum) + "; before: " + before.text(p)
	}
	if counts["confirmed"] == len(p.rows) {
		if now.rows == 0 && !p.goesOn && p.of(func(r *payRow) bool { return r.before != r.status }).rows == 0 {
			return &NothingNew{"nothing new: " + before.text(p) + ", paid before; name another payout with --run"}
		}
		all := p.of(func(*payRow) bool { return true })
		are := map[bool]string{true: "the row is", false: fmt.Sprintf("all %d rows are", all.rows)}[all.rows == 1]
		_, err := fmt.Fprintf(out, "%s confirmed, %s%s; %s has the hashes\n", are, p.tokens(all.sum), then, p.results())
		return err
	}
	advice := then + "; " + p.results() + " has each"
	switch {
	case counts[unknown]+counts[notSent] > 0:
		advice += "; run the same command again: nothing is paid twice"
	case counts["pending"] > 0 && counts["pending"]+counts["confirmed"] == len(p.rows):
		advice += "; run the same command again with --wait to see their end"
	}
	return &Incomplete{Rows: len(p.rows), Counts: counts, Advice: advice, Interrupted: ctx.Err() != nil}
}

// problems lists why rows were not paid, and several lines with the same reason as one.
func (p *payout) problems(out io.Writer) {
	problem := func(r *payRow) string {
		return cmp.Or(map[bool]string{true: r.stage}[strings.HasPrefix(r.stage, "waiting")], r.problem)
	}
	for i, r := range p.rows {
		same := func(i int) bool { return p.rows[i].status == r.status && problem(p.rows[i]) == problem(r) }
		if problem(r) == "" || i > 0 && same(i-1) {
			continue
		}
		lines, end := fmt.Sprint("line ", r.line), i
		for ; end+1 < len(p.rows) && same(end+1); end++ {
			lines = fmt.Sprintf("lines %d to %d", r.line, p.rows[end+1].line)
		}
		fmt.Fprintf(out, "  %s %s: %s\n", lines, r.status, problem(r))
	}
}
