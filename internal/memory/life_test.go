package memory_test

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
	"remit/internal/memory"
	"remit/internal/payment"
	"remit/internal/token"
	"remit/internal/wallet"
)

var noon = time.Date(2026, time.January, 2, 12, 0, 0, 0, time.UTC)

// drafts returns the nth payment of one merchant, made n milliseconds after
// noon.
func drafts(n uint64) (payment.Payment, error) {
	r := payment.Request{Merchant: "mer_1", Mode: "test", To: token.Address{1}, Amount: token.Units(n + 1)}
	id, err := payment.NewID(r.Merchant, r.Mode, "", rand.NewChaCha8(sha256.Sum256(binary.BigEndian.AppendUint64(nil, n))))
	if err != nil {
		return payment.Payment{}, err
	}
	p := payment.New(id, r, token.Token{Symbol: "USDC"}, "local", noon.Add(time.Duration(n)*time.Millisecond))
	return p.AssignedTo(theWallet.Address, chain.Tx{ChainID: theWallet.ChainID, Gas: 1}), nil
}

func signed(p payment.Payment, nonce uint64) chain.Signed {
	raw := binary.BigEndian.AppendUint64([]byte(p.Revision), nonce)
	return chain.Signed{Nonce: nonce, Hash: sha256.Sum256(raw), Raw: raw}
}

// TestEveryNonceHasOneOwner lets handlers and check-receipts take single steps in
// any order, and any step twice. After each step every nonce below next_nonce
// must be owned by a reservation or a pending transaction.
func TestEveryNonceHasOneOwner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx, s := t.Context(), memory.NewPayments()
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
		seen := map[payment.ID]wallet.Reservation{} // the last answer to each payment's handler, however old
		pick := func(t *rapid.T) payment.Payment {
			return payments[rapid.IntRange(0, len(payments)-1).Draw(t, "payment")]
		}
		t.Repeat(map[string]func(*rapid.T){
			"reservation": func(t *rapid.T) {
				p := pick(t)
				w, err := s.Reserve(ctx, wallet.Need{Wallet: theWallet.ID, Payment: p.ID, At: noon})
				if err == nil {
					seen[p.ID] = w.Reservations[p.ID]
				}
			},
			"commit": func(t *rapid.T) {
				p := pick(t)
				if reservation, ok := seen[p.ID]; ok {
					committed, err := p.Commit(signed(p, reservation.Nonce), noon)
					if err != nil {
						t.Fatal(err)
					}
					_ = s.Commit(ctx, committed)
				}
			},
			"release": func(t *rapid.T) {
				p := pick(t)
				if tx, err := s.PendingTx(ctx, theWallet.ID, seen[p.ID].Nonce); err == nil {
					if err := s.Release(ctx, p.ID, tx); err != nil {
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
				if reservation, ok := w.Reservations[p.ID]; ok && stored.State == payment.Committed && stored.Nonce != reservation.Nonce {
					_ = s.PutNoop(ctx, wallet.PendingNoop(w.ID, chain.Tx{}, signed(payment.Payment{}, reservation.Nonce), noon))
				}
			},
			"": func(t *rapid.T) { owned(t, s, payments) },
		})
	})
}

// owned checks that every nonce below next_nonce has an owner, and no other has.
func owned(t *rapid.T, s *memory.Payments, payments []payment.Payment) {
	w, err := s.Wallet(t.Context(), theWallet.ID)
	if err != nil {
		t.Fatal(err)
	}
	txs, _, err := s.PendingTxs(t.Context(), theWallet.ID)
	if err != nil {
		t.Fatal(err)
	}
	owners := map[uint64]string{}
	committedAt := map[payment.ID]uint64{}
	bytesOf := map[payment.ID][]byte{}
	for _, tx := range txs {
		bytesOf[tx.Payment] = tx.Raw
		owners[tx.Nonce] = fmt.Sprintf("pending transaction of %q", tx.Payment)
		if _, twice := committedAt[tx.Payment]; twice && !tx.Noop() {
			t.Fatalf("%s has two pending transactions", tx.Payment)
		}
		committedAt[tx.Payment] = tx.Nonce
	}
	for id, reservation := range w.Reservations {
		if tx, err := s.PendingTx(t.Context(), w.ID, reservation.Nonce); err == nil && tx.Payment != id && !tx.Noop() {
			t.Fatalf("nonce %d is reserved to %s and filled by %s", reservation.Nonce, id, tx.Payment)
		}
		owners[reservation.Nonce] += "reservation of " + string(id)
	}
	for nonce := range w.NextNonce {
		if owners[nonce] == "" {
			t.Fatalf("nonce %d of %d has no owner: %v", nonce, w.NextNonce, owners)
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
		nonce, filled := committedAt[p.ID]
		if committed := stored.State == payment.Committed; committed != filled || committed && nonce != stored.Nonce {
			t.Fatalf("%s is %s at %d, its pending transaction at %d (%v)", p.ID, stored.State, stored.Nonce, nonce, filled)
		}
		if filled && !bytes.Equal(bytesOf[p.ID], signed(p, nonce).Raw) {
			t.Fatalf("%s is committed by other bytes", p.ID)
		}
	}
}

var theWallet = wallet.Wallet{ID: wallet.ID{ChainID: 1}, Ceiling: 9, Balance: token.Units(9), Gas: token.Units(9)}
