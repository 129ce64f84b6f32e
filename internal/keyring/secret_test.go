package keyring_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"remit/internal/chain"
	"remit/internal/keyring"
)

// secretHex has no run of digits that anything else here prints.
const secretHex = "0xa1b2c3d4e5f60718293a4b5c6d7e8f90fedcba98765432100123456789abcdef"

func TestEncodesWhatItDecodes(t *testing.T) {
	raw := []byte(wallets(entry(keyHex, false), entry(otherHex, true)))
	entries, err := keyring.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	if got := keyring.Encode(entries); !bytes.Equal(got, raw) {
		t.Errorf("Encode = %s, want %s", got, raw)
	}
	if _, err := keyring.Decode([]byte(`{"wallets":[{"private_key":"` + keyHex + `","label":"of a newer version"}],"more":1}`)); err != nil {
		t.Errorf("members of a newer version: %v", err)
	}
}

func TestRefusesUnusableSecretsByPositionOnly(t *testing.T) {
	digits := secretHex[2:]
	for _, row := range []struct{ name, raw, want string }{
		{"empty", ``, "JSON"},
		{"not JSON", digits, "JSON"},
		{"a bare key", `"` + secretHex + `"`, "JSON"},
		{"cut off", `{"wallets":[{"private_key":"` + secretHex, "JSON"},
		{"something after it", wallets(entry(secretHex, false)) + digits, "JSON"},
		{"a key that is a number", `{"wallets":[{"private_key":1234567890123456789}]}`, "JSON"},
		{"draining that holds the key", `{"wallets":[{"private_key":"","draining":"` + secretHex + `"}]}`, "JSON"},
		{"no wallets", `{}`, "no wallets"},
		{"an empty list", wallets(), "no wallets"},
		{"a key missing", wallets(entry(keyHex, false), `{"draining":true}`), "wallets[1]"},
		{"a key too long", wallets(entry(keyHex, false), entry(otherHex, false), entry(secretHex+"0", false)), "wallets[2]"},
		{"a key of a bad digit", wallets(entry(secretHex[:65]+"g", false)), "wallets[0]"},
		{"a key out of range", wallets(entry("0xffffffffffffffffffffffffffffffff"+secretHex[34:], false)), "wallets[0]"},
		{"a key twice", wallets(entry(secretHex, false), entry(keyHex, false), entry(strings.ToUpper(digits), true)), "wallets[2] is the same key as wallets[0]"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := keyring.Decode([]byte(row.raw))
			if !errors.Is(err, keyring.ErrSecret) {
				t.Fatalf("%v, want ErrSecret", err)
			}
			if !strings.Contains(err.Error(), row.want) {
				t.Errorf("%q does not say %q", err, row.want)
			}
			assertNoSecret(t, "the error", fmt.Sprintf("%v %+v %#v", err, err, err))
		})
	}
}

func TestPrintsNoKeyMaterial(t *testing.T) {
	key := mustKey(t, secretHex)
	secret := wallets(entry(secretHex, false))
	ring := ring(&secret)
	signer, err := ring.Signer(t.Context(), key.Address())
	if err != nil {
		t.Fatal(err)
	}
	hidden := struct{ inner any }{key} // fmt calls no methods on unexported fields
	deep := struct{ ring *keyring.Ring }{ring}
	values := map[string]any{
		"key": key, "pointer to key": &key, "entry": keyring.Entry{Key: key}, "entries": []keyring.Entry{{Key: key}},
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
	_, err = key.Sign(chain.Tx{ChainID: 1, To: key.Address()}, 0)
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
