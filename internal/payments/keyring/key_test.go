package keyring_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/keyring"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
)

var _, _ wallet.Signer = keyring.Key{}, (*keyring.Remote)(nil)

const (
	// keyHex has no run of digits that anything else here prints.
	keyHex   = "0xa1b2c3d4e5f60718293a4b5c6d7e8f90fedcba98765432100123456789abcdef"
	otherHex = "0x0101010101010101010101010101010101010101010101010101010101010101"
)

func entry(key string) string { return fmt.Sprintf(`{"private_key":%q}`, key) }

func noopOf(a token.Address) chain.Tx {
	return chain.Noop(84532, a, chain.Fees{Tip: token.Units(1), Cap: token.Units(2)})
}

// A service signs for other processes: the digest as the function says.
type service func(digest []byte) ([]byte, error)

func (s service) remote(address token.Address) *keyring.Remote {
	return keyring.NewRemote(address, time.Now, func(_ context.Context, digest []byte) ([]byte, error) { return s(digest) })
}

// TestSignsAsGoEthereumDoes: a key in memory, and a service with either of a signature's two values of s. Another key's
// signature is not passed on.
func TestSignsAsGoEthereumDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "key")
		seed[0] &= 0x7f // below the order of the curve
		seed[31] |= 1   // and not zero
		key := must.Get(keyring.ParseKey(hex.EncodeToString(seed)))(t)
		amount := func(label string) token.Amount {
			return must.Get(token.AmountFromBytes(rapid.SliceOfN(rapid.Byte(), 0, 32).Draw(t, label)))(t)
		}
		feeCap, tip := amount("cap"), amount("tip")
		if feeCap.Less(tip) {
			feeCap, tip = tip, feeCap
		}
		// Of every length at which its encoding changes shape.
		data := rapid.OneOf(rapid.IntRange(0, 200), rapid.SampledFrom([]int{0, 1, 55, 56, 255, 256, 65_535, 65_536, 70_000}))
		tx := chain.Tx{
			ChainID: rapid.Uint64Min(1).Draw(t, "chain"),
			To:      token.Address(rapid.SliceOfN(rapid.Byte(), 20, 20).Draw(t, "to")),
			Value:   amount("value"),
			Data:    bytes.Repeat([]byte{rapid.Byte().Draw(t, "first byte")}, data.Draw(t, "data length")),
			Gas:     rapid.Uint64Min(chain.NoopGas).Draw(t, "gas"),
			Fees:    chain.Fees{Tip: tip, Cap: feeCap},
		}
		nonce, high := rapid.Uint64Max(1<<64-2).Draw(t, "nonce"), rapid.Bool().Draw(t, "high s")
		by := service(func(digest []byte) ([]byte, error) {
			signature := ecdsa.Sign(secp256k1.PrivKeyFromBytes(seed), digest)
			if r, s := signature.R(), signature.S(); high {
				return der(r.Bytes(), *s.Negate()), nil
			}
			return signature.Serialize(), nil
		})
		theirs, from := signByGeth(t, seed, tx, nonce)
		for _, signer := range []wallet.Signer{key, by.remote(from)} {
			signed := must.Get(signer.Sign(t.Context(), tx, nonce))(t)
			if diff := cmp.Diff(theirs, signed); diff != "" || key.Address() != from {
				t.Fatalf("%T: from %v, not %v (-go-ethereum +signed):\n%s", signer, key.Address(), from, diff)
			}
		}
		if signed, err := by.remote(token.Address{1}).Sign(t.Context(), tx, nonce); !says(err, "not of the wallet's key") {
			t.Fatalf("another's signature: %v, %v", signed, err)
		}
	})
}

// signByGeth signs with go-ethereum's own curve, which is C code where cgo is on, and returns the account too.
func signByGeth(t *rapid.T, key []byte, tx chain.Tx, nonce uint64) (chain.Signed, token.Address) {
	private := must.Get(crypto.ToECDSA(key))(t)
	tip, feeCap, value := tx.Fees.Tip.Bytes32(), tx.Fees.Cap.Bytes32(), tx.Value.Bytes32()
	to, id := common.Address(tx.To), new(big.Int).SetUint64(tx.ChainID)
	signed := must.Get(types.SignNewTx(private, types.NewLondonSigner(id), &types.DynamicFeeTx{
		ChainID: id, Nonce: nonce, GasTipCap: new(big.Int).SetBytes(tip[:]), GasFeeCap: new(big.Int).SetBytes(feeCap[:]),
		Gas: tx.Gas, To: &to, Value: new(big.Int).SetBytes(value[:]), Data: tx.Data,
	}))(t)
	raw := must.Get(signed.MarshalBinary())(t)
	return chain.Signed{Nonce: nonce, Hash: chain.Hash(signed.Hash()), Raw: raw}, token.Address(crypto.PubkeyToAddress(private.PublicKey))
}

