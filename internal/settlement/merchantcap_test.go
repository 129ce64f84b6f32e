package settlement_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"remit/internal/payment"
	"remit/internal/settlement"
	"remit/internal/store"
	"remit/internal/token"
	"remit/internal/wallet"
)

// take reserves a nonce for a payment of a merchant, of which 2 may be in flight.
func (w *world) take(key, merchant string) payment.Payment {
	p := w.prepareFor(merchant, key, 0)
	_, err := w.tables.Reserve(w.t.Context(), wallet.Need{
		Wallet: id, Payment: p.ID, Amount: p.Amount, Gas: p.Tx.Cost(), At: w.now, Merchant: merchant, Share: 2,
	})
	w.must(err)
	return p
}

// TestATopUpOfABusyWallet: while nonces are reserved a round sees a top-up, and counts
// what each merchant has in flight, however often it is overtaken.
func TestATopUpOfABusyWallet(t *testing.T) {
	overtaken := script{}
	w := newWorld(t, overtaken)
	w.set(4) // of 64: 2
	w.must(w.tables.Reconcile(t.Context(), w.record(), token.Units(1000), funds.Gas, map[string]uint64{"mer_gone": 2}))
	for n := range 5 {
		overtaken[fmt.Sprint("Reconcile#", n+1)] = func(w *world) error {
			w.take(fmt.Sprint(n), fmt.Sprint("mer_", n%3))
			return nil
		}
	}
	got, err := w.round()
	w.must(err)
	record := w.record()
	if want := funds.Balance.Sub(token.Units(500)); record.Balance != want || !w.did("Reconcile#6") {
		t.Errorf("%s can be spent, want %s; %v", record.Balance, want, w.calls)
	}
	if diff := cmp.Diff(map[string]uint64{"mer_0": 2, "mer_1": 2, "mer_2": 1}, record.PerMerchant); diff != "" {
		t.Errorf("in flight (-want +got):\n%s", diff)
	}
	if !slices.Equal(got.Wallets, []settlement.Funds{funds}) {
		t.Errorf("reported funds %v, want %v", got.Wallets, funds)
	}
}

// TestRoundsOfTheVersionBefore store balances and no counts, so that those which this
// version's reservations raise stay risen. Its first round ends that.
func TestRoundsOfTheVersionBefore(t *testing.T) {
	w := newWorld(t, script{})
	w.set(4) // of 64: 2
	for _, key := range []string{"a", "b"} {
		p := w.unreleased(w.take(key, "mer_a"), 0)
		w.must(w.tables.Release(t.Context(), p.ID, store.PendingTxOf(p)))
		w.paid(p, p.TxHash)
	}
	w.must(w.tables.Reconcile(t.Context(), w.record(), token.Units(1000), funds.Gas, nil)) // a round of the version before
	need := wallet.Need{Wallet: id, Payment: "pay_c", At: w.now, Merchant: "mer_a", Share: 2}
	if _, err := w.tables.Reserve(t.Context(), need); !errors.Is(err, wallet.ErrShare) {
		t.Errorf("before: %v", err)
	}
	_, err := w.round()
	w.must(err)
	if _, err := w.tables.Reserve(t.Context(), need); err != nil {
		t.Errorf("after a round: %v; in flight %v", err, w.record().PerMerchant)
	}
}

// TestCountsThatCannotBeStored: an error of merchants' counts is reported, and keeps no
// balance from the tables.
func TestCountsThatCannotBeStored(t *testing.T) {
	w := newWorld(t, breaks("Reconcile#1"))
	w.set(4) // of 64: 2
	w.take("a", "mer_a")
	w.must(w.tables.Reconcile(t.Context(), w.record(), token.Units(1000), funds.Gas, nil))
	got, err := w.round()
	if want := funds.Balance.Sub(token.Units(100)); err == nil || w.record().Balance != want || len(got.Wallets) != 1 {
		t.Errorf("error %v, %s can be spent, want %s, %d wallets reported", err, w.record().Balance, want, len(got.Wallets))
	}
}

// TestMoreMerchantsThanAreCounted: of more merchants in flight than a wallet counts, some
// are left out, and the wallet is reconciled.
func TestMoreMerchantsThanAreCounted(t *testing.T) {
	w := newWorld(t, script{})
	w.settler.Own.Window = 2 * wallet.MaxInFlight
	w.set(1) // of 2048
	w.must(w.tables.RaiseCeiling(t.Context(), id, w.settler.Own.Window))
	for n := range wallet.MaxInFlight + 1 {
		if n == wallet.MaxInFlight { // a merchant more than a reservation counts
			w.must(w.tables.Reconcile(t.Context(), w.record(), funds.Balance, funds.Gas, map[string]uint64{}))
		}
		p := w.unreleased(w.take(fmt.Sprint(n), fmt.Sprint("mer_", n)), 0)
		w.must(w.tables.Release(t.Context(), p.ID, store.PendingTxOf(p)))
	}
	_, err := w.round()
	w.must(err)
	if n := len(w.record().PerMerchant); n != wallet.MaxInFlight {
		t.Errorf("%d merchants are counted, want %d", n, wallet.MaxInFlight)
	}
}
