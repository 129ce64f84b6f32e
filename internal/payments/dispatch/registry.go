package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

const (
	// RegistryAge is how long a process uses the registry that it has read, unless its Config says
	// otherwise: until then it may not know a change.
	RegistryAge = 5 * time.Minute
	// justRead is the age at which a registry still counts as current.
	justRead = 2 * time.Second
)

// registry returns the rail's wallets, read at most within ago. An empty registry counts for justRead only, so that a
// new rail pays soon. A process may pay from a draining wallet for RegistryAge more. A retired wallet reserves no
// nonce, even for a process that still believes it active.
func (d *Dispatcher) registry(ctx context.Context, within time.Duration) (wallet.Registry, error) {
	began := d.Now()
	d.mu.Lock()
	wallets, age := d.wallets, began.Sub(d.read)
	d.mu.Unlock()
	if len(wallets) == 0 {
		within = min(within, justRead)
	}
	if age >= 0 && age < within {
		return wallets, nil
	}
	wallets, err := d.Store.Wallets(ctx, d.Coin())
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.wallets, d.read = wallets, began
	d.mu.Unlock()
	return wallets, nil
}

// registryAge is short for a merchant with its own wallets: an operator may have assigned one a moment ago.
func (d sending) registryAge() time.Duration {
	if d.owner != "" {
		return justRead
	}
	return d.Dispatcher.registryAge()
}

func (d *Dispatcher) registryAge() time.Duration { return cmp.Or(d.RegistryAge, RegistryAge) }

// ready returns the key of a wallet if it can sign now. Call it before reserving a nonce, so that
// no reservations pile up while a key is out of reach.
func (d sending) ready(ctx context.Context, address token.Address) (wallet.Signer, error) {
	signer, err := d.signer(ctx, address)
	if err == nil {
		err = signer.Ready(ctx)
	}
	return signer, err
}

// signer returns the key of a wallet, which may be newer than this process's registry.
func (d sending) signer(ctx context.Context, address token.Address) (wallet.Signer, error) {
	var err error
	for _, within := range []time.Duration{d.registryAge(), 0} {
		var wallets wallet.Registry
		wallets, err = d.registry(ctx, within)
		if r, registered := wallets.Find(address); registered {
			return d.Keys.Signer(ctx, r)
		}
	}
	return nil, errors.Join(fmt.Errorf("%w %v", wallet.ErrNoKey, address), err)
}
