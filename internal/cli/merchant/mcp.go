package merchant

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/big"
	"net/http"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	remit "github.com/remit-payouts/remit/sdk/go"
)

// MCP is `remit mcp`, a server of the Model Context Protocol on standard input and output.
type MCP struct {
	URL   string `env:"REMIT_URL" default:"http://127.0.0.1:8080" help:"Where the API is."`
	Key   string `env:"REMIT_API_KEY" help:"API key to use: better in the variable, where ps does not show it. Its limits are the agent's."`
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
	if c.Key == "" {
		return errors.New("there is no API key: make one with limits for the agent, and set REMIT_API_KEY")
	}
	notes, err := openNotes(c.State)
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
	tool(s, "pay", a.pay, `Pay an amount to an address, once per intent.
If a payment of the same amount to the same address was made in the last 24 hours under another intent, that one is
returned and NOTHING is paid: it is probably the same payment.
Only if the user wants a second one, call pay again with different_from set to its tx_hash.
After any error or timeout repeat the call with the same intent.`)
	tool(s, "find", a.find, "Find payments: the one of an intent, or the newest of the last days. Says whether something was paid already.")
	tool(s, "wait", a.wait, "Wait up to 50 seconds until a payment is final (confirmed or failed). "+
		"One that is still pending needs another wait, not another payment.")
	tool(s, "limits", a.limits, "What this agent may pay, and what was paid today (UTC). Limits cannot be changed here.")
	tool(s, "address_book", a.book, "Addresses that the user has entered, with their labels, if the key may read them. "+
		"Compare every digit before you pay.")
	return s
}

