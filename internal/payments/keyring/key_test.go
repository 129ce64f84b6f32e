package keyring_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"math/big"
	"strings"
	"testing"

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

func mustAddress(t *testing.T, s string) token.Address {
	t.Helper()
	return must.Get(token.ParseAddress(s))(t)
}

// oneUSDC is a transfer of it on Base Sepolia.
func oneUSDC(t *testing.T) chain.Tx {
	return chain.Tx{
		ChainID: 84532, To: mustAddress(t, "0x036CbD53842c5426634e7929541eC2318f3dCF7e"), Gas: 65_000,
		Data: chain.TransferData(mustAddress(t, "0x000000000000000000000000000000000000dead"), token.Units(1_000_000)),
		Fees: chain.Fees{Tip: token.Units(1_000_000), Cap: token.Units(3_000_000_000)},
	}
}

func TestSignsWhatAnotherLibrarySigns(t *testing.T) {
	// Raw and hash were produced by eth-account 0.14.0 (Python).
	key := mustKey(t, keyHex)
	if got, want := key.Address().String(), "0x9d8A62f656a8d1615C1294fd71e9CFb3E4855A4F"; got != want {
		t.Fatalf("address %s, want %s", got, want)
	}
	huge := must.Get(token.AmountFromBytes(append([]byte{1}, make([]byte, 25)...)))(t)
	for _, row := range []struct {
		name      string
		tx        chain.Tx
		nonce     uint64
		raw, hash string
	}{
		{
			name: "a transfer of one USDC on Base Sepolia", tx: oneUSDC(t), nonce: 7,
			raw: "02f8b183014a3407830f424084b2d05e0082fde894036cbd53842c5426634e7929541ec2318f3dcf7e80b844a9059cbb" +
				"000000000000000000000000000000000000000000000000000000000000dead00000000000000000000000000000000000000000000000000000000000f4240" +
				"c001a0788e85956dbe5488cfa611f922b197892548f65ebeef4dadd16efbb2660a6658a05f6468945793a1164b0597e3c38b428e19b1149a5ec128c772fade190b9c821f",
			hash: "0x3e7733c238ba0f356c93be023ca7451e665d294f825d8d0e9c195aa37a067530",
		},
		{
			name: "a no-op at nonce 0 with no tip and a cap beyond 64 bits",
			tx:   chain.Noop(1, key.Address(), chain.Fees{Cap: huge}),
			raw: "02f87c0180809a0100000000000000000000000000000000000000000000000000825208949d8a62f656a8d1615c1294fd71e9cfb3e4855a4f8080" +
				"c001a07cf39756638260e0336166a7c6db683e7588de73d39df415b0420bf7cca17f40a040e9fd1207db0e23f75e786710960473fe77709f8fc7cee4a854318d5a60717f",
			hash: "0xba515805c0291f3d72fb88628ee9fe2302b7b7c4c289d0a08b67615d65caae64",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			signed := must.Get(key.Sign(context.Background(), row.tx, row.nonce))(t)
			if signed.Nonce != row.nonce {
				t.Errorf("nonce %d, want %d", signed.Nonce, row.nonce)
			}
			if diff := cmp.Diff(row.raw, hex.EncodeToString(signed.Raw)); diff != "" {
				t.Errorf("raw (-want +got):\n%s", diff)
			}
			if got := signed.Hash.String(); got != row.hash {
				t.Errorf("hash %s, want %s", got, row.hash)
			}
		})
	}
}

func TestSignsWhatWasAskedAsGoEthereumDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "key")
		seed[0] &= 0x7f // below the order of the curve
		seed[31] |= 1   // and not zero
		key := must.Get(keyring.Generate(bytes.NewReader(seed)))(t)
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

// signByGeth signs with go-ethereum's own curve, which is C code where cgo is on,
// and returns the account too.
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
		"empty": "", "only a prefix": "0x", "63 digits": keyHex[:65], "65 digits": keyHex + "4", "66 digits": keyHex + "46",
		"not hex": "0x" + strings.Repeat("zz", 32), "blanks": " " + keyHex, "0X": "0X" + keyHex[2:],
		"zero": "0x" + strings.Repeat("00", 32), "the order of the curve": order,
	} {
		if _, err := keyring.ParseKey(s); !errors.Is(err, keyring.ErrKey) {
			t.Errorf("ParseKey of %s: %v, want ErrKey", name, err)
		}
	}
}

func TestGeneratesFromTheBytesGiven(t *testing.T) {
	good := bytes.Repeat([]byte{0x46}, 32)
	useless := append(bytes.Repeat([]byte{0xff}, 32), make([]byte, 32)...) // beyond the order, then zero
	for name, random := range map[string][]byte{
		"the first bytes are a key":       good,
		"bytes that are none are skipped": append(useless, good...),
	} {
		key, err := keyring.Generate(bytes.NewReader(random))
		if err != nil || key.Address() != mustKey(t, keyHex).Address() {
			t.Errorf("%s: Generate controls %v, %v", name, key.Address(), err)
		}
	}
	if _, err := keyring.Generate(strings.NewReader("too short")); err == nil {
		t.Error("Generate made a key of 9 bytes")
	}
}
