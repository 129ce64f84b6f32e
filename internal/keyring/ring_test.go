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
	"remit/internal/secrets"
	"remit/internal/token"
	"remit/internal/wallet"
)

const otherHex = "0x0101010101010101010101010101010101010101010101010101010101010101"

func wallets(entries ...string) string { return `{"wallets":[` + strings.Join(entries, ",") + `]}` }

func entry(key string, draining bool) string {
	return fmt.Sprintf(`{"private_key":%q,"draining":%t}`, key, draining)
}

// ring returns the keys of a wallet secret, or those before it that can be used.
func ring(secret *string) *keyring.Ring {
	read := func(context.Context) ([]byte, error) { return []byte(*secret), nil }
	return keyring.New(secrets.Cache(read, keyring.Decode).Get)
}

func TestARingHasTheKeysOfTheLastGoodSecret(t *testing.T) {
	first, second := mustKey(t, keyHex).Address(), mustKey(t, otherHex).Address()
	var secret string
	keys := ring(&secret)
	for _, step := range []struct {
		name, secret string
		active, all  []token.Address
	}{
		{"no secret, no keys", "{", nil, nil},
		{"the secret's order, draining ones left out", wallets(entry(keyHex, true), entry(otherHex, false)), []token.Address{second}, []token.Address{first, second}},
		{"an operator stored a key twice", wallets(entry(keyHex, false), entry(keyHex, true)), []token.Address{second}, []token.Address{first, second}},
		{"an operator stored another secret", wallets(entry(keyHex, false)), []token.Address{first}, []token.Address{first}},
	} {
		secret = step.secret
		active, err := keys.Active(t.Context())
		all, errAll := keys.All(t.Context())
		if bad := step.all == nil; bad != errors.Is(err, keyring.ErrSecret) || bad != errors.Is(errAll, keyring.ErrSecret) {
			t.Errorf("%s: %v, %v", step.name, err, errAll)
		}
		if diff := cmp.Diff([][]token.Address{step.active, step.all}, [][]token.Address{active, all}); diff != "" {
			t.Errorf("%s: active, all (-want +got):\n%s", step.name, diff)
		}
	}
}

func TestSignsForDrainingWalletsTooAndForNoStrangers(t *testing.T) {
	key := mustKey(t, keyHex)
	secret := wallets(entry(otherHex, false), entry(keyHex, true))
	keys := ring(&secret)
	tx := chain.Noop(1, key.Address(), chain.Fees{Cap: token.Units(9)})
	want, err := key.Sign(tx, 3)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 16 { // from many goroutines
		all.Go(func() {
			signer, err := keys.Signer(t.Context(), key.Address())
			if err != nil {
				t.Error(err)
				return
			}
			got, err := signer.Sign(tx, 3)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("signed, %v (-want +got):\n%s", err, diff)
			}
		})
	}
	all.Wait()
	if _, err := keys.Signer(t.Context(), token.Address{1}); !errors.Is(err, wallet.ErrNoKey) {
		t.Errorf("Signer of a stranger: %v, want ErrNoKey", err)
	}
	secret = "{"
	if _, err := ring(&secret).Signer(t.Context(), key.Address()); !errors.Is(err, keyring.ErrSecret) {
		t.Errorf("Signer without a secret: %v, want ErrSecret", err)
	}
}