func says(err error, words string) bool { return err != nil && strings.Contains(err.Error(), words) }

// der is the ASN.1 of a signature, whose s may be high.
func der(r [32]byte, s secp256k1.ModNScalar) []byte {
	integer := func(b [32]byte) []byte {
		n := bytes.TrimLeft(b[:], "\x00")
		if n[0] > 0x7f {
			n = append([]byte{0}, n...)
		}
		return append([]byte{2, byte(len(n))}, n...)
	}
	body := append(integer(r), integer(s.Bytes())...)
	return append([]byte{0x30, byte(len(body))}, body...)
}

func TestRefusesToSignWhatNoNodeTakes(t *testing.T) {
	key := must.Get(keyring.ParseKey(keyHex))(t)
	for name, row := range map[string]struct {
		key   keyring.Key
		nonce uint64
		spoil func(*chain.Tx)
	}{
		"no chain id: any chain would take it":       {key, 0, func(tx *chain.Tx) { tx.ChainID = 0 }},
		"the last nonce of 64 bits, by EIP-2681":     {key, 1<<64 - 1, func(*chain.Tx) {}},
		"less gas than any transaction costs":        {key, 0, func(tx *chain.Tx) { tx.Gas = 20_999 }},
		"a tip above the cap, by EIP-1559":           {key, 0, func(tx *chain.Tx) { tx.Fees.Tip = token.Units(3) }},
		"the zero key, with which nobody ever signs": {keyring.Key{}, 0, func(*chain.Tx) {}},
	} {
		tx := noopOf(key.Address())
		row.spoil(&tx)
		signed, err := row.key.Sign(t.Context(), tx, row.nonce)
		if !says(err, "cannot be signed") {
			t.Errorf("%s: %v, %v", name, signed, err)
		}
		assertNoSecret(t, name, fmt.Sprintf("%v %#v", err, err))
	}
	for name, by := range map[string]service{
		"empty":         func([]byte) ([]byte, error) { return nil, nil },
		"the digest":    func(digest []byte) ([]byte, error) { return digest, nil },
		"zeros":         func([]byte) ([]byte, error) { return []byte{0x30, 6, 2, 1, 0, 2, 1, 0}, nil },
		"of any number": func([]byte) ([]byte, error) { return []byte{0x30, 6, 2, 1, 1, 2, 1, 1}, nil },
	} {
		if signed, err := by.remote(token.Address{1}).Sign(t.Context(), noopOf(token.Address{1}), 0); !says(err, "not of the wallet's key") {
			t.Errorf("a signature that is %s: %v, %v", name, signed, err)
		}
	}
}

// TestReadsKeys from every form that has one, and quotes none of the others.
func TestReadsKeys(t *testing.T) {
	digits := keyHex[2:]
	for _, raw := range []string{entry(keyHex), entry("0x" + strings.ToUpper(digits)), entry(digits),
		`{"private_key":"` + keyHex + `","label":"of a newer version"}`} {
		if key, err := keyring.Decode([]byte(raw)); err != nil || string(keyring.Encode(key)) != entry(keyHex) {
			t.Errorf("%s is read as %s, %v", raw, keyring.Encode(key), err)
		}
	}
	const order = "0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141" // of secp256k1, SEC 2
	for _, bad := range []string{"", "0x", keyHex[:65], keyHex + "4", keyHex + "46", "0x" + strings.Repeat("zz", 32), " " + keyHex,
		"0X" + digits, "0x" + strings.Repeat("00", 32), order, "0xffffffffffffffffffffffffffffffff" + keyHex[34:]} {
		if _, err := keyring.Decode([]byte(entry(bad))); !says(err, "invalid private key") || !errors.Is(err, keyring.ErrSecret) {
			t.Errorf("the key %q: %v", bad, err)
		} else {
			assertNoSecret(t, "the error of a key", fmt.Sprintf("%v %+v %#v", err, err, err))
		}
	}
	for _, raw := range []string{``, digits, `"` + keyHex + `"`, `{"private_key":"` + keyHex, entry(keyHex) + digits, `{}`,
		`{"private_key":1234567890123456789}`} {
		_, err := keyring.Decode([]byte(raw))
		if !errors.Is(err, keyring.ErrSecret) {
			t.Errorf("%s: %v, want ErrSecret", raw, err)
		}
		assertNoSecret(t, "the error of a secret", fmt.Sprintf("%v %+v %#v", err, err, err))
	}
}

