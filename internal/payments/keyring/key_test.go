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

var _ wallet.Signer = keyring.Key{}

// keyHex is the key of the example in EIP-155. It guards nothing.
const keyHex = "0x4646464646464646464646464646464646464646464646464646464646464646"

func mustKey(t *testing.T, s string) keyring.Key {
	t.Helper()
	return must.Get(keyring.ParseKey(s))(t)
}

func TestSignsWhatWasAskedAsGoEthereumDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "key")
		seed[0] &= 0x7f // below the order of the curve
		seed[31] |= 1   // and not zero
		key := must.Get(keyring.ParseKey(hex.EncodeToString(seed)))(t)
		feeCap := amount(t, "cap")
		tip := amount(t, "tip")
		if feeCap.Less(tip) {
			feeCap, tip = tip, feeCap
		}
		tx := chain.Tx{
			ChainID: rapid.Uint64Min(1).Draw(t, "chain"),
			To:      token.Address(rapid.SliceOfN(rapid.Byte(), 20, 20).Draw(t, "to")),
			Value:   amount(t, "value"),
			Data:    data(t),
			Gas:     rapid.Uint64Min(chain.NoopGas).Draw(t, "gas"),
			Fees:    chain.Fees{Tip: tip, Cap: feeCap},
		}
		nonce := rapid.Uint64Max(1<<64-2).Draw(t, "nonce")

		signed := must.Get(key.Sign(context.Background(), tx, nonce))(t)
		theirs, from := signByGeth(t, seed, tx, nonce)
		if diff := cmp.Diff(theirs, signed); diff != "" || key.Address() != from {
			t.Fatalf("from %v, not %v (-go-ethereum +signed):\n%s", key.Address(), from, diff)
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

// data draws call data of every length at which its encoding changes shape.
func data(t *rapid.T) []byte {
	n := rapid.OneOf(rapid.IntRange(0, 200), rapid.SampledFrom([]int{0, 1, 55, 56, 255, 256, 65_535, 65_536, 70_000})).Draw(t, "data length")
	first := rapid.Byte().Draw(t, "first byte")
	return bytes.Repeat([]byte{first}, n)
}

func amount(t *rapid.T, label string) token.Amount {
	return must.Get(token.AmountFromBytes(rapid.SliceOfN(rapid.Byte(), 0, 32).Draw(t, label)))(t)
}

func TestRefusesToSignWhatNoNodeTakes(t *testing.T) {
	key := mustKey(t, keyHex)
	good := chain.Noop(1, key.Address(), chain.Fees{Tip: token.Units(1), Cap: token.Units(2)})
	for _, row := range []struct {
		name  string
		key   keyring.Key
		nonce uint64
		spoil func(*chain.Tx)
	}{
		{"no chain id: any chain would take it", key, 0, func(tx *chain.Tx) { tx.ChainID = 0 }},
		{"the last nonce of 64 bits, by EIP-2681", key, 1<<64 - 1, func(*chain.Tx) {}},
		{"less gas than any transaction costs", key, 0, func(tx *chain.Tx) { tx.Gas = 20_999 }},
		{"a tip above the cap, by EIP-1559", key, 0, func(tx *chain.Tx) { tx.Fees.Tip = token.Units(3) }},
		{"the zero key", keyring.Key{}, 0, func(*chain.Tx) {}},
	} {
		t.Run(row.name, func(t *testing.T) {
			tx := good
			row.spoil(&tx)
			if signed, err := row.key.Sign(context.Background(), tx, row.nonce); !errors.Is(err, keyring.ErrUnsignable) {
				t.Fatalf("Sign = %v, %v, want ErrUnsignable", signed, err)
			}
		})
	}
}

func TestReadsKeys(t *testing.T) {
	want := mustKey(t, keyHex).Address()
	upper := "0x" + strings.ToUpper(strings.TrimPrefix(keyHex, "0x"))
	for _, s := range []string{keyHex, upper, strings.TrimPrefix(keyHex, "0x")} {
		if got := mustKey(t, s).Address(); got != want {
			t.Errorf("ParseKey(%q) controls %v, want %v", s, got, want)
		}
	}
	const order = "0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141" // of secp256k1, SEC 2
	for name, s := range map[string]string{
		"empty": "", "a prefix": "0x", "63 digits": keyHex[:65], "65 digits": keyHex + "4", "66 digits": keyHex + "46",
		"not hex": "0x" + strings.Repeat("zz", 32), "blanks": " " + keyHex, "0X": "0X" + keyHex[2:],
		"zero": "0x" + strings.Repeat("00", 32), "the order of the curve": order,
	} {
		if _, err := keyring.ParseKey(s); !errors.Is(err, keyring.ErrKey) {
			t.Errorf("ParseKey of %s: %v, want ErrKey", name, err)
		}
	}
}

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
	for a, want := range map[token.Address]error{{9}: wallet.ErrNoKey, swapped: keyring.ErrSecret,
		broken: keyring.ErrSecret, other.Address(): nil} {
		if _, err := keys.Signer(t.Context(), registered(a)); !errors.Is(err, want) {
			t.Errorf("Signer(%s): %v, want %v", a, err, want)
		}
	}
}

