package settlement_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// TestLowestSpendsWhatLaterTieUp: no-ops tie up all that a wallet has, and the market or a node asks more than the
// lowest nonce offers. The lowest gets its next attempt from the chain's balance, less the coins that it moves. No
// later nonce does.
func TestLowestSpendsWhatLaterTieUp(t *testing.T) {
	for name, test := range map[string]struct {
		unit      chain.GasUnit
		payment   bool   // the lowest, of 100; else a no-op
		coin, gas uint64 // on the chain
		reply     chain.Class
		price     uint64
		want      string
	}{
		"ether":                       {0, false, 0, 3_000_000, chain.FeeTooLow, 30, "2 attempts, cap 61"},
		"less ether":                  {0, false, 0, 630_000, chain.FeeTooLow, 30, "2 attempts, cap 30"},
		"too little ether":            {0, false, 0, 450_000, chain.FeeTooLow, 30, "1 attempts, cap 21"},
		"the token":                   {1, false, 630_000, 0, chain.FeeTooLow, 30, "2 attempts, cap 30"},
		"the token, and coins move":   {1, true, 400, 0, chain.FeeTooLow, 30, "2 attempts, cap 25"},
		"too little beside the coins": {1, true, 320, 0, chain.FeeTooLow, 30, "1 attempts, cap 21"},
		"more gas":                    {1, true, 352, 0, chain.GasTooLow, 10, "2 attempts, cap 21"},
		"too little for more gas":     {1, true, 351, 0, chain.GasTooLow, 10, "1 attempts, cap 21"},
	} {
		w := newWorld(t, nil)
		w.settler.GasUnit, w.price, w.reply, w.gas = test.unit, test.price, test.reply, 10
		if test.payment {
			w.commit("a", time.Hour)
		} else {
			w.noop(0, time.Hour)
		}
		w.Must(w.Tables.Advance(t.Context(), id, 16, 0))
		for nonce := range uint64(15) {
			w.noop(nonce+1, time.Hour)
		}
		w.has.Balance, w.has.Gas = token.Units(test.coin), token.Units(test.gas)
		w.Must(w.Tables.Reconcile(t.Context(), w.record(), token.Amount{}, token.Amount{}, nil, nil))
		if _, err := w.round(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		txs := w.pending()
		if got := fmt.Sprintf("%d attempts, cap %s", len(txs[0].Hashes), txs[0].Fees.Cap); got != test.want {
			t.Errorf("%s: the lowest has %s, want %s", name, got, test.want)
		}
		for _, tx := range txs[1:] {
			if len(tx.Hashes) > 1 {
				t.Errorf("%s: nonce %d has another attempt", name, tx.Nonce)
			}
		}
	}
}
