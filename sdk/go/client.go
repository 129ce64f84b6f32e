// Package remit is a client of a Remit API that pays once for an intent.
package remit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/big"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"golang.org/x/text/unicode/norm"
)

// lifetime is longer than the API works on a request: after it, an unanswered request commits nothing more.
const lifetime = 35 * time.Second

// A POST of a payment begins nothing once an answer's Date is beyond its Remit-Not-After (ahead) and the grace.
const ahead, grace = 30, 40

var urls = regexp.MustCompile(`^(https://([\w.-]+|\[[\da-fA-F:.]+\])|http://(localhost|127(\.\d{1,3}){3}|\[::1\]))` +
						`(:[1-6]?\d{1,4})?(/[\w.~%/-]*)?$`)
var unread = []int{401, 403, 413}         // statuses that come before the look at what is stored
var keys = regexp.MustCompile(`^[!-~]*$`) // which a header may hold

// A Client is one merchant, or a caller without a key. Many goroutines may use it at once.
type Client struct {
	URL  string       // where the API is
	Key  string       // API key; "" sends none
	HTTP *http.Client // nil for http.DefaultClient; its transport must not retry
	Once bool         // each call makes one attempt, and is not repeated
	open memory       // attempts to pay that have no answer
}

// An Answer is a whole HTTP answer of any status; a zero Answer is none.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Call makes one request; header has names and values in turn. After an error it may have been carried out.
func (c *Client) Call(ctx context.Context, method, path, body string, header ...string) (a Answer, err error) {
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.URL, "/")+path, strings.NewReader(body))
	if err != nil {
		return a, err
	}
	r.GetBody = nil // else net/http repeats a POST by itself, and a refusal of the second hides the first
	for all := append([]string{"Content-Type", "application/json", "x-api-key", c.Key}, header...); len(all) > 1; all = all[2:] {
		if all[1] != "" {
			r.Header.Set(all[0], all[1])
		}
	}
	over := *cmp.Or(c.HTTP, http.DefaultClient)
	over.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	got, err := over.Do(r)
	if err != nil {
		return a, err
	}
	defer func() { _ = got.Body.Close() }()
	text, err := io.ReadAll(http.MaxBytesReader(nil, got.Body, 16<<20))
	if err == nil {
		a = Answer{got.StatusCode, got.Header, text}
	}
	return a, err
}

// A Refused reports a refused request, which started nothing. After proposal_open, the open proposal may still pay.
type Refused struct {
	Answer
	Code   string // stable; of a 422, the type of its first problem; "" of a 401
	Detail string // for people
	Index  int    // of the refused entry of a batch; -1 if none is named
	TxHash string `json:"tx_hash"` // of a similar_payment: different_from pays again

	// No earlier request of the intent can pay either: only then pay by another way. Settle proves it; without, it only
	// covers this Client's requests, and no 401, 403, 409 or 413 is settled.
	Settled bool `json:"-"`
}

func (e *Refused) Error() string {
	return fmt.Sprintf("refused with %s: %s", strings.TrimSpace(fmt.Sprint(e.Status, " ", e.Code)), e.Detail)
}

// An OutcomeUnknown reports that no answer settled the call: it may be carried out, even later.
type OutcomeUnknown struct {
	Last  Answer // zero for none
	Cause error  // why an answer is missing, or the end of the time
	pays  bool
}

func (e *OutcomeUnknown) Error() string {
	text, last := "no final answer", strings.ReplaceAll(fmt.Sprint(e.Cause), "\n", "; ")
	if e.pays {
		text = "unknown outcome: repeat a payment with the same intent"
	}
	if e.Last.Status != 0 {
		last = fmt.Sprintf("%d %.300s", e.Last.Status, e.Last.Body)
	}
	return fmt.Sprintf("%s (%s)", text, last)
}

func (e *OutcomeUnknown) Unwrap() error { return e.Cause }