func TestPrintsNoKeyMaterial(t *testing.T) {
	key := must.Get(keyring.ParseKey(keyHex))(t)
	ring, _ := ring(map[token.Address]string{key.Address(): entry(keyHex)})
	signer := must.Get(ring.Signer(t.Context(), registered(key.Address())))(t)
	hidden := struct{ inner any }{key} // fmt calls no methods on unexported fields
	for name, v := range map[string]any{
		"key": key, "pointer to key": &key, "keys": []keyring.Key{key},
		"ring": ring, "ring by value": []any{ring}, "signer": signer, "map": map[string]keyring.Key{"k": key},
		"unexported field": hidden, "unexported pointer": struct{ ring *keyring.Ring }{ring}, "pointer to unexported": &hidden,
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%w", "%t", "%p", "%c"} {
			assertNoSecret(t, name+" by "+verb, fmt.Sprintf(verb, v))
		}
		b, _ := json.Marshal(v)
		var log bytes.Buffer
		slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "v", v, slog.Group("g", slog.Any("v", v)))
		slog.New(slog.NewTextHandler(&log, nil)).Info("m", "v", v)
		assertNoSecret(t, name+" as JSON, in a log, or printed", fmt.Sprint(string(b), log.String(), v))
	}
}

// assertNoSecret fails if text has 8 digits in a row of keyHex, its first bytes, the number, or its words in math/big.
func assertNoSecret(t *testing.T, what, text string) {
	t.Helper()
	parts := []string{"161 178 195", "161, 178, 195", "0xa1, 0xb2, 0xc3", "7313821897", "81985529216486895", "18364758544493064720"}
	for i := 2; i+8 <= len(keyHex); i++ {
		parts = append(parts, keyHex[i:i+8])
	}
	for _, part := range parts {
		if strings.Contains(strings.ToLower(text), part) {
			t.Errorf("%s shows key material: %s", what, text)
			return
		}
	}
}

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

// TestARingSignsWithTheKeyOfEachWallet: with its own secret alone, which is opened once, from many goroutines.
func TestARingSignsWithTheKeyOfEachWallet(t *testing.T) {
	key, other := must.Get(keyring.ParseKey(keyHex))(t), must.Get(keyring.ParseKey(otherHex))(t)
	swapped, broken := token.Address{7}, token.Address{8}
	keys, opened := ring(map[token.Address]string{
		key.Address(): entry(keyHex), other.Address(): entry(otherHex), swapped: entry(keyHex), broken: "{",
	})
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if signer, err := keys.Signer(t.Context(), registered(key.Address())); err != nil || signer.(keyring.Key).Address() != key.Address() {
				t.Errorf("%v, %v", signer, err)
			}
		})
	}
	all.Wait()
	if opened[key.Address()] != 1 || len(opened) != 1 {
		t.Errorf("opened %v", opened)
	}
	for a, want := range map[token.Address]error{{9}: wallet.ErrNoKey, swapped: keyring.ErrSecret,
		broken: keyring.ErrSecret, other.Address(): nil} {
		if _, err := keys.Signer(t.Context(), registered(a)); !errors.Is(err, want) {
			t.Errorf("Signer(%s): %v, want %v", a, err, want)
		}
	}
}

// TestReady: the service is asked at most once a second, by however many, and a signature's own outcome counts as well.
func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, errOut := must.Get(keyring.ParseKey(keyHex))(t), errors.New("out of reach")
		private := must.Get(hex.DecodeString(keyHex[2:]))(t)
		var err error
		calls := 0
		r := service(func(digest []byte) ([]byte, error) {
			calls++
			return ecdsa.Sign(secp256k1.PrivKeyFromBytes(private), digest).Serialize(), err
		}).remote(key.Address())
		for _, step := range []struct {
			after     time.Duration
			err, want error
			signs     bool
			calls     int
		}{
			{0, nil, nil, false, 1},
			{999 * time.Millisecond, errOut, nil, false, 1},
			{time.Millisecond, errOut, errOut, false, 2},
			{999 * time.Millisecond, nil, errOut, false, 2},
			{time.Millisecond, nil, nil, false, 3},
			{0, errOut, errOut, true, 4}, // a reservation is left, and the next is not taken
			{0, nil, nil, true, 5},
			{999 * time.Millisecond, errOut, nil, false, 5},
		} {
			time.Sleep(step.after)
			if err = step.err; step.signs {
				_, _ = r.Sign(t.Context(), noopOf(key.Address()), 0)
			}
			for range 3 {
				if got := r.Ready(t.Context()); !errors.Is(got, step.want) || calls != step.calls {
					t.Errorf("%+v: ready %v after %d calls", step, got, calls)
				}
			}
		}
	})
}
