package store

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// ErrTooLarge reports a value beyond a bound of this port. Nothing was stored.
var ErrTooLarge = errors.New("larger than a store takes")

// The bounds of this port, besides payment.MaxEntries, payment.MaxMetadata and wallet.MaxInFlight.
// They keep an item below DynamoDB's 400 KB and a transaction below its 4 MB and 100 items, and no
// expression grows with any of them (Amazon DynamoDB Developer Guide, "Quotas in Amazon DynamoDB").
const (
	// MaxAttempts is the most attempts at a nonce. Each raises the fees by an eighth
	// (chain.Fees.Bump), so that 200 raise them by a factor of 10^10.
	MaxAttempts = 200
	// MaxRaw is the most bytes of a signed transaction or its call data: nodes accept no more
	// (go-ethereum, core/txpool/legacypool, txMaxSize: 128 KB).
	MaxRaw = 128 << 10
	// MaxEvent is the most bytes of a payment's event. The largest batch's has 170,000.
	MaxEvent = 200 << 10
	// MaxLimits is how many limits a charge has: its merchant's and its key's.
	MaxLimits = 2
	// MaxDayKeys is the most keys with limits of their own in a merchant's day: 40 times the keys
	// that it may have at once (apikey.MaxLive), in an item of 100 KB.
	MaxDayKeys = 1000
	// MaxDenied is the most recipients on the deny list: with reasons of MaxReason they fit into one page of a query (1
	// MB). Two concurrent writers may exceed it by one. Longer lists: settings.Settings.Sanctions.
	MaxDenied = 1000
	// MaxReason is the most bytes of a denial's reason.
	MaxReason = 500
	// MaxRails is the most rails: a few KB each, so that one page of a query has them all.
	MaxRails = 32
	// MaxGuarded is the most payments of a guard: with more that are not final, further ones wait.
	MaxGuarded = 100
	// MaxNodes is the most nodes in a list of silent nodes. While more are silent, all count as answering.
	MaxNodes = 100
)

// FitsPayment returns ErrTooLarge if p is beyond a bound, else nil.
func FitsPayment(p payment.Payment) error {
	raw, event := len(p.Tx.Data), 0
	for _, a := range p.Attempts {
		raw = max(raw, len(a.Raw))
	}
	if p.Event != nil {
		event = len(p.Event.Body)
	}
	for _, e := range p.Entries {
		if len(p.Entries) > 1 && disburser.MaxAmount().Less(e.Amount) {
			return fmt.Errorf("%w: an entry of %s", ErrTooLarge, e.Amount)
		}
	}
	return cmp.Or(
		Within("entries", len(p.Entries), payment.MaxEntries), Within("pairs of metadata", len(p.Metadata), payment.MaxMetadata),
		Within("attempts", len(p.Attempts), MaxAttempts), Within("bytes signed", raw, MaxRaw), Within("bytes of an event", event, MaxEvent))
}

// FitsGuard returns ErrTooLarge if g has no room for another payment.
func FitsGuard(g Guard) error { return Within("payments of a guard", len(g.Payments)+1, MaxGuarded) }

// FitsTx returns ErrTooLarge if tx is beyond a bound, else nil.
func FitsTx(tx wallet.PendingTx) error {
	return cmp.Or(Within("attempts", len(tx.Hashes), MaxAttempts), Within("bytes signed", len(tx.Raw), MaxRaw))
}

// ErrDayKeys is the ErrDailyLimit of a charge with one key too many in its day.
var ErrDayKeys = fmt.Errorf("%w: %w: %d keys with limits in one day", ErrDailyLimit, ErrTooLarge, MaxDayKeys)

// FitsDenials returns ErrTooLarge if d exceeds a bound, given the number of other denials.
func FitsDenials(d Denial, others int) error {
	return cmp.Or(Within("denials", others+1, MaxDenied), Within("bytes of a reason", len(d.Reason), MaxReason))
}

// FitsProgress returns ErrTooLarge if p, which may be nil, is beyond a bound.
func FitsProgress(p *wallet.Progress) error {
	if p == nil {
		return nil
	}
	return Within("nonces", len(p.Paid), wallet.MaxInFlight)
}

// Within returns ErrTooLarge if n things are more than most.
func Within(things string, n, most int) error {
	if n > most {
		return fmt.Errorf("%w: %d %s, at most %d", ErrTooLarge, n, things, most)
	}
	return nil
}
