package remit

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Key returns the Idempotency-Key of an intent, or an error if it is empty or not UTF-8.
func Key(intent string) (string, error) {
	if intent == "" || !utf8.ValidString(intent) {
		return "", fmt.Errorf("%.100q is no intent: name what is paid, such as an order, in UTF-8", intent)
	}
	sum := sha256.Sum256([]byte("remit intent\x00" + intent))
	return "sdk1-" + hex.EncodeToString(sum[:]), nil
}

// An IntentReused reports that the intent is already that of a payment with other content.
type IntentReused struct {
	Intent string
	Asked  Batch    // of one payment after Pay
	Stored *Payment // nil if it is not signed yet, or could not be looked up
}

func (e *IntentReused) Error() string {
	both, _ := json.Marshal(map[string]any{"asked": e.Asked, "stored": e.Stored}) // they were JSON
	return fmt.Sprintf("the intent %q is that of another payment: %s", e.Intent, both)
}

// Pay pays once for an intent (what is paid, such as an order), and retries until the deadline of ctx or for two minutes.
// A *Refused started nothing. After an *OutcomeUnknown call again with the same intent. Unnamed errors sent nothing.
func (c *Client) Pay(ctx context.Context, intent string, order Order) (Payment, error) {
	entry := Entry{To: order.To, Amount: order.Amount, Reference: order.Reference}
	return c.pay(ctx, intent, order, Batch{order.Metadata, []Entry{entry}, order.Reference})
}

// PayMany is Pay of a batch, which is one payment.
func (c *Client) PayMany(ctx context.Context, intent string, batch Batch) (Payment, error) {
	return c.pay(ctx, intent, batch, batch)
}

// Attempt asks once for an Order or a Batch, under an Idempotency-Key of your own or "". A *Refused is of this request.
func (c *Client) Attempt(ctx context.Context, key string, asked any) (Payment, error) {
	once := *c
	once.Once = true
	return once.begin(ctx).post(key, asked)
}

func (k *call) post(key string, asked any) (made Payment, err error) {
	text, err := json.Marshal(asked)
	if err != nil {
		return made, err
	}
	path := map[bool]string{true: "/send-payments", false: "/send-payment"}
	_, many := asked.(Batch)
	k.pays = true
	err = k.ask(&made, http.MethodPost, path[many], string(text), "Idempotency-Key", key)
	return made, err
}

func (c *Client) pay(ctx context.Context, intent string, body any, asked Batch) (made Payment, err error) {
	key, err := Key(intent)
	for _, o := range asked.Payments {
		err = errors.Join(err, checked(o.Amount))
	}
	if err != nil {
		return made, err
	}
	k, other := c.begin(ctx), &IntentReused{Intent: intent}
	sent, _ := json.Marshal(asked) // as the API reads it; the caller may change it meanwhile
	_ = json.Unmarshal(sent, &other.Asked)
	made, err = k.post(key, body)
	if refusal, is := errors.AsType[*Refused](err); is {
		return k.settle(refusal, key, other)
	}
	return made, err
}

// settle finds out what a refusal of one attempt means: an earlier one may pay until a look-up lifetime later finds nothing.
func (k *call) settle(refusal *Refused, key string, other *IntentReused) (Payment, error) {
	reused, sure := refusal.Code == "idempotency_key_reused", k.unanswered.IsZero()
	if sure && !reused {
		return Payment{}, refusal
	}
	wait := lifetime - time.Since(k.unanswered)
	for first := true; first && sure || k.pause(wait); first, wait = false, 0 {
		a := k.try(http.MethodGet, "/transactions?idempotency_key="+key, "")
		var found TransactionList
		if a.Status == http.StatusOK && json.Unmarshal(a.Body, &found) == nil && found.Data != nil {
			for _, p := range found.Data {
				if same(other.Asked, p) {
					return p, nil
				}
				other.Stored = &p
			}
			if other.Stored == nil && !reused {
				return Payment{}, refusal
			}
			return Payment{}, other
		}
		if k.refusal() != nil || sure && a.Status == http.StatusConflict {
			break
		}
	}
	if sure {
		return Payment{}, other
	}
	return Payment{}, k.unknown()
}

// same reports whether a stored payment is what was asked for.
func same(asked Batch, p Payment) bool {
	have := p.Payments
	if have == nil {
		have = []BatchEntry{{To: p.To, Amount: p.Amount, Reference: p.Reference}}
	}
	return asked.Reference == p.Reference && maps.Equal(asked.Metadata, p.Metadata) &&
		slices.EqualFunc(asked.Payments, have, func(o Entry, e BatchEntry) bool {
			return strings.EqualFold(o.To, e.To) && o.Amount == e.Amount && o.Reference == e.Reference
		})
}

// Wait returns a payment once it is confirmed or failed; one that is pending at the deadline with an *OutcomeUnknown.
func (c *Client) Wait(ctx context.Context, hash string) (p Payment, err error) {
	for k := c.begin(ctx); ; k.tries = 0 {
		if err := k.ask(&p, http.MethodGet, "/transaction/"+url.PathEscape(hash), ""); err != nil || p.Status != PaymentStatusPending {
			return p, err
		}
		if !k.pause(time.Second) {
			return p, k.unknown()
		}
	}
}

// VerifyWebhook returns the event of a raw body that was signed with the secret in the last five minutes.
func VerifyWebhook(secret string, body []byte, header http.Header) (event Event, err error) {
	hook, err := standardwebhooks.NewWebhook(cmp.Or(strings.TrimPrefix(secret, "whsec_"), "no secret")) // it takes "" for one
	if err == nil {
		err = hook.Verify(body, header)
	}
	if err == nil {
		err = json.Unmarshal(body, &event)
	}
	return event, err
}

// An Amount is a whole number of the token's smallest unit, to 2^256-1: "2500000" is 2.5 USDC. "" is null.
type Amount = json.Number

// checked returns an error unless the amount has digits alone, without leading zeros.
func checked(amount Amount) error {
	if n, ok := new(big.Int).SetString(string(amount), 10); !ok || n.String() != string(amount) || n.Sign() < 0 || n.BitLen() > 256 {
		return fmt.Errorf("%.100q is no amount: use decimal digits, at most 2^256-1", string(amount))
	}
	return nil
}

// ParseUnits returns whole tokens, such as "1.50", in the smallest unit. What does not fit exactly is an error.
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

// FormatUnits returns an amount in whole tokens, as short as it is exact: "1.5".
func FormatUnits(amount Amount, decimals int) (string, error) {
	if err := checked(amount); err != nil || decimals < 0 || decimals > 255 {
		return "", fmt.Errorf("%.100q is no amount of a token with %d decimals", string(amount), decimals)
	}
	digits := strings.Repeat("0", max(0, decimals+1-len(amount))) + string(amount)
	whole, fraction := digits[:len(digits)-decimals], digits[len(digits)-decimals:]
	return strings.TrimSuffix(whole+"."+strings.TrimRight(fraction, "0"), "."), nil
}
