package merchant

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	remit "github.com/remit-payouts/remit/sdk/go"
)

// MCP is `remit mcp`, a server of the Model Context Protocol on standard input and output.
type MCP struct {
	URL string `env:"REMIT_URL" default:"http://127.0.0.1:8080" help:"Where the API is."`
	Key string `env:"REMIT_API_KEY" help:"API key with the agent's limits. ps shows it; the variable is safer."`

	Transport mcp.Transport `kong:"-"` // nil is standard input and output
	Version   string        `kong:"-"` // of this program
}

const (
	patience  = 50 * time.Second // of a call: clients of the protocol wait a minute
	mostShown = 20               // payments or recipients of an answer
)

// instructions are for the model to read before the tools.
const instructions = `Pays a stablecoin. Money cannot be called back.
Every payment has an intent: what is paid, as the user's records name it (order id, invoice, "salary 2026-11 Ann").
After an error, a timeout or a restart, call pay again with the SAME intent: it pays once.
Never make an intent from chance or the time, and never change its spelling: another intent is another payment.`

// Run serves the tools until standard input ends.
func (c *MCP) Run(ctx context.Context) error {
	if c.Key == "" {
		return errors.New("there is no API key: make one with limits for the agent, and set REMIT_API_KEY")
	}
	if !usable(c.URL) { // before an agent waits for its first answer
		return fmt.Errorf("--url %s: the URL is unusable: give https://, or http:// to this machine, and a host", c.URL)
	}
	a := &agent{api: &remit.Client{URL: c.URL, Key: c.Key}}
	err := a.server(c.Version).Run(ctx, cmp.Or[mcp.Transport](c.Transport, &mcp.StdioTransport{}))
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("serving the Model Context Protocol: %w", err)
	}
	return nil
}

type agent struct{ api *remit.Client }

func (a *agent) server(v string) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "remit", Version: v}, &mcp.ServerOptions{Instructions: instructions})
	tool(s, "pay", a.pay, `Pay an amount to an address, once per intent.
If an agent paid the same amount to the same address lately under another intent (limits says how long), that payment
is returned and NOTHING is paid: it is probably the same payment. What the user's programs paid does not count.
Only if the user wants a second one, call pay again with different_from set to its tx_hash.
After any error or timeout repeat the call with the same intent.`)
	tool(s, "find", a.find, "Find payments: the one of an intent, or the newest of the last days.")
	tool(s, "wait", a.wait, "Wait up to 50 seconds until a payment is final (confirmed or failed). "+
		"One that is still pending needs another wait, not another payment.")
	tool(s, "limits", a.limits, "What this agent may pay, and what was paid today (UTC). They cannot be changed here.")
	tool(s, "address_book", a.book, "The user's addresses, with their labels. Compare every digit before you pay.")
	return s
}

// toolWords has the tools' words for those of the API's refusals.
var toolWords = strings.NewReplacer("GET /api-keys/self", "the tool limits", "GET /assets", "the tool limits",
	"Idempotency-Key", "intent", "send it to POST /proposals, and have another key approve it",
	"ask the user to pay it", `["body","wallet_address"]`, "to", `["body",`, "[")

// tool adds a tool that answers with do's result. The model reads its errors too.
func tool[In any](s *mcp.Server, name string, do func(context.Context, In) (any, error), text string) {
	t := &mcp.Tool{Name: name, Description: text, Annotations: &mcp.ToolAnnotations{ReadOnlyHint: name != "pay", IdempotentHint: true}}
	mcp.AddTool(s, t, func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		out, err := do(ctx, in)
		if err != nil {
			err = errors.New(toolWords.Replace(err.Error()))
		}
		return nil, out, err
	})
}

type payment struct {
	Intent        string `json:"intent" jsonschema:"what is paid, such as an order id; the same after a failure"`
	To            string `json:"to" jsonschema:"recipient: 0x and 40 hex digits, copied, never typed"`
	Amount        string `json:"amount" jsonschema:"in whole tokens, such as 12.50"`
	Asset         string `json:"asset,omitempty" jsonschema:"its name or symbol in limits; the default if absent"`
	Reference     string `json:"reference,omitempty" jsonschema:"text to store with the payment"`
	DifferentFrom string `json:"different_from,omitempty" jsonschema:"tx_hash of the similar payment, to pay again"`
}

