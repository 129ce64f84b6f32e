package keyring_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"remit/internal/chain"
	"remit/internal/keyring"
	"remit/internal/token"
	"remit/internal/wallet"
)

const otherHex = "0x0101010101010101010101010101010101010101010101010101010101010101"

// A vault is a secret store that tests fill and break.
type vault struct {
	mu    sync.Mutex
	raw   string
	err   error
	reads int
}

func (v *vault) read(context.Context) ([]byte, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.reads++
	return []byte(v.raw), v.err
}

func (v *vault) put(raw string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.raw, v.err = raw, err
}

func wallets(entries ...string) string { return `{"wallets":[` + strings.Join(entries, ",") + `]}` }

func entry(key string, draining bool) string {
	return fmt.Sprintf(`{"private_key":%q,"draining":%t}`, key, draining)
}

func TestKeepsTheSecretsOrderAndLeavesDrainingOnesOut(t *testing.T) {
	first, second := mustKey(t, keyHex).Address(), mustKey(t, otherHex).Address()
	ring := keyring.New((&vault{raw: wallets(entry(keyHex, true), entry(otherHex, false))}).read, nil)
	active, err := ring.Active(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, err := ring.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]token.Address{second}, active); diff != "" {
		t.Errorf("active (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]token.Address{first, second}, all); diff != "" {
		t.Errorf("all (-want +got):\n%s", diff)
	}
	all[0] = token.Address{}
	if again, _ := ring.All(t.Context()); again[0] != first {
		t.Error("a caller can change the ring")
	}
}

func TestSignsForDrainingWalletsTooAndForNoStrangers(t *testing.T) {
	key := mustKey(t, keyHex)
	ring := keyring.New((&vault{raw: wallets(entry(keyHex, true), entry(otherHex, false))}).read, nil)
	signer, err := ring.Signer(t.Context(), key.Address())
	if err != nil {
		t.Fatal(err)
	}
	tx := chain.Noop(1, key.Address(), chain.Fees{Cap: token.Units(9)})
	got, err := signer.Sign(tx, 3)
	if err != nil {
		t.Fatal(err)
	}
	want, err := key.Sign(tx, 3)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("signed (-want +got):\n%s", diff)
	}
	if _, err := ring.Signer(t.Context(), token.Address{1}); !errors.Is(err, wallet.ErrNoKey) {
		t.Errorf("Signer of a stranger: %v, want ErrNoKey", err)
	}
}

func TestGoesOnWithTheLastGoodKeys(t *testing.T) {
	down := errors.New("secret store is down")
	good := wallets(entry(keyHex, false))
	for _, row := range []struct {
		name string
		raw  string
		err  error
	}{
		{"the secret store is down", "", down},
		{"an operator stored rubbish", "{", nil},
		{"an operator stored no wallets", wallets(), nil},
		{"an operator stored a key twice", wallets(entry(keyHex, false), entry(keyHex, true)), nil},
	} {
		t.Run("cold, "+row.name, func(t *testing.T) {
			v := &vault{raw: row.raw, err: row.err}
			ring := keyring.New(v.read, func(err error) { t.Errorf("stale was called with %v, there are no keys to go on with", err) })
			for range 2 {
				if active, err := ring.Active(t.Context()); err == nil {
					t.Fatalf("Active = %v, want an error", active)
				}
			}
			v.put(good, nil)
			if _, err := ring.Active(t.Context()); err != nil {
				t.Fatalf("after recovery: %v", err)
			}
		})
		t.Run("warm, "+row.name, func(t *testing.T) {
			var reasons []error
			v := &vault{raw: good}
			ring := keyring.New(v.read, func(err error) { reasons = append(reasons, err) })
			want, err := ring.Active(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for outage := 1; outage <= 2; outage++ {
				v.put(row.raw, row.err)
				for range 3 {
					got, err := ring.Active(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Fatalf("(-want +got):\n%s", diff)
					}
				}
				if len(reasons) != outage {
					t.Fatalf("stale was called %d times in %d outages", len(reasons), outage)
				}
				v.put(good, nil)
				if _, err := ring.Active(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestTakesUpAChangedSecret(t *testing.T) {
	v := &vault{raw: wallets(entry(keyHex, false))}
	ring := keyring.New(v.read, nil)
	if _, err := ring.Active(t.Context()); err != nil {
		t.Fatal(err)
	}
	v.put(wallets(entry(otherHex, false)), nil)
	active, err := ring.Active(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]token.Address{mustKey(t, otherHex).Address()}, active); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDecodesASecretOnce(t *testing.T) {
	ring := keyring.New((&vault{raw: wallets(entry(keyHex, false), entry(otherHex, false))}).read, nil)
	address := mustKey(t, keyHex).Address()
	ask := func() {
		if _, err := ring.Signer(t.Context(), address); err != nil {
			t.Error(err)
		}
	}
	ask()
	if n := testing.AllocsPerRun(100, ask); n > 5 {
		t.Errorf("%v allocations to find a key: the secret is decoded every time", n)
	}
}

func TestIsSafeForManyGoroutines(t *testing.T) {
	v := &vault{raw: wallets(entry(keyHex, false), entry(otherHex, false))}
	ring := keyring.New(v.read, nil)
	address := mustKey(t, otherHex).Address()
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			signer, err := ring.Signer(t.Context(), address)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := signer.Sign(chain.Noop(1, address, chain.Fees{}), uint64(i)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
