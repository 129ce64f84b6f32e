package httpapi

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/remit-payouts/remit/internal/api/strictjson"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
)

// A Payer makes payments; *dispatch.Dispatcher is one.
type Payer interface {
	Send(ctx context.Context, r payment.Request) (dispatch.Result, error)
}

// SendPayment serves POST /send-payment. The contracts of all assets are refused as recipients.
func SendPayment(payer Payer, wallets WalletFinder, assets Assets) Endpoint {
	return paying("SendPayment", (*form).single, payer, wallets, assets)
}

// SendPayments serves POST /send-payments: a batch, all or nothing.
func SendPayments(payer Payer, wallets WalletFinder, assets Assets) Endpoint {
	return paying("SendPayments", (*form).batch, payer, wallets, assets)
}

// An asked payment is a request that was read, and where in the body the recipient of an entry is.
type asked struct {
	payment.Request
	at func(entry int) []any
}

func (f *form) single(c *call, all stack.Assets) asked {
	to, field := f.recipient(all)
	amount := f.amount("amount")
	r := f.request(c, all)
	r.To, r.Amount, r.DifferentFrom = to, amount, f.hash("different_from")
	return asked{r, func(int) []any { return []any{field} }}
}

func (f *form) batch(c *call, all stack.Assets) asked {
	entries, fields := f.entries(all)
	r, fits := f.request(c, all).Batch(entries)
	if len(f.bad) == 0 && !fits {
		f.refuse("payments", "too_large", "Must be at most 2^256-1 in all")
	}
	return asked{r, func(i int) []any { return []any{"payments", i, fields[i]} }}
}

// proposalsOnly refuses the fields of a proposal in a payment that would be made now.
func (f *form) proposalsOnly() {
	for _, field := range []string{"not_before", "expires_in_seconds", "approval"} {
		if _, ok := f.given(field); ok {
			f.refuse(field, "proposals_only", "This would pay now: send it to POST /proposals")
		}
	}
}

type entryError struct {
	error
	index int // from 0
}

func (e entryError) Unwrap() error { return e.error }

// request reads the parts that one payment and a batch have alike.
func (f *form) request(c *call, all stack.Assets) payment.Request {
	r := payment.Request{Merchant: c.caller.MerchantID, Mode: string(c.caller.Mode), Metadata: f.metadata("metadata")}
	asset, standard := f.asset(all).Coin(), all[0].Coin()
	if asset != standard {
		r.Asset = asset
	}
	r.Key = limitsOf(c.caller, r.Asset)
	r.Key.OtherAsset = !c.caller.Grant.Pays(asset, standard)
	r.Reference, _ = f.text("reference", 1, payment.MaxReference)
	return r
}

// paying makes the Endpoint of a route that pays. read reads its request.
func paying(handler string, read func(*form, *call, stack.Assets) asked, payer Payer, wallets WalletFinder, assets Assets) Endpoint {
	return submission(handler, func(c *call, f *form) (answer, error) {
		all, err := assets.ofPayment(c)
		if err != nil {
			return answer{}, err
		}
		r := read(f, c, all)
		f.proposalsOnly()
		if err := f.err(); err != nil {
			return answer{}, err
		}
		unusable := r.complete(c, f)
		result, err := payer.Send(c.Context(), r.Request)
		switch err = r.validity(err); {
		case unusable != nil && invalidsOf(err) == nil:
			return answer{}, unusable
		case errors.Is(err, dispatch.ErrInProgress) && r.IdempotencyKey == "":
			return answer{}, errors.Join(errKeyless, err)
		case err != nil:
			return answer{}, err
		}
		a := createdAnswer(result.Payment.Public(), result.Replayed)
		if result.Replayed {
			a.body = shown(c.Context(), wallets, result.Payment)[0]
		}
		return a, nil
	})
}

// complete reads the headers of the request. It returns an error if they are unusable, and a request that a Payer
// refuses: first for a wallet of the stack among its recipients, then for its NotAfter.
func (r *asked) complete(c *call, f *form) (err error) {
	if r.IdempotencyKey, err = idempotencyKey(c.Header); err == nil {
		r.NotAfter, err = notAfter(c.Header)
	}
	if err == nil && r.IdempotencyKey == "" && misplaced(c.Request, f) {
		err = errMisplaced
	}
	if err != nil {
		r.NotAfter = time.Unix(1<<40, 0) // beyond MaxNotAfter for ever
	}
	return err
}

func createdAnswer(body any, replayed bool) answer {
	a := answer{status: http.StatusCreated, body: body}
	if replayed {
		a.header = map[string]string{"Idempotent-Replayed": "true"}
	}
	return a
}

// validity returns err, with the entry of a batch that it concerns, or the invalid part of the request where it reports
// one.
func (r asked) validity(err error) error {
	entry, ofEntry := errors.AsType[*chain.EntryError](err)
	tooMany, many := errors.AsType[*dispatch.TooManyError](err)
	switch {
	case errors.Is(err, dispatch.ErrKeyReused):
		return invalids{{"idempotency_key_reused", []any{"header", "idempotency-key"},
			"This Idempotency-Key was used for other content, on another route, or for a proposal that has ended"}}
	case errors.Is(err, dispatch.ErrOwnWallet):
		own := 0
		if ofEntry {
			own = entry.Index
		}
		return invalids{{"recipient_refused", append([]any{"body"}, r.at(own)...), "Must not be a wallet of this service"}}
	case many:
		return invalids{{"too_many", []any{"body", "payments"},
			fmt.Sprintf("At most %d of these payments fit into one transaction of this chain", tooMany.Fit)}}
	case ofEntry && r.Entries != nil:
		return entryError{err, entry.Index}
	}
	return err
}

