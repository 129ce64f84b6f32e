package ethrpc_test

import (
	"slices"
	"testing"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// TestTokenGas: a chain without a coin is not asked for a balance of it, and its token's logs of fees are left out
// of receipts and of transfers. A chain whose coin is the token gives its balance to the wei.
func TestTokenGas(t *testing.T) {
	tx := hash(t, signedHash)
	answers := ten()
	answers["eth_getTransactionReceipt"] = always(result(recordedReceipt(tx)))
	answers["eth_getLogs"] = always(result("[" + logAt(1, 0) + "]"))
	for _, row := range []struct {
		name           string
		rule           chain.GasRule
		logs, balances int
	}{
		{"ether", chain.GasRule{}, 1, 1},
		{"the coin is a token", chain.GasRule{InToken: true, Account: token.Address{1}}, 1, 1},
		{"no coin", chain.GasRule{InToken: true, NoEther: true}, 1, 0},
		{"fees are logged", chain.GasRule{InToken: true, Account: token.Address{18: 0xde, 19: 0xad}}, 0, 1},
		{"fractions come from", chain.GasRule{InToken: true, Account: account}, 0, 1},
	} {
		s := serve(t, answers)
		node := must.Get(ethrpc.Open(s.URL, ethrpc.Config{ChainID: chainID, Gas: row.rule}))(t)
		got := must.Get(node.Account(t.Context(), account, contract, chain.Head{Number: 10}))(t)
		asked := 0
		for _, methods := range s.methods() {
			if slices.Contains(methods, "eth_getBalance") {
				asked++
			}
		}
		if asked != row.balances || got.Gas.IsZero() != (row.balances == 0) || got.Balance.IsZero() || got.Mined != 3 {
			t.Errorf("%s: %+v, asked for ether %d times", row.name, got, asked)
		}
		receipts := must.Get(node.Receipts(t.Context(), []chain.Hash{tx}))(t)
		if len(receipts) != 1 || len(receipts[0].Logs) != row.logs {
			t.Errorf("%s: %+v", row.name, receipts)
		}
	}
	s := serve(t, answers)
	node := must.Get(ethrpc.Open(s.URL, ethrpc.Config{ChainID: chainID, Gas: chain.GasRule{Account: token.Address{19: 0xaa}}}))(t)
	if moved, err := node.Transfers(t.Context(), contract, []token.Address{account}, 1, 1); err != nil || len(moved) > 0 {
		t.Errorf("%+v, %v", moved, err)
	}
}
