package simulation

import (
	"fmt"
	"math/rand/v2"

	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/proof/simulation/oracle"
)

// A crowd is merchants that want one small payment each, beside the orders of every seed.
type crowd struct {
	rng       *rand.Rand
	merchants int
	came      int // so many of them
}

// crowdOf draws a seed's crowd: of so many merchants, or by chance if that is 0. For more
// payments in flight it changes setup.
func crowdOf(rng *rand.Rand, merchants int, setup *Setup) *crowd {
	if merchants == 0 && rng.IntN(400) == 0 {
		merchants = 100
	}
	if merchants > 0 {
		setup.Window = []uint64{setup.Window, 64, 100}[rng.IntN(3)] // of which a percentage is an exact MerchantCap
		setup.Spare = 2 * setup.Window                              // as much as remit recover
	}
	return &crowd{rng: rng, merchants: merchants}
}

// step has a few more merchants come now and then, and reports whether all have.
func (w *crowd) step(c *Cluster) bool {
	if w.came < w.merchants && w.rng.IntN(160) == 0 {
		for range min(1+w.rng.IntN(20), w.merchants-w.came) {
			w.came++
			order := oracle.Order{Key: fmt.Sprint("crowd", w.came), Merchant: fmt.Sprint("mer_crowd", w.came),
				To: fakechain.Payee(1_000 + w.came), Amount: 1 + w.rng.Uint64N(3)}
			c.StartClient(fmt.Sprint("client-crowd", w.came), order, 1+w.rng.IntN(4), w.rng.IntN(8) == 0)
		}
	}
	return w.came == w.merchants
}
