package paymenttest_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"remit/internal/chain"
	"remit/internal/payment"
	"remit/internal/payment/paymenttest"
	"remit/internal/token"
	"remit/internal/wallet"
)

var noon = time.Date(2026, time.January, 2, 12, 0, 0, 0, time.UTC)

// drafts returns the nth payment of one merchant, each a millisecond after the
// one before.
func drafts(n uint64) (payment.Payment, error) {
	r := payment.Request{Merchant: "mer_1", Mode: "test", To: token.Address{1}, Amount: token.Units(n + 1)}
	id, err := payment.NewID(r.Merchant, r.Mode, "", rand.NewChaCha8(sha256.Sum256(binary.BigEndian.AppendUint64(nil, n))))
	if err != nil {
		return payment.Payment{}, err
	}
	p := payment.New(id, r, token.Token{Symbol: "USDC"}, "local", noon.Add(time.Duration(n)*time.Millisecond))
	return p.Pinned(theWallet.Address, chain.Tx{ChainID: theWallet.ChainID, Gas: 1}), nil
}

func signed(p payment.Payment, nonce uint64) chain.Signed {
	raw := binary.BigEndian.AppendUint64([]byte(p.Pin), nonce)
	return chain.Signed{Nonce: nonce, Hash: sha256.Sum256(raw), Raw: raw}
}

// TestEveryNonceHasOneOwner lets handlers and a sweeper take single steps in
// any order, with any step repeated, and holds the store to the rule that
// every nonce below next_nonce is owned by exactly one lease or slot.
func TestEveryNonceHasOneOwner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx, s := t.Context(), paymenttest.NewStore()
		if err := s.Open(ctx, theWallet); err != nil {
			t.Fatal(err)
		}
		var payments []payment.Payment
		for n := range uint64(3) {
			p, err := drafts(n)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := s.Create(ctx, p); err != nil {
				t.Fatal(err)
			}
			payments = append(payments, p)
		}
		seen := map[payment.ID]wallet.Lease{} // what a handler remembers, however long ago
		pick := func(t *rapid.T) payment.Payment {
			return payments[rapid.IntRange(0, len(payments)-1).Draw(t, "payment")]
		}
		t.Repeat(map[string]func(*rapid.T){
			"lease": func(t *rapid.T) {
				p := pick(t)
				w, err := s.Lease(ctx, wallet.Request{Wallet: theWallet.ID, Payment: p.ID, At: noon})
				if err == nil {
					seen[p.ID] = w.Leases[p.ID]
				}
			},
			"seal": func(t *rapid.T) {
				p := pick(t)
				if lease, ok := seen[p.ID]; ok {
					sealed, err := p.Seal(signed(p, lease.Nonce), noon)
					if err != nil {
						t.Fatal(err)
					}
					_ = s.Seal(ctx, sealed)
				}
			},
			"release": func(t *rapid.T) {
				p := pick(t)
				if slot, err := s.Slot(ctx, theWallet.ID, seen[p.ID].Nonce); err == nil {
					if err := s.Release(ctx, p.ID, slot); err != nil {
						t.Fatal(err)
					}
				}
			},
			"fill an orphan": func(t *rapid.T) {
				p := pick(t)
				w, err := s.Wallet(ctx, theWallet.ID)
				if err != nil {
					t.Fatal(err)
				}
				stored, err := s.Payment(ctx, p.ID)
				if err != nil {
					t.Fatal(err)
				}
				if lease, ok := w.Leases[p.ID]; ok && stored.State == payment.Sealed && stored.Nonce != lease.Nonce {
					_ = s.PutNoop(ctx, wallet.NoopSlot(w.ID, chain.Tx{}, signed(payment.Payment{}, lease.Nonce), noon))
				}
			},
			"": func(t *rapid.T) { owned(t, s, payments) },
		})
	})
}

// owned checks who owns which nonce.
func owned(t *rapid.T, s *paymenttest.Store, payments []payment.Payment) {
	w, err := s.Wallet(t.Context(), theWallet.ID)
	if err != nil {
		t.Fatal(err)
	}
	slots, _, err := s.Slots(t.Context(), theWallet.ID)
	if err != nil {
		t.Fatal(err)
	}
	owners := map[uint64]string{}
	sealedAt := map[payment.ID]uint64{}
	bytesOf := map[payment.ID][]byte{}
	for _, slot := range slots {
		bytesOf[slot.Payment] = slot.Raw
		owners[slot.Nonce] = fmt.Sprintf("slot of %q", slot.Payment)
		if _, twice := sealedAt[slot.Payment]; twice && !slot.Noop() {
			t.Fatalf("%s has two slots", slot.Payment)
		}
		sealedAt[slot.Payment] = slot.Nonce
	}
	for id, lease := range w.Leases {
		if slot, err := s.Slot(t.Context(), w.ID, lease.Nonce); err == nil && slot.Payment != id && !slot.Noop() {
			t.Fatalf("nonce %d is leased to %s and filled by %s", lease.Nonce, id, slot.Payment)
		}
		owners[lease.Nonce] += "lease of " + string(id)
	}
	for nonce := range w.NextNonce {
		if owners[nonce] == "" {
			t.Fatalf("nobody owns nonce %d of %d: %v", nonce, w.NextNonce, owners)
		}
	}
	if len(owners) != int(w.NextNonce) {
		t.Fatalf("owners beyond next_nonce %d: %v", w.NextNonce, owners)
	}
	for _, p := range payments {
		stored, err := s.Payment(t.Context(), p.ID)
		if err != nil {
			t.Fatal(err)
		}
		nonce, filled := sealedAt[p.ID]
		if sealed := stored.State == payment.Sealed; sealed != filled || sealed && nonce != stored.Nonce {
			t.Fatalf("%s is %s at %d, its slot at %d (%v)", p.ID, stored.State, stored.Nonce, nonce, filled)
		}
		if filled && !bytes.Equal(bytesOf[p.ID], signed(p, nonce).Raw) {
			t.Fatalf("%s is sealed by other bytes", p.ID)
		}
	}
}
