package settlement_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/proof/porttest"
)

// TestMinedIsNotReadAgain: from which nonces a run of four rounds reads. Nonces 0 and 1 are
// mined in block 5, 2 is not, and block 4 is final. It happens before the third round. TestMinedIsRemembered shows that
// what is remembered ends nothing.
func TestMinedIsNotReadAgain(t *testing.T) {
	nothing := func(*world) {}
	broken := func(call string) func(*world) {
		return func(w *world) {
			w.Script[fmt.Sprint(call, "#", w.Times[call]+1)] = func(*world) error { return porttest.ErrBroken }
		}
	}
	for _, test := range []struct {
		name            string
		before, happens func(*world)
		want            []string
	}{
		{"the final block moves", nothing, func(w *world) { w.final = 5 }, []string{"0", "2", "2", "0", "0"}},
		{"another run has claimed it since", nothing, func(w *world) {
			_, _ = w.Tables.Claim(context.Background(), id, "other", w.Now().Add(time.Hour), w.Now(), nil)
		}, []string{"0", "2", "0", "2"}},
		{"a re-organisation", nothing, func(w *world) { w.mined = 1 }, []string{"0", "2", "2", "0", "1"}},
		{"an item is damaged since", func(w *world) { w.mined = 3 }, func(w *world) {
			w.mined = 2
			w.Tables.SpoilPendingTx(id, 0)
		}, []string{"0", "3", "3", "0", "0"}},
		{"the nodes are in doubt", nothing, broken("BlockHashes"), []string{"0", "2", "2", "0", "0"}},
		{"what is known could not be stored", broken("SetCompared"), nothing, []string{"0", "0", "2", "2"}},
		{"a mined nonce is still reserved", func(w *world) {
			w.unreleased(w.reserve("d", 0), 0)
			w.mined = 4
		}, nothing, []string{"0", "0", "0", "0"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, script{"Wallets#3": func(w *world) error { test.happens(w); return nil }})
			w.final = 4
			w.known(chain.Block{Number: 4, Hash: chain.Hash{4}})
			a, b := w.commit("a", minute), w.commit("b", minute)
			w.commit("c", minute)
			w.paid(a, a.TxHash)
			w.paid(b, b.TxHash)
			test.before(w)
			_, _ = w.run(45 * second)
			if !slices.Equal(w.from, test.want) {
				t.Errorf("read from %v, want %v, after %v", w.from, test.want, w.Calls)
			}
			if ended := w.stored(a).State == payment.Confirmed; ended != (w.final == 5) {
				t.Errorf("a payment in block 5 has ended: %v, and block %d is final", ended, w.final)
			}
		})
	}
}