// A call is one call of the API until its deadline, in as many attempts as it takes.
type call struct {
	*Client
	context.Context
	end        time.Time
	once, pays bool
	past       bool   // POSTs carry a time that has passed
	until      int64  // the latest Remit-Not-After that was sent
	key        string // Idempotency-Key
	tries      int
	last       Answer
	cause      error
}

func (c *Client) begin(ctx context.Context) *call {
	end, limited := ctx.Deadline()
	if !limited {
		end = time.Now().Add(2 * time.Minute)
	}
	return &call{Client: c, Context: ctx, end: end, once: c.Once}
}

// refusal returns the last answer as a refusal, nil if the request's outcome is unknown.
func (k *call) refusal() *Refused {
	e, body, items := &Refused{Index: -1}, struct{ Detail json.RawMessage }{}, []InvalidItem{}
	_ = json.Unmarshal(k.last.Body, e) // all but the detail of a 422
	if e.Answer = k.last; e.Status/100 != 4 || e.Status == 408 || e.Status == 429 || json.Unmarshal(e.Body, &body) != nil ||
		body.Detail == nil || e.Status == 409 && (k.pays && e.Code != "proposal_open" || e.Code == "idempotency_in_progress") {
		return nil
	}
	if json.Unmarshal(body.Detail, &items) == nil && len(items) > 0 {
		e.Code, e.Detail = string(items[0].Type), string(body.Detail)
		if place, named := append(items[0].Loc, nil, nil, nil)[2].(float64); named { // body.payments.PLACE
			e.Index = int(place)
		}
	}
	return e
}

// pause waits for the longest of d, Retry-After and the backoff. It reports false at once if the deadline comes first.
func (k *call) pause(d time.Duration) bool {
	backoff := min(time.Second<<min(k.tries, 3), 8*time.Second)
	after, _ := strconv.ParseUint(k.last.Header.Get("Retry-After"), 10, 20) // seconds, 12 days at most
	d = max(d, backoff/2+rand.N(backoff/2), time.Duration(after)*time.Second)
	if k.Err() != nil || time.Until(k.end) <= d {
		k.cause = errors.Join(k.cause, context.DeadlineExceeded)
		return false
	}
	k.tries++
	waited, cancel := context.WithTimeout(k.Context, d)
	defer cancel()
	<-waited.Done()
	return k.Err() == nil
}

func (k *call) unknown() error { return &OutcomeUnknown{k.last, errors.Join(k.cause, k.Err()), k.pays} }

// ask returns the answer to a request. It repeats payments and reads until an answer settles them, and other requests
// only after an answer that nothing was started. settle judges a payment's *Refused.
func ask[T any](k *call, method, path string, body any) (none T, err error) {
	text, err := json.Marshal(body)
	if !urls.MatchString(k.URL) {
		err = errors.New("the URL is unusable: give https://, or http:// to this machine, and a host")
	} else if !keys.MatchString(k.Client.Key) {
		err = errors.New("the API key has a blank, a line break or a letter that no key has: give it as it was shown")
	}
	for err == nil {
		var got T
		part, named := any(&got).(interface{ whole() bool })
		notAfter, sent := k.stamp(method), strings.TrimPrefix(string(text), "null")
		ctx, cancel := context.WithTimeout(k.Context, min(lifetime, time.Until(k.end)))
		k.last, k.cause = k.Call(ctx, method, path, sent, "Idempotency-Key", k.key, "Remit-Not-After", notAfter)
		cancel()
		k.open.date(k.last)
		whole := k.last.Status/100 == 2 && json.Unmarshal(k.last.Body, &got) == nil && (!named || part.whole())
		nothing := k.last.Status == 429 || k.last.Status == 503 && strings.Contains(string(k.last.Body), `"payment_rail_unavailable"`)
		refusal := k.refusal()
		late := refusal != nil && !k.past && notAfter != "" && (refusal.Code == "request_expired" || refusal.Code == "not_after_invalid")
		lost := !whole && !nothing && refusal == nil
		last := k.open.note(k.key, func(a *attempts) {
			if a.open = max(0, a.open-1); lost || whole {
				a.last, a.paid = map[bool]time.Time{true: time.Now()}[lost], whole && k.pays
			}
		}).last
		doubt := refusal != nil && path == "/proposals" && !last.IsZero() && refusal.Code != "idempotency_key_reused" &&
			(slices.Contains(unread, refusal.Status) || time.Since(last) < lifetime) // a lost one may have stored it
		switch {
		case whole:
			return got, nil
		case late && k.pause(0): // by the right clock now
		case refusal != nil && !late && !doubt:
			err = refusal
		case late, lost && !k.pays && (method != http.MethodGet || k.last.Status == 409), k.once, !k.pause(0):
			err = k.unknown()
		}
	}
	return none, err
}

