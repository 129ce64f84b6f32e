package keyring_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"github.com/ethereum/go-ethereum/core/types"
	"pgregory.net/rapid"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/keyring"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
)

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

// TestSignsByRecordedSignatures: the answers of a KMS (the local AWS's, 1.5.33) for one key and the first transaction
// of TestSignsWhatAnotherLibrarySigns at nonce 7. The first two have a high s, the next two a low one.
func TestSignsByRecordedSignatures(t *testing.T) {
	address, err := keyring.AddressOf(mustHex(t, "3056301006072a8648ce3d020106052b8104000a0342000411484f1a0c45f0f07f27a5f6758208b3ffaf9fb386d6206ad7f54be3521dd466fed835ebfbb0a6c8eb5796e866c0673ed74df7473c22e7da58c6b18b87e6aba2"))
	must.OK(t, err)
	for _, der := range []string{
		"30450220075a75d8f4f3bff004656a96df6da2d211c68e23d6ac9d7e90f345103a1613f5022100f3ab0995f4421a0fe4df510ee509667db4a2f63959dfe32549fe05dc8749dd72",
		"3046022100f7fab9e06705846f988d3b7fe5508d348dd815dda99dfbe491f1fb41b6a4b041022100f907b862a4e014bbfcdaf5a4c2908f77ff25b86b81fd732013e17fb53f7abcbe",
		"304402201787a9bcfbfb17ccdd18aaf3fbe04b1c4219bf810314e96a1a967665f097abf1022022b64c3eb92dbe25b6c23d72826a87139bb20a8e6b714c371773da696142af95",
		"30450221009c7513cba682b29168835144d122e44939ca636486d4e8301e2d025d3ef0c95f022000c5e6c208c8ee0de54d1f4c3c7adc2fb7d1cdfd1723ae17aeb0c625bb1ddf0e",
	} {
		signed := must.Get(service(func(digest []byte) ([]byte, error) {
			if hex.EncodeToString(digest) != "92fcf9c1cebf728e27d2b8480f54473ec0a969aed6e65d7d56a886520064237d" {
				t.Errorf("asked for a signature of %x", digest)
			}
			return mustHex(t, der), nil
		}).remote(address).Sign(t.Context(), oneUSDC(t), 7))(t)
		if from, err := senderOf(signed.Raw); from != address || err != nil || signed.Nonce != 7 {
			t.Errorf("signed by %s, not %s: %v", from, address, err)
		}
	}
}

// TestEverySignatureIsOfTheWallet: whichever of its two values of s a service answers
// with, go-ethereum recovers the wallet; another key's signature is not passed on.
func TestEverySignatureIsOfTheWallet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "key")
		seed[0] &= 0x7f
		seed[31] |= 1
		own := must.Get(keyring.Generate(bytes.NewReader(seed)))(t)
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

// TestRefusesWhatIsNoSignature, and no public key.
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
	const ofP256 = "3059301306072a8648ce3d020106082a8648ce3d030107034200046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c2964fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5"
	for _, key := range []string{"", "30", ofP256, "3056301006072a8648ce3d020106052b8104000a03420004" + "00"} {
		if address, err := keyring.AddressOf(mustHex(t, key)); !errors.Is(err, keyring.ErrSignature) {
			t.Errorf("%s: %s, %v", key, address, err)
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
