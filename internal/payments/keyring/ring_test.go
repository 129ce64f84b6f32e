package keyring_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/keyring"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
)

const otherHex = "0x0101010101010101010101010101010101010101010101010101010101010101"

func registered(a token.Address) wallet.Registration {
	return wallet.Registration{ID: wallet.ID{ChainID: 1, Address: a}, State: wallet.Active, Key: wallet.InSecret}
}

// ring returns the keys of secrets by address, and counts how often each is opened.
func ring(values map[token.Address]string) (*keyring.Ring, map[token.Address]int) {
	opened := map[token.Address]int{}
	return keyring.New(func(a token.Address) keyring.Read {
		opened[a]++
		return func(context.Context) (keyring.Key, error) {
			value, found := values[a]
			if !found {
				return keyring.Key{}, wallet.ErrNoKey
			}
			return keyring.Decode([]byte(value))
		}
	}), opened
}

// TestARingSignsWithTheKeyOfEachWallet: for the wallet that is asked for, with its
// own secret alone, which is opened once.
func TestARingSignsWithTheKeyOfEachWallet(t *testing.T) {
	key, other := mustKey(t, keyHex), mustKey(t, otherHex)
	swapped, broken := token.Address{7}, token.Address{8}
	keys, opened := ring(map[token.Address]string{
		key.Address(): entry(keyHex), other.Address(): entry(otherHex), swapped: entry(keyHex), broken: "{",
	})
	tx := chain.Noop(1, key.Address(), chain.Fees{Cap: token.Units(9)})
	want := must.Get(key.Sign(context.Background(), tx, 3))(t)
	var all sync.WaitGroup
	for range 16 { // from many goroutines
		all.Go(func() {
			signer, err := keys.Signer(t.Context(), registered(key.Address()))
			if err != nil {
				t.Error(err)
				return
			}
			got, err := signer.Sign(context.Background(), tx, 3)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("signed, %v (-want +got):\n%s", err, diff)
			}
		})
	}
	all.Wait()
	if diff := cmp.Diff(map[token.Address]int{key.Address(): 1}, opened); diff != "" {
		t.Errorf("opened (-want +got):\n%s", diff)
	}
	for a, want := range map[token.Address]error{{9}: wallet.ErrNoKey, swapped: keyring.ErrSecret, broken: keyring.ErrSecret,
		other.Address(): nil} {
		if _, err := keys.Signer(t.Context(), registered(a)); !errors.Is(err, want) {
			t.Errorf("Signer(%s): %v, want %v", a, err, want)
		}
	}
}

func entry(key string) string { return fmt.Sprintf(`{"private_key":%q}`, key) }