type page[T any] struct {
	Data []T
	Next *string `json:"next_cursor"`
}

func (p *page[T]) whole() bool { return p.Data != nil }

func (p *Payment) whole() bool { return p.TxHash != "" }

func (p *Proposal) whole() bool { return p.ID != "" }

// pages reads a list page by page. An error ends it.
func pages[T any](ctx context.Context, c *Client, path string, filters url.Values) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for {
			p, err := ask[page[T]](c.begin(ctx), http.MethodGet, path+"?"+filters.Encode(), nil)
			ended := func(item T) bool { return !yield(item, nil) }
			if slices.ContainsFunc(p.Data, ended) || err != nil && !yield(*new(T), err) || p.Next == nil {
				return
			}
			filters = url.Values{"cursor": {*p.Next}}
		}
	}
}

// Key returns the Idempotency-Key of an intent, or an error if it is empty, not UTF-8 in NFC, or has blanks around it:
// two intents that look the same are two payments.
func Key(intent string) (string, error) {
	if intent == "" || !utf8.ValidString(intent) || !norm.NFC.IsNormalString(intent) || strings.TrimFunc(intent, unicode.IsSpace) != intent {
		return "", fmt.Errorf("%.100q is no intent: name what is paid in UTF-8 (NFC), without blanks around it", intent)
	}
	return fmt.Sprintf("sdk1-%x", sha256.Sum256([]byte("remit intent\x00"+intent))), nil
}

// keyOf is Key, and refuses an asset that is named by an empty text, such as an unset variable.
func keyOf(intent string, asset *AssetInput) (string, error) {
	if asset != nil && *asset == "" {
		return "", errors.New("the asset is empty: name one of Assets, or nil for the default")
	}
	return Key(intent)
}

// An IntentReused reports an intent of another payment, which may be made, or of an ended proposal. It pays nothing.
type IntentReused struct {
	Intent string
	Asked  Batch    // of one payment after Pay
	Stored *Payment // the other payment; nil for an ended proposal, before it is signed, or if no look-up found it
}

func (e *IntentReused) Error() string {
	both, _ := json.Marshal(map[string]any{"asked": e.Asked, "stored": e.Stored}) // they were JSON
	return fmt.Sprintf("the intent %q has another payment or ended proposal: %s", e.Intent, both)
}

// An Option of Pay and PayMany.
type Option int

// Settle makes a call go on after a refusal until that is settled, some 75 seconds, if its deadline allows.
const Settle Option = 1

// Pay pays once for an intent (such as an order), and retries until the deadline of ctx or for two minutes. A *Refused
// started nothing; an open proposal may still pay. After an *OutcomeUnknown repeat it. Unnamed errors sent nothing.
func (c *Client) Pay(ctx context.Context, intent string, order Order, options ...Option) (Payment, error) {
	entry := Entry{To: order.To, Amount: order.Amount, Reference: order.Reference}
	return c.pay(ctx, intent, order, Batch{order.Asset, order.Metadata, []Entry{entry}, order.Reference}, options)
}

// PayMany is Pay of a batch, which is one payment.
func (c *Client) PayMany(ctx context.Context, intent string, batch Batch, options ...Option) (Payment, error) {
	return c.pay(ctx, intent, batch, batch, options)
}

