package merchant

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/big"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	remit "github.com/remit-payouts/remit/sdk/go"
)

// MCP is `remit mcp`, a server of the Model Context Protocol on standard input and output.
type MCP struct {
	URL   string `env:"REMIT_URL" default:"http://127.0.0.1:8080" help:"Where the API is."`
	Key   string `env:"REMIT_API_KEY" required:"" help:"API key to use. Its limits are the agent's limits."`
	State string `type:"path" default:"~/.local/state/remit" help:"Where to note payments before they are sent. Must survive a restart."`

	Transport mcp.Transport `kong:"-"` // nil is standard input and output
}

// Limits of what a tool works and answers.
const (
	patience  = 50 * time.Second // of a call: clients of the protocol wait a minute
	lookBack  = 24 * time.Hour   // for a payment of the same amount to the same recipient
	mostRead  = 10_000           // payments of a list
	mostShown = 20               // payments or recipients of an answer
)

// instructions are what a model reads before the tools.
const instructions = `Pays a stablecoin. Money cannot be called back.
Every payment has an intent: the name, in the user's own records, of what is paid (order id, invoice number, "salary 2026-11 Ann").
After an error, a timeout or a restart, call pay again with the SAME intent: it pays once.
Never make an intent from chance or the time, and never change its spelling: another intent is another payment.`

// Run serves the tools until standard input ends.
func (c *MCP) Run(ctx context.Context) error {
	notes, err := openNotes(c.State, c.URL)
	if err != nil {
		return err
	}
	api := &remit.Client{URL: c.URL, Key: c.Key, HTTP: &http.Client{Transport: noting{http.DefaultTransport}}}
	if c.Transport == nil {
		c.Transport = &mcp.StdioTransport{}
	}
	if err := agentServer(api, notes).Run(ctx, c.Transport); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("serving the Model Context Protocol: %w", err)
	}
	return nil
}

// An agent answers the tools.
type agent struct {
	api   *remit.Client
	notes notes

	mu    sync.Mutex
	token remit.Balance // for its symbol and decimals; zero until it is read
}

func agentServer(api *remit.Client, notes notes) *mcp.Server {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "remit", Version: version}, &mcp.ServerOptions{Instructions: instructions})
	a := &agent{api: api, notes: notes}
	tool(s, "pay", false, a.pay, `Pay an amount to an address, once per intent.
If a payment of the same amount to the same address was made in the last 24 hours under another intent, that one is returned and NOTHING is paid: it is probably the same payment. Only if the user wants a second one, call pay again with different_from set to its tx_hash.
After any error or timeout repeat the call with the same intent.`)
	tool(s, "find", true, a.find, "Find payments: the one of an intent, or the newest of the last days. Says whether something was paid already.")
	tool(s, "wait", true, a.wait, "Wait up to 50 seconds until a payment is final (confirmed or failed). One that is still pending needs another wait, not another payment.")
	tool(s, "limits", true, a.limits, "What this agent may pay, and what was paid today (UTC). Limits cannot be changed here.")
	tool(s, "address_book", true, a.book, "Addresses that the user has entered, with their labels. Compare every digit before you pay.")
	return s
}

// tool adds a tool. What its function returns is the answer; an error is one that the model reads.
func tool[In any](s *mcp.Server, name string, reads bool, do func(context.Context, In) (any, error), text string) {
	no := false
	t := &mcp.Tool{Name: name, Description: text, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: reads, IdempotentHint: true, DestructiveHint: &no}}
	mcp.AddTool(s, t, func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		out, err := do(ctx, in)
		if open, is := errors.AsType[*remit.OutcomeUnknown](err); is && name == "pay" {
			err = fmt.Errorf("UNKNOWN: the payment may have been made. Call pay again with the same intent. (%w)", open)
		} else if reused, is := errors.AsType[*remit.IntentReused](err); is {
			err = fmt.Errorf("nothing was paid: check what you want to pay, and name its own intent: %w", reused)
		} else if refusal, is := errors.AsType[*remit.Refused](err); is {
			err = fmt.Errorf("nothing was started: %w", refusal)
		}
		return nil, out, err
	})
}

type payment struct {
	Intent        string `json:"intent" jsonschema:"what is paid, as the user's records name it: an order id or invoice number. The same after every failure."`
	To            string `json:"to" jsonschema:"recipient: 0x and 40 hex digits, copied, never typed"`
	Amount        string `json:"amount" jsonschema:"in whole tokens, such as 12.50"`
	Reference     string `json:"reference,omitempty" jsonschema:"text to store with the payment"`
	DifferentFrom string `json:"different_from,omitempty" jsonschema:"tx_hash of the similar payment that a first call returned, if the user wants a second one"`
}

