package keyring_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/keyring"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// secretHex has no run of digits that anything else here prints.
const secretHex = "0xa1b2c3d4e5f60718293a4b5c6d7e8f90fedcba98765432100123456789abcdef"

func TestEncodesWhatItDecodes(t *testing.T) {
	key := must.Get(keyring.Decode([]byte(entry(keyHex))))(t)
	if got := string(keyring.Encode(key)); got != entry(keyHex) {
		t.Errorf("Encode = %s, want %s", got, entry(keyHex))
	}
	if _, err := keyring.Decode([]byte(`{"private_key":"` + keyHex + `","label":"of a newer version"}`)); err != nil {
		t.Errorf("members of a newer version: %v", err)
	}
}

func TestRefusesUnusableSecrets(t *testing.T) {
	digits := secretHex[2:]
	for name, raw := range map[string]string{
		"empty":                  ``,
		"not JSON":               digits,
		"a bare key":             `"` + secretHex + `"`,
		"cut off":                `{"private_key":"` + secretHex,
		"something after it":     entry(secretHex) + digits,
		"a key that is a number": `{"private_key":1234567890123456789}`,
		"no key":                 `{}`,
		"a key too long":         entry(secretHex + "0"),
		"a key of a bad digit":   entry(secretHex[:65] + "g"),
		"a key out of range":     entry("0xffffffffffffffffffffffffffffffff" + secretHex[34:]),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := keyring.Decode([]byte(raw))
			if !errors.Is(err, keyring.ErrSecret) {
				t.Fatalf("%v, want ErrSecret", err)
			}
			assertNoSecret(t, "the error", fmt.Sprintf("%v %+v %#v", err, err, err))
		})
	}
}

func TestPrintsNoKeyMaterial(t *testing.T) {
	key := mustKey(t, secretHex)
	ring, _ := ring(map[token.Address]string{key.Address(): entry(secretHex)})
	signer := must.Get(ring.Signer(t.Context(), registered(key.Address())))(t)
	hidden := struct{ inner any }{key} // fmt calls no methods on unexported fields
	deep := struct{ ring *keyring.Ring }{ring}
	values := map[string]any{
		"key": key, "pointer to key": &key, "keys": []keyring.Key{key},
		"ring": ring, "ring by value": []any{ring}, "signer": signer, "map": map[string]keyring.Key{"k": key},
		"unexported field": hidden, "unexported pointer": deep, "pointer to unexported": &hidden,
	}
	for name, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%w", "%t", "%p", "%c"} {
			assertNoSecret(t, name+" by "+verb, fmt.Sprintf(verb, v))
		}
		assertNoSecret(t, name+" by Sprint", fmt.Sprint(v)+fmt.Sprintln(v))
		b, _ := json.Marshal(v)
		assertNoSecret(t, name+" as JSON", string(b))
		var log bytes.Buffer
		slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "v", v, slog.Group("g", slog.Any("v", v)))
		slog.New(slog.NewTextHandler(&log, nil)).Info("m", "v", v)
		assertNoSecret(t, name+" in a log", log.String())
	}
	_, err := key.Sign(context.Background(), chain.Tx{ChainID: 1, To: key.Address()}, 0)
	assertNoSecret(t, "a refusal to sign", fmt.Sprintf("%v %#v", err, err))
}

// asNumbers are other ways to print the beginning of secretHex: its bytes, the
// whole number, and the words that math/big keeps it in.
var asNumbers = []string{"161 178 195", "161, 178, 195", "0xa1, 0xb2, 0xc3", "7313821897", "81985529216486895", "18364758544493064720"}

// assertNoSecret fails if text holds 8 digits in a row of secretHex.
func assertNoSecret(t *testing.T, what, text string) {
	t.Helper()
	digits := secretHex[2:]
	lower := strings.ToLower(text)
	for i := 0; i+8 <= len(digits); i++ {
		if strings.Contains(lower, digits[i:i+8]) {
			t.Errorf("%s shows key material: %s", what, text)
			return
		}
	}
	for _, number := range asNumbers {
		if strings.Contains(text, number) {
			t.Errorf("%s shows key material as numbers: %s", what, text)
		}
	}
}