// Propose proposes the payment of an intent, for another key to approve or for a later time, and repeats that as Pay
// does. Pay and Propose share their intents: one of them pays. A *Refused concerns the requests of this call alone.
func (c *Client) Propose(ctx context.Context, intent string, asked CreateProposalRequest) (Proposal, error) {
	key, err := keyOf(intent, asked.Asset)
	for _, e := range append(slices.Clip(asked.Payments), ProposedEntry{Amount: cmp.Or(asked.Amount, "0")}) {
		err = errors.Join(err, checked(e.Amount))
	}
	if err != nil {
		return Proposal{}, err
	}
	return c.begin(ctx).propose(key, asked, false)
}

// AttemptProposal is Attempt of a proposal.
func (c *Client) AttemptProposal(ctx context.Context, key string, asked CreateProposalRequest) (Proposal, error) {
	return c.begin(ctx).propose(key, asked, true)
}

func (k *call) propose(key string, asked CreateProposalRequest, once bool) (Proposal, error) {
	k.pays, k.key, k.once = true, key, once || k.Once
	return ask[Proposal](k, http.MethodPost, "/proposals", asked)
}

// Attempt makes one request for an Order or a Batch, with your own Idempotency-Key or "", and repeats it only after a
// wrong clock. A *Refused only concerns this request.
func (c *Client) Attempt(ctx context.Context, key string, asked any) (Payment, error) {
	return c.begin(ctx).post(key, asked, true)
}

func (k *call) post(key string, asked any, once bool) (Payment, error) {
	_, many := asked.(Batch)
	k.pays, k.key, k.once = true, key, once || k.Once
	return ask[Payment](k, http.MethodPost, "/send-payment"+map[bool]string{true: "s"}[many], asked)
}

func (c *Client) pay(ctx context.Context, intent string, body any, asked Batch, options []Option) (Payment, error) {
	key, err := keyOf(intent, asked.Asset)
	for _, o := range asked.Payments {
		err = errors.Join(err, checked(o.Amount))
	}
	if !utf8.ValidString(fmt.Sprint(asked)) { // JSON would make the same of different texts
		err = errors.Join(err, errors.New("a text is not UTF-8"))
	}
	if err != nil {
		return Payment{}, err
	}
	k, other := c.begin(ctx), &IntentReused{Intent: intent}
	sent, _ := json.Marshal(asked) // as the API reads it; the caller may change it meanwhile
	_ = json.Unmarshal(sent, &other.Asked)
	made, err := k.post(key, body, false)
	if refusal, is := errors.AsType[*Refused](err); is {
		return k.settle(refusal, other, body, slices.Contains(options, Settle) && !k.once)
	}
	return made, err
}

// A memory has the payment attempts that may still be carried out, or were, by Idempotency-Key.
type memory struct {
	sync.Mutex
	keys   map[string]attempts
	forgot bool          // keys were dropped
	rest   time.Time     // when the last attempt of the dropped keys ended
	skew   time.Duration // how far the API's clock is ahead
}

type attempts struct {
	open  int       // attempts that have not ended
	last  time.Time // when the last unanswered attempt ended; zero for none
	paid  bool      // or forgotten, where note returns it
	until int64     // the latest Remit-Not-After
}

// note changes the attempts of a key, and returns them: the last one ended now if one is open.
func (m *memory) note(key string, change func(*attempts)) attempts {
	m.Lock()
	defer m.Unlock()
	if m.keys == nil {
		m.keys = map[string]attempts{}
	}
	if len(m.keys) > 10_000 {
		maps.DeleteFunc(m.keys, func(_ string, a attempts) bool { return a.open == 0 && a.last.IsZero() })
		if m.forgot = true; len(m.keys) > 5_000 {
			m.rest = time.Now().Add(lifetime)
			clear(m.keys)
		}
	}
	a := m.keys[key]
	change(&a)
	if m.keys[key] = a; a.open == 0 && a.last.IsZero() && !a.paid {
		delete(m.keys, key)
	}
	if a.open > 0 {
		a.last = time.Now()
	} else if m.rest.After(a.last) && time.Since(m.rest) < lifetime {
		a.last = m.rest
	}
	a.paid = a.paid || m.forgot
	return a
}