// pay pays once for an intent. It first waits until what is noted of another intent with the same amount and
// recipient is settled, and returns the newest such payment of the last day unless it is named.
func (a *agent) pay(ctx context.Context, in payment) (any, error) {
	key, err := remit.Key(in.Intent)
	if err != nil {
		return nil, err
	}
	unit, err := a.unit(ctx)
	if err != nil {
		return nil, err
	}
	amount, err := remit.ParseUnits(in.Amount, unit.Decimals)
	if err != nil {
		return nil, err
	}
	note, err := a.notes.lock(ctx, in.To, amount)
	if err != nil {
		return nil, err
	}
	defer note.unlock()
	own, err := a.stored(ctx, key)
	if err != nil {
		return nil, err
	}
	if own == nil {
		other, err := a.similar(ctx, note, key, in.To, amount)
		if err != nil {
			return nil, fmt.Errorf("nothing was sent; call pay again with the same intent: %w", err)
		}
		if other != nil && !strings.EqualFold(string(other.TxHash), in.DifferentFrom) {
			return answer(*other, "NOT paid again: the same amount was paid to this address under another intent. Is it the same payment? "+
				"If the user wants a second one, call pay with different_from set to this tx_hash.")
		}
	}
	if err := note.write(key); err != nil {
		return nil, err
	}
	made, err := a.api.Pay(note.on(ctx), in.Intent, remit.Order{To: in.To, Amount: amount, Reference: in.Reference})
	if err != nil {
		return nil, err
	}
	if own != nil {
		return answer(made, "Paid before under this intent; nothing more was paid.")
	}
	return answer(made, "Accepted: it is paid once. Call wait to see it become final.")
}

// similar returns the newest payment of the last day with that amount and recipient, nil if there is none.
func (a *agent) similar(ctx context.Context, n *note, key, to string, amount remit.Amount) (newest *remit.Payment, err error) {
	for { // until the other payment of the note is stored, or can be no more
		other, since, err := n.read()
		if err != nil {
			return nil, err
		}
		if other == "" || other == key || since > lookBack {
			break
		}
		if newest, err = a.stored(ctx, other); err != nil {
			return nil, err
		}
		if newest == nil && since > lifetime || newest != nil && newest.TxHash != "" {
			break
		}
		if err := pause(ctx, time.Second); err != nil {
			return nil, fmt.Errorf("another payment of this amount to this address is under way: %w", err)
		}
	}
	if newest != nil && (nothingMoved(*newest) || !pays(*newest, to, amount)) {
		newest = nil
	}
	for p, err := range a.recent(ctx, lookBack) {
		if err != nil {
			return nil, err
		}
		if pays(p, to, amount) && !nothingMoved(p) {
			if newest == nil || p.CreatedAt.After(newest.CreatedAt) {
				newest = &p
			}
			break
		}
	}
	return newest, nil
}

// nothingMoved reports that the payment is final and paid nobody.
func nothingMoved(p remit.Payment) bool {
	return p.Status == remit.PaymentStatusFailed && p.Failure != nil && p.Failure.Code != "amount_differs"
}

// pays reports whether the payment, or an entry of the batch, has that recipient and amount. "" is any of them.
func pays(p remit.Payment, to string, amount remit.Amount) bool {
	is := func(t string, n remit.Amount) bool {
		return (to == "" || strings.EqualFold(t, to)) && (amount == "" || n == amount)
	}
	for _, e := range p.Payments {
		if is(e.To, e.Amount) {
			return true
		}
	}
	return p.Payments == nil && is(p.To, p.Amount)
}

// stored returns the payment under an Idempotency-Key, nil if none is stored, and a zero one while it is not signed.
func (a *agent) stored(ctx context.Context, key string) (*remit.Payment, error) {
	for p, err := range a.api.List(ctx, url.Values{"idempotency_key": {key}}) {
		if open, is := errors.AsType[*remit.OutcomeUnknown](err); is && open.Last.Status == http.StatusConflict {
			err = nil
		}
		return &p, err
	}
	return nil, nil
}

// recent lists the payments of that time, newest first, and ends with an error beyond mostRead.
func (a *agent) recent(ctx context.Context, back time.Duration) iter.Seq2[remit.Payment, error] {
	return func(yield func(remit.Payment, error) bool) {
		n := 0
		after := time.Now().Add(-back).UTC().Format(time.RFC3339)
		for p, err := range a.api.List(ctx, url.Values{"created_after": {after}, "limit": {"100"}}) {
			if n++; n > mostRead {
				err = fmt.Errorf("the merchant has more than %d payments to compare with: give the agent a merchant of its own", mostRead)
			}
			if !yield(p, err) || err != nil {
				return
			}
		}
	}
}