// pay pays once for an intent, or returns the intent's payment, or a similar payment.
func (a *agent) pay(ctx context.Context, in payment) (any, error) {
	_, unit, err := assetsOf(ctx, a.api, cmp.Or(in.Asset, "default"))
	order := remit.Order{To: in.To, Asset: &unit.Asset, Reference: in.Reference, DifferentFrom: strings.ToLower(in.DifferentFrom)}
	if err == nil {
		order.Amount, err = remit.ParseUnits(in.Amount, unit.Decimals)
	}
	if err == nil {
		_, err = remit.Key(in.Intent)
	}
	var own remit.OwnAPIKey
	if err == nil {
		own, err = a.guarded(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("this call sent nothing; an earlier one without an answer may have paid: then "+
			"call pay again with its intent: %w", err)
	}
	can := func(do remit.Scope) bool { return slices.Contains(own.Scopes, do) }
	if can(remit.ScopePaymentsPropose) && !can(remit.ScopePaymentsWrite) {
		return a.propose(ctx, in.Intent, order)
	}
	p, err := a.api.Pay(ctx, in.Intent, order)
	refusal, refused := errors.AsType[*remit.Refused](err)
	reused, is := errors.AsType[*remit.IntentReused](err)
	switch {
	case refused && refusal.Code == "similar_payment":
		return a.similar(ctx, refusal)
	case refused:
		return nil, fmt.Errorf("this call started nothing: %w", refusal)
	case is && reused.Stored != nil: // if nil, it is unsigned or unreadable, and may be made
		return answer(*reused.Stored, "This call paid nothing more: the intent has this payment. "+
			meaning(*reused.Stored)+" It is NOT as you asked: ask the user, and do not invent another intent.")
	case err != nil:
		return nil, fmt.Errorf("UNKNOWN: the payment may have been made; call pay again with the same intent: %w", err)
	}
	if p.TxHash == order.DifferentFrom {
		return answer(p, "This call paid nothing: it is this intent's own payment. A second one needs another intent.")
	}
	return answer(p, "Accepted, and paid once. "+meaning(p))
}

// guarded returns the key, and an error unless the API keeps it from paying a bill twice.
func (a *agent) guarded(ctx context.Context) (remit.OwnAPIKey, error) {
	key, err := a.api.OwnKey(ctx)
	if err == nil && key.RepeatGuardSeconds == nil {
		err = errors.New("the API key has no repeat_guard_seconds, without which two agents may pay one bill: " +
			"make the agent a key that has (docs/clients.md#pay-from-an-agent)")
	}
	return key, err
}

// propose asks a person to approve the payment of an intent, or returns the intent's proposal as it is now.
func (a *agent) propose(ctx context.Context, intent string, o remit.Order) (any, error) {
	p, err := a.api.Propose(ctx, intent, remit.CreateProposalRequest{To: string(o.To), Amount: o.Amount,
		Asset: o.Asset, Reference: o.Reference, DifferentFrom: o.DifferentFrom})
	refusal, refused := errors.AsType[*remit.Refused](err)
	switch {
	case refused:
		return nil, fmt.Errorf("this call started nothing: %w", refusal)
	case err != nil:
		return nil, fmt.Errorf("UNKNOWN: it may be proposed; call pay again with the same intent: %w", err)
	case p.Payment != nil:
		return answer(*p.Payment, "A person approved it, and it is paid once. "+meaning(*p.Payment))
	}
	next := "NOTHING is paid yet: another key has to approve it. Call pay with the same intent to see whether it was."
	if over(string(p.Status)) {
		next = "It was not approved, and will never be paid. Ask the user; a new attempt needs another intent."
	}
	return map[string]any{"proposal": p.ID, "status": p.Status, "last_refusal": p.LastRefusal, "next": next}, nil
}

// similar answers with the payment for which the API refused one.
func (a *agent) similar(ctx context.Context, refusal *remit.Refused) (any, error) {
	p, err := a.api.Get(ctx, refusal.TxHash)
	next := "This call paid nothing: a payment of the same amount to this address has another intent. "
	if err != nil {
		p, next = remit.Payment{TxHash: refusal.TxHash}, next+"It could not be read. "
	} else {
		next += meaning(p)
	}
	return answer(p, next+" Is it the same bill? To pay it again, call pay with different_from set to this tx_hash.")
}

func (a *agent) find(ctx context.Context, in struct {
	Intent string `json:"intent,omitempty" jsonschema:"exactly as it was paid"`
	To     string `json:"to,omitempty" jsonschema:"recipient"`
	Days   int    `json:"days,omitempty" jsonschema:"how far back, 7 if absent"`
}) (any, error) {
	if in.Intent != "" {
		key, err := remit.Key(in.Intent)
		if err != nil {
			return nil, err
		}
		for p, err := range a.api.List(ctx, url.Values{"idempotency_key": {key}}) {
			if held, is := errors.AsType[*remit.Refused](err); inProgress(err) || is && held.Code == "proposal_open" {
				return next("Its payment is under way, or waits for approval: call pay with the same intent.")
			} else if err != nil {
				return nil, fmt.Errorf("could not read; a payment of this intent may exist: %w", err)
			}
			return answer(p, meaning(p))
		}
		return next("Nothing is stored for it; a request of the last minute may still pay. To pay, call pay.")
	}
	if in.Days = cmp.Or(in.Days, 7); in.Days < 1 || in.Days > 366 {
		return nil, fmt.Errorf("days is %d: use 1 to 366", in.Days)
	}
	all := fmt.Sprintf("That is all that is signed of the last %d days; one under way may still pay.", in.Days)
	since := time.Now().AddDate(0, 0, -in.Days).UTC().Format(time.RFC3339)
	list := a.api.List(ctx, url.Values{"created_after": {since}, "limit": {"100"}})
	return first("payments", list, all, func(p remit.Payment) (any, bool) {
		its := func(e remit.BatchEntry) bool { return strings.EqualFold(e.To, in.To) }
		return shown(p), in.To == "" || slices.ContainsFunc(append(p.Payments, remit.BatchEntry{To: p.To}), its)
	})
}

func (a *agent) wait(ctx context.Context, in struct {
	TxHash string `json:"tx_hash"`
}) (any, error) {
	p, err := a.api.Wait(ctx, in.TxHash)
	if p.TxHash == "" {
		return nil, fmt.Errorf("could not read; this says nothing of what was paid: %w", err)
	}
	return answer(p, meaning(p))
}

func meaning(p remit.Payment) string {
	switch {
	case p.Status == remit.PaymentStatusConfirmed:
		return "It is final: the recipient has it."
	case p.Status == remit.PaymentStatusPending:
		return "It is pending: call wait, and do not pay again."
	case p.Failure != nil && slices.Contains(paidNobody, string(p.Failure.Code)):
		return "It FAILED and paid nobody. Ask the user; a new attempt needs another intent."
	}
	return "It FAILED, but coins moved; failure says which. Ask the user."
}

func (a *agent) limits(ctx context.Context, _ struct{}) (any, error) {
	key, err := a.api.OwnKey(ctx)
	if err != nil {
		return nil, err
	}
	all, unit, err := assetsOf(ctx, a.api, cmp.Or(key.Asset, "default"))
	if err != nil {
		return nil, err
	}
	if key.Asset != "" {
		all = []remit.ListedAsset{unit}
	}
	text := func(amount remit.Amount) any {
		if amount == "" {
			return nil // no limit
		}
		return tokens(amount, unit.Decimals)
	}
	known := map[string]any{"assets": all, "token": unit.Token, "network": unit.Network, "recipients": key.Recipients,
		"max_amount": text(key.MaxAmount), "daily_amount": text(key.DailyAmount), "daily_count": key.DailyCount,
		"repeat_guard_seconds": key.RepeatGuardSeconds,
		"used_today":           map[string]any{"amount": text(key.UsedToday.Amount), "count": key.UsedToday.Count}}
	if !key.ExpiresAt.IsZero() {
		known["expires_at"] = key.ExpiresAt
	}
	return known, nil
}

func (a *agent) book(ctx context.Context, in struct {
	Search string `json:"search,omitempty" jsonschema:"part of a label or address"`
}) (any, error) {
	search := strings.ToLower(in.Search)
	return first("recipients", a.api.ListRecipients(ctx, url.Values{"limit": {"100"}}), "That is all.", func(r remit.Recipient) (any, bool) {
		return r, strings.Contains(strings.ToLower(r.Label+"\n"+string(r.Address)), search)
	})
}

// first is an answer of the first entries of a list that show returns with true.
func first[T any](name string, all iter.Seq2[T, error], next string, show func(T) (any, bool)) (any, error) {
	list := []any{}
	for item, err := range all {
		if err != nil {
			return nil, err
		}
		if len(list) == mostShown {
			next = "There may be more: narrow the search."
			break
		}
		if entry, is := show(item); is {
			list = append(list, entry)
		}
	}
	return map[string]any{name: list, "next": next}, nil
}

func tokens(amount remit.Amount, decimals int) string {
	text, _ := remit.FormatUnits(amount, decimals) // "" of null
	return text
}

func next(step string) (any, error) { return map[string]any{"next": step}, nil }

func answer(p remit.Payment, next string) (any, error) {
	return map[string]any{"payment": shown(p), "next": next}, nil
}

// shown is a payment for a model: amounts in whole tokens, as text.
func shown(p remit.Payment) any {
	all := []map[string]any{}
	for _, e := range p.Payments {
		all = append(all, map[string]any{"to": e.To, "amount": tokens(e.Amount, p.Decimals), "reference": e.Reference})
	}
	return map[string]any{"tx_hash": p.TxHash, "status": p.Status, "to": p.To, "amount": tokens(p.Amount, p.Decimals),
		"token": p.Token, "asset": p.Asset, "network": p.Network, "reference": p.Reference, "batch": all,
		"progress": p.Progress, "failure": p.Failure, "created_at": p.CreatedAt, "onchain_tx_hash": p.OnchainTxHash}
}
