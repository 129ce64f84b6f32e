// Package rig puts the parts of Remit together in one process for measuring:
// the real engines and handlers, stores and nodes that count and take as long
// as they are told to, on the embedded chain.
package rig

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"remit/internal/chain"
	"remit/internal/devnet"
	"remit/internal/keyring"
	"remit/internal/token"
)

// BlockTime of the chain of a rig.
const BlockTime = 250 * time.Millisecond

// A Chain is an embedded chain that makes a block every BlockTime until it is
// told to pause.
type Chain struct {
	*devnet.Chain

	stop    context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex
	paused bool
	err    error
	heads  map[uint64]time.Time // when each block became the head
}

// StartChain starts a chain with so many funded wallets.
func StartChain(ctx context.Context, wallets int) (*Chain, error) {
	embedded, err := devnet.Start(ctx, devnet.Config{Listen: "127.0.0.1:0", Wallets: wallets, Now: time.Now})
	if err != nil {
		return nil, err
	}
	making, stop := context.WithCancel(context.WithoutCancel(ctx))
	c := &Chain{Chain: embedded, stop: stop, heads: map[uint64]time.Time{}}
	c.running.Go(func() { c.produce(making) })
	return c, nil
}

func (c *Chain) produce(ctx context.Context) {
	tick := time.NewTicker(BlockTime)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			c.mu.Lock()
			if !c.paused {
				c.err = errors.Join(c.err, c.Mine())
				c.heads[c.Head().Number] = time.Now()
			}
			c.mu.Unlock()
		}
	}
}

// Pause stops the making of blocks; Resume goes on with it.
func (c *Chain) Pause() { c.set(true) }

// Resume ends Pause.
func (c *Chain) Resume() { c.set(false) }

func (c *Chain) set(paused bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paused = paused
}

// MinedAt returns when a block became the head.
func (c *Chain) MinedAt(block uint64) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heads[block]
}

// Close ends the chain and returns what went wrong on it.
func (c *Chain) Close() error {
	c.stop()
	c.running.Wait()
	return errors.Join(c.err, c.Chain.Close())
}

// Mined returns how many transactions of the wallets are mined.
func (c *Chain) Mined(ctx context.Context, wallets []devnet.Wallet) (uint64, error) {
	total := uint64(0)
	for _, w := range wallets {
		n, err := c.NonceOf(ctx, w.Address)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// ErrNotMined reports transactions that were sent and are not mined in time.
var ErrNotMined = errors.New("not everything was mined")

// Await waits until the wallets have so many mined transactions, and all of them
// are final: a store that knows nothing of the wallets takes them on only then.
func (c *Chain) Await(ctx context.Context, wallets []devnet.Wallet, want uint64) error {
	var got, mined uint64 // mined is the block by which they were
	for range 240 {       // a minute of blocks
		var err error
		if got, err = c.Mined(ctx, wallets); err != nil {
			return err
		}
		head := c.Head().Number
		if got >= want && mined == 0 {
			mined = head
		}
		if mined > 0 && head >= mined+ConfirmationRule.Depth {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(BlockTime):
		}
	}
	return fmt.Errorf("%w: %d of %d", ErrNotMined, got, want)
}

// Keys returns a ring of the wallets' keys.
func Keys(wallets []devnet.Wallet) (*keyring.Ring, error) {
	var entries []keyring.Entry
	for _, w := range wallets {
		key, err := keyring.ParseKey(w.PrivateKey())
		if err != nil {
			return nil, err
		}
		entries = append(entries, keyring.Entry{Key: key})
	}
	secret := keyring.Encode(entries)
	return keyring.New(func(context.Context) ([]byte, error) { return secret, nil }, nil), nil
}

// Payee is whom rigs pay.
var Payee = token.Address{0: 0x22, 19: 0x22}

// ConfirmationRule of rigs: a block that has another on top of it.
var ConfirmationRule = chain.ConfirmationRule{Depth: 1}