// date returns the Date of an answer in Unix seconds, 0 if it has none, and corrects the clock by it.
func (m *memory) date(a Answer) int64 {
	date, err := http.ParseTime(a.Header.Get("Date"))
	if err != nil {
		return 0
	}
	m.Lock()
	defer m.Unlock()
	m.skew = time.Until(date)
	return date.Unix()
}

// now returns the API's time in Unix seconds.
func (m *memory) now() int64 {
	m.Lock()
	defer m.Unlock()
	return time.Now().Add(m.skew).Unix()
}

// stamp begins an attempt and returns its Remit-Not-After, "" for none.
func (k *call) stamp(method string) string {
	notAfter := int64(1) // has passed
	if !k.past {
		notAfter = k.open.now() + ahead
		k.until = max(k.until, notAfter)
	}
	k.open.note(k.key, func(a *attempts) { a.open, a.until = a.open+1, max(a.until, notAfter) })
	return map[bool]string{true: fmt.Sprint(notAfter)}[k.pays && method == http.MethodPost]
}

func (k *call) of() attempts { return k.open.note(k.key, func(*attempts) {}) }

// prove repeats a refused payment with a time that has passed. It settles the refusal once such a request has expired
// that began after a Date later than every Remit-Not-After of the intent and the grace. Else it returns a newer
// refusal, or the refusal if the deadline comes first.
func (k *call) prove(refusal *Refused, body any) (made Payment, err error) {
	k.past = true
	for seen := int64(0); ; seen = k.open.date(k.last) {
		k.tries, k.until = 0, max(k.until, k.of().until)
		if !k.pause(time.Duration(k.until+grace+1-k.open.now()) * time.Second) {
			return made, refusal
		}
		made, err = k.post(k.key, body, false)
		if newer, is := errors.AsType[*Refused](err); !is || newer.Code != "request_expired" {
			return made, err
		}
		if a := k.of(); a.open == 0 && seen > max(k.until, a.until)+grace {
			k.open.note(k.key, func(a *attempts) { *a = attempts{} })
			refusal.Settled = true
			return made, refusal
		}
	}
}

// settle judges a refusal. Without prove an earlier attempt may still pay until lifetime has passed and a look-up
// finds nothing, and longer if a network held its bytes.
func (k *call) settle(refusal *Refused, other *IntentReused, body any, prove bool) (Payment, error) {
	if prove && refusal.Code != "idempotency_key_reused" && refusal.Code != "proposal_open" {
		made, err := k.prove(refusal, body)
		newer, is := errors.AsType[*Refused](err)
		if !is || newer.Settled {
			return made, err
		}
		refusal = newer
	}
	reused, key, a := refusal.Code == "idempotency_key_reused", k.key, k.of()
	last := a.last
	if k.key, k.pays = "", !last.IsZero() && refusal.Code != "proposal_open"; !k.pays && !reused {
		refusal.Settled = !prove && !a.paid && refusal.Status != 409 && !slices.Contains(unread, refusal.Status)
		return Payment{}, refusal
	}
	for ; time.Since(last) < lifetime; last = k.open.note(key, func(*attempts) {}).last {
		if k.once || !k.pause(time.Until(last.Add(lifetime))) {
			return Payment{}, k.unknown()
		}
	}
	found, err := ask[page[Payment]](k, http.MethodGet, "/transactions?idempotency_key="+key, nil)
	switch {
	case err != nil && k.pays:
		return Payment{}, k.unknown()
	case err == nil && len(found.Data) == 0 && !reused:
		return Payment{}, refusal
	case len(found.Data) > 0:
		k.open.note(key, func(a *attempts) { a.paid = true })
		other.Stored = &found.Data[0]
	}
	if p := other.Stored; p != nil && same(other.Asked, *p) {
		if other.Asked.Asset != nil {
			return *p, nil
		}
		made, err := k.post(key, body, false) // of the default asset? The API knows
		if newer, is := errors.AsType[*Refused](err); !is {
			return made, err
		} else if newer.Code != "idempotency_key_reused" {
			return Payment{}, k.unknown()
		}
	}
	return Payment{}, other
}