// tool adds a tool, which answers what do returns. The model reads its errors too.
func tool[In any](s *mcp.Server, name string, do func(context.Context, In) (any, error), text string) {
	t := &mcp.Tool{Name: name, Description: text, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: name != "pay", IdempotentHint: true}}
	mcp.AddTool(s, t, func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		out, err := do(ctx, in)
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

// pay pays once for an intent, or answers what the intent has paid, or what looks like the same payment.
func (a *agent) pay(ctx context.Context, in payment) (any, error) {
	order, err := a.order(ctx, in)
	if err != nil {
		return nil, unsent(err)
	}
	note, err := a.notes.lock(ctx, order)
	if err != nil {
		return nil, unsent(err)
	}
	defer note.unlock()
	before, age, err := note.read()
	open := before.Intent == in.Intent && age < lifetime // an earlier request of this intent may still be carried out
	settled := time.Now().Add(lifetime - age)
	key, _ := remit.Key(in.Intent)
	var made, other *remit.Payment
	if err == nil {
		made, err = a.stored(ctx, key)
	}
	if err == nil && !signed(made) && !open {
		other, err = a.similar(ctx, note, in.Intent, order)
	}
	switch {
	case err != nil:
		return nil, unsent(err)
	case signed(made):
		return known(order, *made)
	case other != nil && !strings.EqualFold(string(other.TxHash), in.DifferentFrom):
		return answer(*other, "NOT paid: a payment of the same amount to this address has another intent. "+meaning(*other)+
			" Is it the same bill? If the user wants a second payment, call pay with different_from set to this tx_hash.")
	}
	if err := note.write(entry{in.Intent, order}); err != nil {
		return nil, unsent(err)
	}
	p, err := a.api.Pay(note.on(ctx), in.Intent, order)
	refusal, refused := errors.AsType[*remit.Refused](err)
	if refused && open {
		if made, err = a.settle(ctx, key, settled); signed(made) {
			return known(order, *made)
		}
		refused = err == nil
	}
	reused, is := errors.AsType[*remit.IntentReused](err)
	switch {
	case is && reused.Stored != nil:
		return known(order, *reused.Stored)
	case refused:
		return nil, fmt.Errorf("nothing was started: %w", refusal)
	case err != nil:
		return nil, fmt.Errorf("UNKNOWN: the payment may have been made; call pay again with the same intent: %w", err)
	}
	return answer(p, "Accepted, and paid once. "+meaning(p))
}

func unsent(err error) error {
	return fmt.Errorf("this call sent nothing for its intent; if an earlier one got no answer, it may have paid: "+
		"then call pay again with the same intent: %w", err)
}

// known is the answer for an intent that has a payment.
func known(order remit.Order, p remit.Payment) (any, error) {
	if p.Payments == nil && pays(p, order.To, order.Amount) {
		return answer(p, "Nothing more was paid: this is the payment of the intent. "+meaning(p))
	}
	return answer(p, "NOT paid: this intent already belongs to another payment. "+meaning(p)+
		" If it is the same bill, it is done. Do not invent another intent: ask the user.")
}

// order returns what to pay.
func (a *agent) order(ctx context.Context, in payment) (o remit.Order, err error) {
	if _, err = remit.Key(in.Intent); err != nil {
		return o, err
	}
	unit, err := a.unit(ctx)
	if err != nil {
		return o, err
	}
	o = remit.Order{To: in.To, Reference: in.Reference}
	o.Amount, err = remit.ParseUnits(in.Amount, unit.Decimals)
	return o, err
}

// settle looks a payment up at that time, when it is stored or can be no more.
func (a *agent) settle(ctx context.Context, key string, at time.Time) (*remit.Payment, error) {
	for wait := time.Until(at); ; wait = time.Second {
		if err := pause(ctx, wait); err != nil {
			return nil, err
		}
		if made, err := a.stored(ctx, key); err == nil && (made == nil || signed(made)) {
			return made, nil
		}
	}
}

func signed(p *remit.Payment) bool { return p != nil && p.TxHash != "" }

// similar returns the newest payment of the last day with that amount and recipient, nil if there is none. Before, it waits
// until what is noted of another intent is stored, or can be no more, and has what is half done completed.
func (a *agent) similar(ctx context.Context, n *note, intent string, order remit.Order) (newest *remit.Payment, err error) {
	for {
		other, age, err := n.read()
		if err != nil {
			return nil, err
		}
		key, none := remit.Key(other.Intent)
		if none != nil || other.Intent == intent || age > lookBack {
			break
		}
		if newest, err = a.stored(ctx, key); err != nil {
			return nil, err
		}
		if newest != nil && !signed(newest) && age > lifetime {
			made, err := a.api.Pay(n.on(ctx), other.Intent, other.Order)
			if _, refused := errors.AsType[*remit.Refused](err); err != nil && !refused {
				return nil, fmt.Errorf("the payment for %q was half done and was sent again; it may have been made: %w", other.Intent, err)
			}
			newest = &made
			if err != nil {
				newest = nil
			}
		}
		if newest == nil && age > lifetime || signed(newest) {
			break
		}
		if err := pause(ctx, time.Second); err != nil {
			return nil, fmt.Errorf("a payment of this amount to this address is under way, for %q: %w", other.Intent, err)
		}
	}
	if signed(newest) && (nothingMoved(*newest) || !pays(*newest, order.To, order.Amount)) {
		newest = nil
	}
	for p, err := range a.recent(ctx, lookBack) {
		if err != nil {
			return nil, err
		}
		if pays(p, order.To, order.Amount) && !nothingMoved(p) {
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
	return p.Status == remit.PaymentStatusFailed && p.Failure != nil && slices.Contains(paidNobody, string(p.Failure.Code))
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
	To     string `json:"to,omitempty" jsonschema:"recipient"`
	Amount string `json:"amount,omitempty" jsonschema:"in whole tokens"`
	Days   int    `json:"days,omitempty" jsonschema:"how far back, 7 if absent"`
}) (any, error) {
	if in.Intent != "" {
		key, err := remit.Key(in.Intent)
		if err != nil {
			return nil, err
		}
		p, err := a.stored(ctx, key)
		switch {
		case err != nil:
			return nil, fmt.Errorf("could not read; a payment of this intent may exist: %w", err)
		case p == nil:
			return found(nil, "Nothing is stored under this intent; a request of the last minute may still pay. To pay, call pay with it."), nil
		case !signed(p):
			return found(nil, "The payment of this intent is under way. Call pay with the same intent."), nil
		}
		return answer(*p, meaning(*p))
	}
	if in.Days = cmp.Or(in.Days, 7); in.Days < 1 || in.Days > 366 {
		return nil, fmt.Errorf("days is %d: use 1 to 366", in.Days)
	}
	order, err := a.order(ctx, payment{Intent: "none", To: in.To, Amount: cmp.Or(in.Amount, "0")})
	if err != nil {
		return nil, err
	}
	if in.Amount == "" {
		order.Amount = ""
	}
	list := []any{}
	for p, err := range a.recent(ctx, time.Duration(in.Days)*lookBack) {
		if err != nil {
			return nil, err
		}
		if pays(p, in.To, order.Amount) {
			if len(list) == mostShown {
				return found(list, "There are more: narrow the search."), nil
			}
			list = append(list, shown(p))
		}
	}
	return found(list, "That is all."), nil
}

func found(payments []any, next string) any {
	return map[string]any{"payments": payments, "next": next}
}

func (a *agent) wait(ctx context.Context, in struct {
	TxHash string `json:"tx_hash"`
}) (any, error) {
	p, err := a.api.Wait(ctx, in.TxHash)
	if !signed(&p) {
		return nil, fmt.Errorf("could not read; this says nothing of what was paid: %w", err)
	}
	return answer(p, meaning(p))
}

// meaning says what a payment's status means for who asked for it.
func meaning(p remit.Payment) string {
	switch {
	case p.Status == remit.PaymentStatusConfirmed:
		return "It is final: the recipient has it."
	case p.Status == remit.PaymentStatusPending:
		return "It is pending: call wait, and do not pay again."
	case nothingMoved(p):
		return "It FAILED and paid nobody. Ask the user; a new attempt needs another intent."
	}
	return "It FAILED, but coins moved; failure says which. Ask the user."
}

func (a *agent) limits(ctx context.Context, _ struct{}) (any, error) {
	unit, err := a.unit(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]any{"token": unit.Token, "network": unit.Network, "limits": "The limits of this key, if any, cannot be read here. " +
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
		if amount, ok := new(big.Int).SetString(string(p.Amount), 10); ok {
			total.Add(total, amount)
		}
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
		if err == nil && b.Token == "" {
			err = errors.New("the answer is not that of Remit: check --url")
		}
		if err != nil {
			return b, fmt.Errorf("reading the token's decimals: %w", err)
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
