package simulation_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
)

const costWallets = 16

// newCostDeployment deploys on a fake chain with so many rich wallets.
func newCostDeployment(t *testing.T) (*deployment, *fakechain.Chain) {
	on, fake := fakeChain(1, costWallets)
	return newDeployment(t, on, 1), fake
}

// counted returns how many operations there are, and how many of them only read.
func counted(ops []string) (all, reads int) {
	for _, op := range ops {
		if slices.Contains([]string{"Wallets", "Wallet", "PendingTxs", "PendingTx", "Payment", "PaymentByHash", "Compared"}, op) {
			reads++
		}
	}
	return len(ops), reads
}

// TestCostOfSettling: the requests and reads of a round grow with the number of mined payments, not
// with the number of pending payments.
func TestCostOfSettling(t *testing.T) {
	const each = 7 // mined per wallet, 112 in all
	for _, pending := range []int{1_000, 10_000} {
		t.Run(fmt.Sprintf("%d pending", pending), func(t *testing.T) {
			d, fake := newCostDeployment(t)
			for n := range pending {
				d.send(order(n))
			}
			d.round() // stores the spendable balances
			d.calls.take()
			d.rpc.take()
			report := d.round()
			is(t, "pending", report.Pending, pending)
			is(t, "requests with nothing mined", len(d.rpc.take()), 2+costWallets)
			_, reads := counted(d.calls.take())
			is(t, "reads with nothing mined", reads, 2+2*costWallets)

			fake.PerSender = each
			fake.Mine(fake.Nodes[0])
			fake.PerSender = 0
			fake.Abandon(0) // one empty block makes it final
			report = d.round()
			is(t, "confirmed", report.Confirmed, each*costWallets)
			is(t, "receipts asked for", d.receipts(), each*costWallets)
			// An account, a count and receipts of each wallet, and at most one check behind them, of two; blocks once.
			if n := len(d.rpc.take()); n > 3+5*costWallets {
				t.Errorf("%d requests with 112 mined", n)
			}
			all, reads := counted(d.calls.take())
			is(t, "reads with 112 mined", reads, 2+2*costWallets+each*costWallets)
			// Claim, RaiseCeiling and Reconcile of each wallet, Finish and DeletePendingTx of each payment.
			is(t, "writes with 112 mined", all-reads, 3*costWallets+2*each*costWallets)
		})
	}
}

// untelling is a node that does not say how many transactions are final.
type untelling struct{ chain.Node }

func (untelling) Count(context.Context, token.Address, uint64) (uint64, error) {
	return 0, fakechain.ErrDown
}

// TestCostOfWaitingForFinality: a payment costs one receipt, when it is final; only nonce 0 costs one in
// each round before. Where a node does not tell how many are final, every receipt is asked for, and the
// payments end alike. Progress costs no write: a round that finds nothing new claims each wallet, as ever.
func TestCostOfWaitingForFinality(t *testing.T) {
	const wallets, mined, depth = 2, 40, 50
	for _, row := range []struct {
		telling bool
		asked   int
	}{{true, wallets}, {false, mined * wallets}} {
		on, fake := fakeChain(depth, wallets)
		if !row.telling {
			on.node = untelling{on.node}
		}
		d := newDeployment(t, on, depth)
		for n := range mined * wallets {
			d.send(order(n))
		}
		d.round() // stores the spendable balances
		fake.PerSender = mined / 2
		fake.Mine(fake.Nodes[0])
		fake.PerSender = 0
		fake.Mine(fake.Nodes[0])
		d.calls.take()
		d.round()
		all, reads := counted(d.calls.take())
		is(t, "writes of the round that sees them mined", all-reads, 3*wallets) // claim, ceiling and balances
		for n := range uint64(wallets) {
			w, err := d.store.Wallet(t.Context(), wallet.ID{ChainID: on.id, Address: fakechain.Wallet(int(n))})
			if err != nil || w.Progress.Mined != mined {
				t.Errorf("%+v, %v", w.Progress, err)
			}
		}
		d.rpc.take()
		is(t, "confirmed before they are final", d.round().Confirmed, 0)
		is(t, "receipts asked for", d.receipts(), row.asked)
		all, reads = counted(d.calls.take())
		is(t, "writes of a round that sees nothing new", all-reads, wallets)
		for range depth {
			fake.Mine(fake.Nodes[0])
		}
		d.rpc.take()
		is(t, "confirmed", d.round().Confirmed, mined*wallets)
		is(t, "receipts asked for once they are final", d.receipts(), mined*wallets)
	}
}

// receipts returns how many receipts were asked for since the requests were last taken.
func (d *deployment) receipts() (all int) {
	for _, call := range d.rpc.all {
		if n := 0; call.Op == "Receipts" {
			must.Get(fmt.Sscanf(call.Args, "node0 of %d", &n))(d.t)
			all += n
		}
	}
	return all
}

// TestCostOfAPayment: creation, reservation and commit, one after the other, then the release beside the broadcast; one
// request to a node before the reservation and one after it. The list of whom nobody pays is asked in the first of
// them, and the operator's own is read beside it, once in a while.
func TestCostOfAPayment(t *testing.T) {
	d, _ := newCostDeployment(t)
	d.send(order(0)) // the first asks for fees and the deny list, and looks at every wallet
	d.calls.take()
	d.rpc.take()
	for _, payment := range []struct {
		name       string
		n          int
		later      time.Duration
		calls, rpc []string
	}{
		{"a payment", 1, 0, []string{"Create", "Reserve", "Commit", "Release"}, []string{"Estimate", "Send"}},
		{"a replay", 1, 0, []string{"Create"}, []string{"Estimate"}},
		{"a payment with an old quote and deny list", 2, time.Minute, []string{"Rules", "Create", "Reserve", "Commit", "Release"},
			[]string{"Estimate", "Fees", "Send"}},
		{"a payment by a registry that is read again", 3, time.Hour, []string{"Rules", "Wallets", "Create", "Reserve", "Commit", "Release"},
			[]string{"Estimate", "Fees", "Send"}},
	} {
		d.now = d.now.Add(payment.later)
		d.send(order(payment.n))
		if calls := d.calls.take(); !slices.Equal(calls, payment.calls) {
			t.Errorf("%s: store calls %v, want %v", payment.name, calls, payment.calls)
		}
		rpc := d.rpc.take()
		slices.Sort(rpc) // Estimate and Fees go at once
		if !slices.Equal(rpc, payment.rpc) {
			t.Errorf("%s: requests %v, want %v", payment.name, rpc, payment.rpc)
		}
	}
}
