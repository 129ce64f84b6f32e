package settlement_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/settlement"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/porttest"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

// topUp stores balances below the node's, and a count of a merchant with nothing in flight. Caps are 2 of 64 nonces.
func (w *world) topUp() {
	w.set(4)
	w.Must(w.Tables.Reconcile(w.T.Context(), w.record(), token.Units(1000), token.Units(10_000), map[string]uint64{"mer_gone": 2}, nil))
}

// TestReconciling: a wallet may spend its balance less the amounts that reservations and pending
// transactions tie up. The round counts each once, reads only those it must, and stores top-ups and
// merchants' counts even if reservations overtake it.
func TestReconciling(t *testing.T) {
	w := newWorld(t, script{})
	w.unreleased(w.reserve("a", 0), 0)
	w.topUp()
	for n, merchant := range []string{"mer_1", "mer_2", "mer_2", "mer_3", payment.Operator} {
		w.Script[fmt.Sprint("Reconcile#", n+1)] = func(w *world) error {
			p := w.prepareFor(merchant, fmt.Sprint(n), 0)
			return must.Err(w.Tables.Reserve(w.T.Context(), store.NeedOf(p, w.Now())))
		}
	}
	got := must.Get(w.round())(t)
	record, want := w.record(), settlement.Funds{Address: payer, Balance: funds.Balance.Sub(token.Units(600)),
		Gas: funds.Gas.Sub(token.Units(6 * 210)), Gap: 6}
	if record.Balance != want.Balance || record.Gas != want.Gas || !w.Did("Reconcile#6") || w.Times["Payment"] != 1+2+3+4+5 {
		t.Errorf("%s and %s to spend, want %s and %s; %v", record.Balance, record.Gas, want.Balance, want.Gas, w.Calls)
	}
	if diff := cmp.Diff(map[string]uint64{"mer_1": 2, "mer_2": 2, "mer_3": 1}, record.PerMerchant); diff != "" {
		t.Errorf("in flight (-want +got):\n%s", diff)
	}
	before := settlement.Funds{Address: payer, Balance: funds.Balance.Sub(token.Units(100)), Gas: funds.Gas.Sub(token.Units(210)), Gap: 1}
	if !slices.Equal(got.Wallets, []settlement.Funds{before}) {
		t.Errorf("reported funds %v, want %v", got.Wallets, before)
	}
	got, err := w.round()
	if err != nil || !slices.Equal(got.Wallets, []settlement.Funds{want}) || w.Did("Reconcile#7") || w.Did("RaiseCeiling#1") ||
		w.Did("LowerCeiling#1") {
		t.Errorf("a round with nothing to write: %v, %v, after %v", got.Wallets, err, w.Calls)
	}
}

// TestNodesCountDifferently: of two nodes one has the payment mined; of the other's balance it is still to be paid.
func TestNodesCountDifferently(t *testing.T) {
	w := newWorld(t, script{})
	p := w.unreleased(w.reserve("a", minute), minute)
	w.second().mined = 1
	must.Get(w.round())(t)
	if r, coin, gas := w.record(), funds.Balance.Sub(p.Amount), funds.Gas.Sub(p.Tx.Cost()); r.Balance != coin || r.Gas != gas {
		t.Errorf("%s and %s to spend, want %s and %s", r.Balance, r.Gas, coin, gas)
	}
}

// TestRevertedForAReason: a failed payment says why, as a node tells of the attempt in its block.
func TestRevertedForAReason(t *testing.T) {
	w := newWorld(t, script{})
	p := w.commit("a", minute)
	w.reverts = chain.Call{From: payer, To: p.Tx.To, Value: p.Tx.Value, Data: p.Tx.Data, Within: p.Gas(), Fees: p.LastAttempt().Fees, At: 5}
	w.mine(chain.Receipt{Tx: p.TxHash})
	must.Get(w.round())(t)
	if p = w.stored(p); p.Failure == nil || !strings.Contains(p.Failure.Message, `"Pausable: paused"`) {
		t.Errorf("%+v", p.Failure)
	}
}

