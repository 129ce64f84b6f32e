package store

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// ErrTooLarge reports a value beyond a bound of this port. Nothing was stored.
var ErrTooLarge = errors.New("larger than a store takes")

// The bounds of this port, beside payment.MaxEntries, payment.MaxMetadata and
// wallet.MaxInFlight. An item at all of its bounds is below the 400 KB of DynamoDB, a
// transaction below its 4 MB and 100 items, and no expression grows with any of them
// (Amazon DynamoDB Developer Guide, "Quotas in Amazon DynamoDB").
const (
	// MaxAttempts is how many attempts a nonce has. Each raises the fees by an eighth
	// (chain.Fees.Bump), so that 200 raise them by a factor of 10^10.
	MaxAttempts = 200
	// MaxRaw is how many bytes a signed transaction, or its call data, has: nodes take no
	// more (go-ethereum, core/txpool/legacypool, txMaxSize: 128 KB).
	MaxRaw = 128 << 10
	// MaxEvent is how many bytes a payment's event has. That of the largest batch has 170,000.
	MaxEvent = 200 << 10
	// MaxLimits is how many limits a charge has: its merchant's and its key's.
	MaxLimits = 2
	// MaxDayKeys is how many keys with limits of their own a merchant's day counts: 40 times
	// the keys that it may have at once (apikey.MaxLive), in an item of 100 KB.
	MaxDayKeys = 1000
	// MaxDenied is how many recipients the deny list has: with reasons of MaxReason all of
	// it fits into one page of a query (1 MB). A longer list is a contract
	// (settings.Settings.Sanctions). Two writers at once may exceed it by one.
	MaxDenied = 1000
	// MaxReason is how many bytes the reason of a denial has.
	MaxReason = 500
	// MaxNodes is how many nodes may be known to be silent. Only configured nodes are silent nodes;
	// while more are silent, all are taken to answer.
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
	return cmp.Or(
		Within("entries", len(p.Entries), payment.MaxEntries), Within("pairs of metadata", len(p.Metadata), payment.MaxMetadata),
		Within("attempts", len(p.Attempts), MaxAttempts), Within("bytes signed", raw, MaxRaw), Within("bytes of an event", event, MaxEvent))
}

// FitsTx returns ErrTooLarge if tx is beyond a bound, else nil.
func FitsTx(tx wallet.PendingTx) error {
	return cmp.Or(Within("attempts", len(tx.Hashes), MaxAttempts), Within("bytes signed", len(tx.Raw), MaxRaw))
}

// ErrDayKeys is the ErrDailyLimit of a charge that would make its day count more keys.
var ErrDayKeys = fmt.Errorf("%w: %w: %d keys with limits in one day", ErrDailyLimit, ErrTooLarge, MaxDayKeys)

// FitsDenials returns ErrTooLarge if d, beside so many other denials, is beyond a bound.
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

// Within returns ErrTooLarge if n things are more than most, else nil.
func Within(things string, n, most int) error {
	if n > most {
		return fmt.Errorf("%w: %d %s, at most %d", ErrTooLarge, n, things, most)
	}
	return nil
}
