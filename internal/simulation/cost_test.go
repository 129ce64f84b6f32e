package simulation_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"remit/internal/simulation/fakechain"
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
		if slices.Contains([]string{"Wallets", "Wallet", "PendingTxs", "PendingTx", "Payment", "PaymentByHash"}, op) {
			reads++
		}
	}
	return len(ops), reads
}

// TestCostOfSettling: the requests and reads of a round grow with the payments
// that were mined, not with those that are pending.
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
			is(t, "requests with nothing mined", len(d.rpc.take()), 1+costWallets)
			_, reads := counted(d.calls.take())
			is(t, "reads with nothing mined", reads, 1+2*costWallets)

			fake.PerSender = each
			fake.Mine(fake.Nodes[0])
			fake.PerSender = 0
			fake.Abandon(0) // one empty block makes it final
			report = d.round()
			is(t, "confirmed", report.Confirmed, each*costWallets)
			receipts := 0
			for _, call := range d.rpc.all {
				if call.Op == "Receipts" {
					n := 0
					if _, err := fmt.Sscanf(call.Args, "node0 of %d", &n); err != nil {
						t.Fatal(err)
					}
					receipts += n
				}
			}
			is(t, "receipts asked for", receipts, each*costWallets)
			is(t, "requests with 112 mined", len(d.rpc.take()), 1+3*costWallets)
			all, reads := counted(d.calls.take())
			is(t, "reads with 112 mined", reads, 1+2*costWallets+each*costWallets)
			// Claim, RaiseCeiling and Reconcile of each wallet, Finish and DeletePendingTx of each payment.
			is(t, "writes with 112 mined", all-reads, 3*costWallets+2*each*costWallets)
		})
	}
}

// TestCostOfAPayment: creation, reservation and commit, one after the other, then
// the release beside the broadcast; one request to a node before the reservation
// and one after it. The list of whom nobody pays is asked in the first of them, and the
// operator's own is read beside it, once in a while.
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
		{"a payment with an old quote and deny list", 2, time.Minute, []string{"Denied", "Create", "Reserve", "Commit", "Release"}, []string{"Estimate", "Fees", "Send"}},
		{"a payment by a registry that is read again", 3, time.Hour, []string{"Wallets", "Denied", "Create", "Reserve", "Commit", "Release"}, []string{"Estimate", "Fees", "Send"}},
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