// TestOwnersPaymentIsFinished: a payment that a round commits for a dead handler names the owner of its wallet.
func TestOwnersPaymentIsFinished(t *testing.T) {
	w, own := newWorld(t, script{}), wallet.ID{ChainID: 1, Address: token.Address{2}}
	w.Must(w.Tables.Register(t.Context(), wallet.Registration{ID: own, Token: coin.Contract, State: wallet.Assigned,
		Key: wallet.InSecret, Merchant: "mer_1"}))
	w.open(wallet.Wallet{ID: own, Ceiling: 64, Balance: funds.Balance, Gas: funds.Gas, Merchant: "mer_1"})
	w.reserve("another", 0)
	p := w.prepare("a", 2*minute)
	moved := p.AssignedTo(own.Address, p.Tx)
	w.Must(w.Tables.Reassign(t.Context(), moved, p.Revision))
	need := store.NeedOf(w.stored(p), w.Now().Add(-2*minute))
	need.Owner = "mer_1"
	must.Get(w.Tables.Reserve(t.Context(), need))(t)
	must.Get(w.round())(t)
	if p = w.stored(p); p.State != payment.Committed || p.WalletOf != "mer_1" {
		t.Errorf("the payment is %s, from the wallet of %q", p.State, p.WalletOf)
	}
}

// TestNoopBeyondTheWallet: if the wallet cannot pay a no-op's gas limit, a round signs it again
// with a lower one. A no-op that needs that much gas waits for a top-up.
func TestNoopBeyondTheWallet(t *testing.T) {
	for times, attempts := range map[uint64]int{10: 2, 1: 1} {
		w := newWorld(t, script{})
		tx := chain.Noop(1, payer, chain.Fees{Tip: token.Units(1), Cap: token.Units(21)})
		tx.Gas *= times
		w.Must(w.Tables.PutNoop(t.Context(), wallet.PendingNoop(id, tx, must.Get(w.Quiet().Sign(t.Context(), tx, 0))(t), w.Now().Add(-4*minute))))
		w.reserve("a", 0)
		w.reply = chain.Funds
		must.Get(w.round())(t)
		if tx := w.pending()[0]; len(tx.Hashes) != attempts || w.record().Paused == wallet.OutOfGas != (attempts == 1) {
			t.Errorf("with %d times the gas: %d attempts, paused for %q", times, len(tx.Hashes), w.record().Paused)
		}
	}
}

// TestMoreMerchantsThanAreCounted: with more in flight than a wallet counts, a round leaves some out without an error.
func TestMoreMerchantsThanAreCounted(t *testing.T) {
	w := newWorld(t, script{})
	w.settler.Own.Window = 2 * wallet.MaxInFlight
	w.set(1) // of 2048
	w.Must(w.Tables.RaiseCeiling(t.Context(), id, w.settler.Own.Window))
	for n := range wallet.MaxInFlight + 1 {
		if n == wallet.MaxInFlight { // a merchant more than a reservation counts
			w.Must(w.Tables.Reconcile(t.Context(), w.record(), funds.Balance, funds.Gas, map[string]uint64{}, nil))
		}
		p := w.prepareFor(fmt.Sprint("mer_", n), fmt.Sprint(n), 0)
		_, err := w.Tables.Reserve(t.Context(), wallet.Need{Wallet: id, Payment: p.ID, Amount: p.Amount, Gas: p.Tx.Cost(), At: w.Now(),
			Merchant: p.Merchant, MerchantCap: 2})
		w.Must(err)
		p = w.unreleased(p, 0)
		w.Must(w.Tables.Release(t.Context(), p.ID, store.PendingTxOf(p)))
	}
	must.Get(w.round())(t)
	if n := len(w.record().PerMerchant); n != wallet.MaxInFlight {
		t.Errorf("%d merchants are counted, want %d", n, wallet.MaxInFlight)
	}
}

// TestCountsThatAreNotStored: if the store refuses merchants' counts, the round returns an error,
// but stores the top-up and reports the balances.
func TestCountsThatAreNotStored(t *testing.T) {
	w := newWorld(t, breaks("Reconcile#1"))
	w.topUp()
	got, err := w.round()
	if record := w.record(); !errors.Is(err, porttest.ErrBroken) || record.Balance != funds.Balance || record.Gas != funds.Gas ||
		!slices.Equal(got.Wallets, []settlement.Funds{funds}) {
		t.Errorf("%v, reported %v, stored is %+v", err, got.Wallets, record)
	}
}