// entries reads the payments of a batch, and the names of their recipients' fields.
func (f *form) entries(all stack.Assets) (entries []payment.Entry, fields []string) {
	v, ok := f.object.Member("payments")
	switch {
	case !ok:
		f.missing("payments")
	case v.Kind != strictjson.Array:
		f.refuse("payments", "array_type", "Must be a list of payments")
	case len(v.Items) == 0:
		f.refuse("payments", "too_few", "Must have at least 1 payment")
	case len(v.Items) > payment.MaxEntries:
		f.refuse("payments", "too_many", fmt.Sprintf("Must have at most %d payments", payment.MaxEntries))
		return nil, nil
	}
	for i, item := range v.Items {
		if item.Kind != strictjson.Object {
			f.bad.add("object_type", "Must be a JSON object", "body", "payments", i)
			continue
		}
		one := form{object: item, at: []any{"body", "payments", i}}
		to, field := one.recipient(all)
		e := payment.Entry{To: to, Amount: one.amount("amount")}
		e.Reference, _ = one.text("reference", 1, payment.MaxReference)
		if _, ok := one.text("asset", 0, math.MaxInt); ok {
			one.refuse("asset", "asset_unknown", "A batch has one asset: name it beside payments")
		}
		entries, fields, f.bad = append(entries, e), append(fields, field), append(f.bad, one.bad...)
	}
	return entries, fields
}

// limitsOf are the limits that a key's grant and its merchant's terms set to an asset, the default if it is zero.
func limitsOf(p apikey.Principal, asset token.Coin) payment.KeyLimits {
	terms := p.Terms.Of(asset)
	return payment.KeyLimits{
		Maximum: p.Grant.Maximum, Daily: payment.DailyLimit(p.Grant.Daily), Book: p.Grant.Book,
		Guard:           time.Duration(p.Grant.Guard) * time.Second,
		ApproveAbove:    p.Grant.ApproveAbove,
		MerchantMaximum: terms.Maximum, MerchantDaily: terms.Daily, OwnWallets: terms.Own != "",
	}
}

func (f *form) hash(field string) (h chain.Hash) {
	v, ok := f.given(field)
	if !ok {
		return h
	}
	h, err := chain.ParseHash(v.Text)
	if v.Kind != strictjson.String || err != nil || h.String() != v.Text {
		f.refuse(field, "hash_invalid", `Must be a tx_hash: "0x" and 64 lower-case hexadecimal digits`)
	}
	return h
}

// recipient reads wallet_address and to, two names of one field: at least one is
// required, and both must agree. It also returns the name that was used.
func (f *form) recipient(all stack.Assets) (to token.Address, field string) {
	wallet, named := f.address("wallet_address", all)
	other, alias := f.address("to", all)
	switch {
	case !named && !alias:
		f.missing("wallet_address")
	case !named:
		return other, "to"
	case alias && wallet != other && len(f.bad) == 0:
		f.refuse("to", "recipient_mismatch", "Must be the same address as wallet_address")
	}
	return wallet, "wallet_address"
}

// address reads a recipient and whether the field is there at all.
func (f *form) address(field string, all stack.Assets) (a token.Address, there bool) {
	v, there := f.object.Member(field)
	if !there {
		return a, false
	}
	if v.Kind != strictjson.String {
		f.refuse(field, "string_type", "Must be a string")
		return a, true
	}
	a, err := token.ParseAddress(v.Text)
	switch {
	case errors.Is(err, token.ErrChecksum):
		f.refuse(field, "address_checksum", checksumMsg)
	case err != nil:
		f.refuse(field, "address_invalid", addressMsg)
	case a.IsZero():
		f.refuse(field, "recipient_refused", "Must not be the zero address")
	case a.IsPrecompile():
		f.refuse(field, "recipient_refused", "Must not be a precompiled contract")
	case slices.ContainsFunc(all, func(of stack.Asset) bool { return of.Token.Contract == a }):
		f.refuse(field, "recipient_refused", "Must not be the token contract")
	}
	return a, true
}

// The messages for text that is no address, in a body and in a path.
const (
	addressMsg  = `Must be "0x" and 40 hexadecimal digits`
	checksumMsg = "Does not match its EIP-55 checksum: send it all in lower case, or correct it"
)

// metadata reads an optional object of strings. A fault is of the whole field: answers never repeat a merchant's names.
func (f *form) metadata(field string) map[string]string {
	v, ok := f.given(field)
	switch {
	case !ok:
		return nil
	case v.Kind != strictjson.Object:
		f.refuse(field, "object_type", "Must be a JSON object")
		return nil
	case len(v.Members) > payment.MaxMetadata:
		f.refuse(field, "too_many", "Must have at most 20 pairs")
		return nil
	}
	pairs := make(map[string]string, len(v.Members))
	for _, m := range v.Members {
		if n := utf8.RuneCountInString(m.Name); n < 1 || n > payment.MaxMetadataName {
			f.refuse(field, "metadata_name", "Names must have 1 to 40 characters")
			return nil
		}
		if m.Value.Kind != strictjson.String {
			f.refuse(field, "metadata_value", "Values must be strings")
			return nil
		}
		if utf8.RuneCountInString(m.Value.Text) > payment.MaxMetadataValue {
			f.refuse(field, "metadata_value", "Values must have at most 500 characters")
			return nil
		}
		pairs[m.Name] = m.Value.Text
	}
	return pairs
}