func entry(key string) string { return fmt.Sprintf(`{"private_key":%q}`, key) }

var _ wallet.Signer = (*keyring.Remote)(nil)

// errOut is the answer of a service that is out of reach.
var errOut = errors.New("out of reach")

// A service signs for other processes: the digest as the function says.
type service func(digest []byte) ([]byte, error)

func (s service) remote(address token.Address) *keyring.Remote {
	return keyring.NewRemote(address, time.Now, func(_ context.Context, digest []byte) ([]byte, error) { return s(digest) })
}

func noopOf(a token.Address) chain.Tx {
	return chain.Noop(84532, a, chain.Fees{Tip: token.Units(1), Cap: token.Units(2)})
}

func mustHex(t *testing.T, s string) []byte {
	t.Helper()
	return must.Get(hex.DecodeString(s))(t)
}

// senderOf returns the account whose signature a raw transaction has, as go-ethereum recovers it. It refuses a high s.
func senderOf(raw []byte) (token.Address, error) {
	var tx types.Transaction
	if err := tx.UnmarshalBinary(raw); err != nil {
		return token.Address{}, err
	}
	from, err := types.Sender(types.LatestSignerForChainID(tx.ChainId()), &tx)
	return token.Address(from), err
}

// TestEverySignatureIsOfTheWallet: whichever of its two values of s a service answers
// with, go-ethereum recovers the wallet; another key's signature is not passed on.
func TestEverySignatureIsOfTheWallet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "key")
		seed[0] &= 0x7f
		seed[31] |= 1
		own := must.Get(keyring.ParseKey(hex.EncodeToString(seed)))(t)
		high := rapid.Bool().Draw(t, "high s")
		by := service(func(digest []byte) ([]byte, error) {
			signature := ecdsa.Sign(secp256k1.PrivKeyFromBytes(seed), digest)
			r, s := signature.R(), signature.S()
			if high {
				return der(r.Bytes(), *s.Negate()), nil
			}
			return signature.Serialize(), nil
		})
		nonce := rapid.Uint64Max(1<<64-2).Draw(t, "nonce")
		signed := must.Get(by.remote(own.Address()).Sign(t.Context(), noopOf(own.Address()), nonce))(t)
		if from, err := senderOf(signed.Raw); err != nil || from != own.Address() {
			t.Fatalf("signed by %s, not %s: %v", from, own.Address(), err)
		}
		if signed, err := by.remote(token.Address{1}).Sign(t.Context(), noopOf(own.Address()), nonce); !errors.Is(err, keyring.ErrSignature) {
			t.Fatalf("another's signature: %v, %v", signed, err)
		}
	})
}

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

func TestRefusesWhatIsNoSignature(t *testing.T) {
	for name, by := range map[string]service{
		"empty":         func([]byte) ([]byte, error) { return nil, nil },
		"the digest":    func(digest []byte) ([]byte, error) { return digest, nil },
		"zeros":         func([]byte) ([]byte, error) { return []byte{0x30, 6, 2, 1, 0, 2, 1, 0}, nil },
		"of any number": func([]byte) ([]byte, error) { return []byte{0x30, 6, 2, 1, 1, 2, 1, 1}, nil },
	} {
		if signed, err := by.remote(token.Address{1}).Sign(t.Context(), noopOf(token.Address{1}), 0); !errors.Is(err, keyring.ErrSignature) {
			t.Errorf("%s: %v, %v", name, signed, err)
		}
	}
}

// TestReady: the service is asked at most once a second, however many want to know,
// and a signature's own outcome counts as well.
func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var err error
		calls := 0
		key := mustKey(t, keyHex)
		r := service(func(digest []byte) ([]byte, error) {
			calls++
			return ecdsa.Sign(secp256k1.PrivKeyFromBytes(mustHex(t, keyHex[2:])), digest).Serialize(), err
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
			err = step.err
			if step.signs {
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