func (a *agent) find(ctx context.Context, in struct {
	Intent string `json:"intent,omitempty" jsonschema:"exactly as it was paid"`
	To     string `json:"to,omitempty"`
	Amount string `json:"amount,omitempty" jsonschema:"in whole tokens"`
	Status string `json:"status,omitempty" jsonschema:"pending, confirmed or failed"`
	Days   int    `json:"days,omitempty" jsonschema:"how far back; 7 if absent"`
}) (any, error) {
	if in.Intent != "" {
		key, err := remit.Key(in.Intent)
		if err != nil {
			return nil, err
		}
		p, err := a.stored(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("a payment may be under way: %w", err)
		}
		if p == nil || p.TxHash == "" {
			return map[string]any{"payments": []any{}, "next": "Nothing is stored under this intent now; a request of the last minute may still pay. To pay, call pay with this intent."}, nil
		}
		return answer(*p, "This is the payment of the intent.")
	}
	var amount remit.Amount
	if in.Amount != "" {
		unit, err := a.unit(ctx)
		if err == nil {
			amount, err = remit.ParseUnits(in.Amount, unit.Decimals)
		}
		if err != nil {
			return nil, err
		}
	}
	found := []any{}
	if in.Days <= 0 {
		in.Days = 7
	}
	for p, err := range a.recent(ctx, time.Duration(min(in.Days, 366))*24*time.Hour) {
		if err != nil {
			return nil, err
		}
		if pays(p, in.To, amount) && (in.Status == "" || in.Status == string(p.Status)) {
			if len(found) == mostShown {
				return map[string]any{"payments": found, "next": "There are more: narrow the search."}, nil
			}
			found = append(found, shown(p))
		}
	}
	return map[string]any{"payments": found}, nil
}

func (a *agent) wait(ctx context.Context, in struct {
	TxHash string `json:"tx_hash"`
}) (any, error) {
	p, err := a.api.Wait(ctx, in.TxHash)
	switch {
	case p.TxHash == "":
		return nil, err
	case p.Status == remit.PaymentStatusPending:
		return answer(p, "Still pending. Call wait again; do not pay again.")
	case p.Status == remit.PaymentStatusFailed:
		return answer(p, "Failed; failure says what happened. Ask the user before you pay this under another intent.")
	}
	return answer(p, "Final: the recipient has it.")
}

func (a *agent) limits(ctx context.Context, _ struct{}) (any, error) {
	unit, err := a.unit(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]any{"token": unit.Token, "network": unit.Network, "limits": "A key with limits cannot list keys, so they are not shown. " +
		"A payment beyond one is refused and pays nothing: amount_above_maximum, daily_limit_exceeded or recipient_not_in_book."}
	keys, err := a.api.ListKeys(ctx)
	for _, k := range keys {
		if strings.HasPrefix(a.api.Key, k.Prefix) {
			out["limits"] = "This key has no limits of its own." // since it may list keys
		}
	}
	if refusal, is := errors.AsType[*remit.Refused](err); err != nil && (!is || refusal.Status != http.StatusForbidden) {
		return nil, err
	}
	total, n := new(big.Int), 0
	for p, err := range a.recent(ctx, time.Since(time.Now().UTC().Truncate(24*time.Hour))) {
		if err != nil {
			return nil, err
		}
		amount, _ := new(big.Int).SetString(string(p.Amount), 10)
		total.Add(total, amount)
		n += max(1, len(p.Payments))
	}
	out["paid_today_by_all_keys"] = map[string]any{"amount": tokens(remit.Amount(total.String()), unit.Decimals), "payments": n}
	return out, nil
}

func (a *agent) book(ctx context.Context, in struct {
	Search string `json:"search,omitempty" jsonschema:"part of a label or address"`
}) (any, error) {
	found, next := []remit.Recipient{}, ""
	for r, err := range a.api.ListRecipients(ctx, url.Values{"limit": {"100"}}) {
		if err != nil {
			return nil, err
		}
		if strings.Contains(strings.ToLower(r.Label+"\n"+string(r.Address)), strings.ToLower(in.Search)) {
			if len(found) == mostShown {
				next = "There are more: search for part of a label."
				break
			}
			found = append(found, r)
		}
	}
	return map[string]any{"recipients": found, "next": next}, nil
}

// unit returns the token's symbol and decimals, which a stack never changes.
func (a *agent) unit(ctx context.Context) (remit.Balance, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.token.Token == "" {
		b, err := a.api.Balance(ctx, "0x000000000000000000000000000000000000dEaD")
		if err != nil {
			return b, fmt.Errorf("reading the token's decimals (nothing was sent): %w", err)
		}
		a.token = b
	}
	return a.token, nil
}

func tokens(amount remit.Amount, decimals int) string {
	text, err := remit.FormatUnits(amount, decimals)
	if err != nil {
		return string(amount)
	}
	return text
}

func answer(p remit.Payment, next string) (any, error) {
	return map[string]any{"payment": shown(p), "next": next}, nil
}

// shown is a payment for a model: amounts in whole tokens, as text.
func shown(p remit.Payment) any {
	entries := []map[string]any{}
	for _, e := range p.Payments {
		entries = append(entries, map[string]any{"to": e.To, "amount": tokens(e.Amount, p.Decimals), "reference": e.Reference})
	}
	return map[string]any{"tx_hash": p.TxHash, "status": p.Status, "to": p.To, "amount": tokens(p.Amount, p.Decimals), "token": p.Token,
		"network": p.Network, "reference": p.Reference, "batch": entries, "progress": p.Progress, "failure": p.Failure,
		"created_at": p.CreatedAt, "onchain_tx_hash": p.OnchainTxHash}
}
