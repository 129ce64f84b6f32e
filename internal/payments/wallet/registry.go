package wallet

import (
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
)

// A State is a stage of a wallet's life.
type State string

// The states of a wallet, in their order. A drained wallet may become active again; a retired wallet stays retired.
const (
	Active   State = "active"   // new payments may use it
	Assigned State = "assigned" // new payments of its merchant may use it, and nobody else's
	Funding  State = "funding"  // it refills the active ones, and no payment may use it
	Draining State = "draining" // no new payment may use it; those under way finish
	Retired  State = "retired"  // its payments have all ended, and nothing reads its transactions any more
)

// Damaged is the state of a wallet whose registration cannot be read. No new payment uses it, and
// its transactions are settled like a draining wallet's.
const Damaged State = "damaged"

// States returns every state that is stored.
func States() []State { return []State{Active, Assigned, Funding, Draining, Retired} }

// A KeyRef is the place of a wallet's key: InSecret, or the ARN of a key in KMS.
type KeyRef string

// InSecret is the KeyRef of a key in a secret that is named after the wallet's address.
const InSecret KeyRef = "secret"

// A Registration is a wallet's entry in its chain's registry, without key material. If it is Damaged, only its ID is
// certain. If that is unknown too, its address is zero: it is counted and reported, and is no wallet's.
type Registration struct {
	ID
	Token  token.Address // the contract of its rail
	State  State
	Key    KeyRef
	Since  time.Time // when it entered State
	Opened bool      // it has a record

	// Merchant is the one that it is assigned to, kept while it is draining and retired; empty: it is a common wallet.
	// The record decides: a process may have read the registry minutes ago.
	Merchant string
}

// A Registry is the registrations of one rail, sorted by address.
type Registry []Registration

// Find returns the registration of an address, or false.
func (r Registry) Find(a token.Address) (Registration, bool) {
	i := slices.IndexFunc(r, func(r Registration) bool { return r.Address == a })
	if i < 0 {
		return Registration{}, false
	}
	return r[i], true
}

// Funding returns the first wallet that refills the others, or false.
func (r Registry) Funding() (Registration, bool) {
	i := slices.IndexFunc(r, func(r Registration) bool { return r.State == Funding })
	if i < 0 {
		return Registration{}, false
	}
	return r[i], true
}

// Paying returns the wallets that new payments of owner may use: a merchant with wallets of its own, or empty for all
// others.
func (r Registry) Paying(owner string) (paying []token.Address) {
	for _, r := range r {
		if r.Merchant == owner && (r.State == Active || r.State == Assigned) {
			paying = append(paying, r.Address)
		}
	}
	return paying
}

// Of returns the wallets assigned to a merchant that are not retired.
func (r Registry) Of(merchant string) Registry {
	return slices.DeleteFunc(slices.Clone(r), func(r Registration) bool {
		return r.Merchant != merchant || r.State == Retired
	})
}

// Fits reports whether the state is one of a wallet that is assigned, or of one that is not.
func (s State) Fits(merchant string) bool {
	return s == Draining || s == Retired || (s == Assigned) == (merchant != "")
}

// Working returns the wallets that are not retired, either with a record or without.
func (r Registry) Working(opened bool) Registry {
	return slices.DeleteFunc(slices.Clone(r), func(r Registration) bool {
		return r.State == Retired || r.Opened != opened || r.Address.IsZero()
	})
}