// TestIdle: an idle wallet costs a round these calls, and a later round none.
func TestIdle(t *testing.T) {
	w := newWorld(t, script{})
	must.Get(w.round())(t)
	slices.Sort(w.Calls)
	want := []string{"Account#1", "BlockHashes#1", "Compared#1", "Head#1", "Nodes#1", "PendingTxs#1", "Rules#1", "Wallet#1", "Wallets#1"}
	if diff := cmp.Diff(want, w.Calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if _, err := w.settler.Round(t.Context(), "run", false); err != nil || w.Did("Account#2") || w.Did("Claim#1") {
		t.Errorf("a later round: %v, after %v", err, w.Calls)
	}
}

// TestBumpTakesItsCoinsFirst: where the token is the gas, no bump is stored if a nonce was reserved since the round
// read the wallet: that payment may move the bump's coins, and would revert.
func TestBumpTakesItsCoinsFirst(t *testing.T) {
	for _, noop := range []bool{false, true} {
		for call, want := range map[string]int{"Fees#1": 0, "Fees#2": 2} {
			w := newWorld(t, script{call: func(w *world) error { w.reserve("c", 0); return nil }})
			w.settler.GasUnit, w.price, w.gas = 1, 30, 10
			if w.commit("a", time.Hour); noop {
				w.Must(w.Tables.Advance(t.Context(), id, 2, 0))
				w.noop(1, time.Hour)
			} else {
				w.commit("b", time.Hour)
			}
			if got := must.Get(w.round())(t); got.Bumps != want {
				t.Errorf("no-op: %t, reserved at %s: %d bumps, want %d", noop, call, got.Bumps, want)
			}
		}
	}
}

// TestBumpsOfTwoRuns: where the token is the gas, a run whose claim has lapsed stores no balance that lacks the bumps
// of another, wherever the other one comes between; nor does one whose own bump's answer was lost.
func TestBumpsOfTwoRuns(t *testing.T) {
	for _, call := range []string{"lost", "Fees#1", "Sign#1", "AddAttempt#1", "Sign#2", "AddAttempt#2", "Sign#3"} {
		w := newWorld(t, nil)
		w.settler.GasUnit, w.gas = 1, 10
		for _, key := range []string{"a", "b", "c"} {
			w.commit(key, 0)
		}
		must.Get(w.round())(t)
		w.Pass(time.Hour)
		w.price, w.Times = 30, map[string]int{}
		w.has.Balance, w.Script = token.Units(1_000_500), script{}
		look := func(w *world) error {
			left := w.has.Balance
			for _, tx := range w.pending() {
				left = left.Sub(tx.Amount)
			}
			if got := w.record().Balance; left.Less(got) {
				t.Errorf("%s: %s may be promised, and %s is left", call, got, left)
			}
			return nil
		}
		for n := range 10 {
			w.Script[fmt.Sprint("AddAttempt#", n+2)] = look
		}
		if w.Script["AddAttempt#1"] = func(*world) error { return porttest.ErrLost }; call != "lost" {
			w.Script["AddAttempt#1"] = look
			w.Script[call] = func(w *world) error {
				w.Pass(20 * time.Second)
				w.price = 40
				_, err := w.settler.Round(t.Context(), "another", true)
				return err
			}
		}
		_, _ = w.round()
		_ = look(w)
	}
}

// TestLowestSpendsWhatLaterTieUp: no-ops tie up all that a wallet has, and the market or a node asks more than the
// lowest nonce offers. The lowest gets its next attempt from the chain's balance, less the coins that it moves. No
// later nonce does. A row has the gas unit, whether the lowest is a payment of 100, the coins and the ether on the
// chain, a node's reply and its price.
func TestLowestSpendsWhatLaterTieUp(t *testing.T) {
	for _, c := range tabletest.Read(t, nil) {
		w, pays, coin, gas := newWorld(t, nil), false, uint64(0), uint64(0)
		must.Get(fmt.Sscan(c.In[0], &w.settler.GasUnit, &pays, &coin, &gas, &w.reply, &w.price))(t)
		if w.gas = 10; pays {
			w.commit("a", time.Hour)
		} else {
			w.noop(0, time.Hour)
		}
		w.Must(w.Tables.Advance(t.Context(), id, 16, 0))
		for nonce := range uint64(15) {
			w.noop(nonce+1, time.Hour)
		}
		w.has.Balance, w.has.Gas = token.Units(coin), token.Units(gas)
		w.Must(w.Tables.Reconcile(t.Context(), w.record(), token.Amount{}, token.Amount{}, nil, nil))
		if _, err := w.round(); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		txs := w.pending()
		if got := fmt.Sprintf("%d attempts, cap %s", len(txs[0].Hashes), txs[0].Fees.Cap); got != c.Want {
			t.Errorf("%s: the lowest has %s, want %s", c.Name, got, c.Want)
		}
		for _, tx := range txs[1:] {
			if len(tx.Hashes) > 1 {
				t.Errorf("%s: nonce %d has another attempt", c.Name, tx.Nonce)
			}
		}
	}
}