// same reports whether a stored payment matches the request.
func same(a Batch, p Payment) bool {
	have := append(p.Payments, BatchEntry{To: p.To, Amount: p.Amount, Reference: p.Reference})[:max(1, len(p.Payments))]
	return (a.Asset == nil || strings.EqualFold(*a.Asset, p.Asset)) && a.Reference == p.Reference &&
		maps.Equal(a.Metadata, p.Metadata) && slices.EqualFunc(a.Payments, have, func(o Entry, e BatchEntry) bool {
		return strings.EqualFold(o.To, e.To) && o.Amount == e.Amount && o.Reference == e.Reference
	})
}

// Wait returns a payment once it is confirmed or failed, and at the deadline a pending one with an *OutcomeUnknown.
func (c *Client) Wait(ctx context.Context, hash string) (p Payment, err error) {
	k := c.begin(ctx)
	for more := true; more; more, k.tries = k.pause(time.Second), 0 {
		if p, err = ask[Payment](k, "GET", "/transaction/"+url.PathEscape(hash), nil); err != nil || p.Status != PaymentStatusPending {
			return p, err
		}
	}
	return p, k.unknown()
}

// VerifyWebhook returns the event of a raw body that was signed with the secret in the last five minutes.
func VerifyWebhook(secret string, body []byte, header http.Header) (event Event, err error) {
	hook, err := standardwebhooks.NewWebhook(cmp.Or(strings.TrimPrefix(secret, "whsec_"), "no secret")) // it takes ""
	if err == nil {
		err = hook.Verify(body, header)
	}
	if err == nil {
		err = json.Unmarshal(body, &event)
	}
	return event, err
}

// checked returns an error unless the amount has only digits, without leading zeros.
func checked(amount Amount) error {
	if n, ok := new(big.Int).SetString(string(amount), 10); !ok || n.String() != string(amount) || n.Sign() < 0 || n.BitLen() > 256 {
		return fmt.Errorf("%.100q is no amount: use decimal digits, at most 2^256-1", string(amount))
	}
	return nil
}

// ParseUnits returns whole tokens, such as "1.50", in the smallest unit, or an error if that is not exact.
func ParseUnits(tokens string, decimals int) (Amount, error) {
	whole, fraction, point := strings.Cut(tokens, ".")
	digits := whole + strings.TrimRight(fraction, "0")
	missing := decimals - len(digits) + len(whole)
	if whole == "" || point && fraction == "" || strings.Trim(whole+fraction, "0123456789") != "" || decimals < 0 ||
		decimals > 255 || missing < 0 {
		return "", fmt.Errorf("%.100q is no amount of a token with %d decimals", tokens, decimals)
	}
	amount := Amount(cmp.Or(strings.TrimLeft(digits+strings.Repeat("0", missing), "0"), "0"))
	return amount, checked(amount)
}

// FormatUnits returns the exact amount in whole tokens, without trailing zeros: "1.5".
func FormatUnits(amount Amount, decimals int) (string, error) {
	if err := checked(amount); err != nil || decimals < 0 || decimals > 255 {
		return "", fmt.Errorf("%.100q is no amount of a token with %d decimals", string(amount), decimals)
	}
	digits := strings.Repeat("0", max(0, decimals+1-len(amount))) + string(amount)
	whole, fraction := digits[:len(digits)-decimals], digits[len(digits)-decimals:]
	return strings.TrimSuffix(whole+"."+strings.TrimRight(fraction, "0"), "."), nil
}
