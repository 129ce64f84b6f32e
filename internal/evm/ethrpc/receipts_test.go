package ethrpc_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// recordedReceipt is the receipt of a USDC transfer on Base Sepolia, without the unread parts.
func recordedReceipt(tx chain.Hash) string {
	return `{"blockHash":"0x` + strings.Repeat("b1", 32) + `","blockNumber":"0x1e8480","contractAddress":null,"cumulativeGasUsed":"0x5208",` +
		`"effectiveGasPrice":"0xf4240","from":"0x9d8a62f656a8d1615c1294fd71e9cfb3e4855a4f","gasUsed":"0xb4f2","l1Fee":"0x1","logs":[{` +
		`"address":"0x036cbd53842c5426634e7929541ec2318f3dcf7e","blockHash":"0x` + strings.Repeat("b1", 32) + `","blockNumber":"0x1e8480",` +
		`"data":"0x00000000000000000000000000000000000000000000000000000000000f4240","logIndex":"0x2","removed":false,"topics":[` +
		`"0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef",` +
		`"0x0000000000000000000000009d8a62f656a8d1615c1294fd71e9cfb3e4855a4f",` +
		`"0x000000000000000000000000000000000000000000000000000000000000dead"],"transactionHash":"` + tx.String() +
		`","transactionIndex":"0x1"}],` +
		`"logsBloom":"0x00","status":"0x1","to":"0x036cbd53842c5426634e7929541ec2318f3dcf7e","transactionHash":"` + tx.String() +
		`","transactionIndex":"0x1","type":"0x2"}`
}

// hashes returns n hashes that differ in their first bytes.
func hashes(n int) []chain.Hash {
	all := make([]chain.Hash, n)
	for i := range all {
		all[i] = chain.Hash{byte(i >> 8), byte(i), 1}
	}
	return all
}

func TestReadsReceiptsAHundredAtATime(t *testing.T) {
	s := mined(t)
	node := open(t, s.URL)
	got, err := node.Receipts(t.Context(), hashes(250))
	if err != nil || len(got) != 250 {
		t.Fatalf("%d receipts, %v, want 250", len(got), err)
	}
	var sizes []int
	for _, methods := range s.methods() {
		sizes = append(sizes, len(methods))
	}
	if diff := cmp.Diff([]int{100, 100, 51}, sizes); diff != "" {
		t.Errorf("calls per request, eth_chainId in the first (-want +got):\n%s", diff)
	}
	if got, err := node.Receipts(t.Context(), nil); err != nil || len(got) != 0 || len(s.methods()) != 3 {
		t.Errorf("no hashes: %v, %v, in %d requests", got, err, len(s.methods())-3)
	}
}

func TestReadsBlockHashesInOrder(t *testing.T) {
	s := serve(t, map[string]func(request) raw{"eth_getBlockByNumber": func(r request) raw {
		if r.arg(0) == "0x1388" || string(r.Params[1]) != "false" {
			return result("null")
		}
		return result(fmt.Sprintf(`{"number":%q,"hash":"0x%064s","transactions":["0x00"]}`, r.arg(0), r.arg(0)[2:]))
	}})
	got := must.Get(open(t, s.URL).BlockHashes(t.Context(), []uint64{300, 7, 5000, 255}))(t)
	want := []chain.Hash{{30: 0x01, 31: 0x2c}, {31: 7}, {}, {31: 0xff}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := len(s.methods()); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

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

func TestOneBadReceiptHidesNoOther(t *testing.T) {
	asked := hashes(5)
	s := serve(t, map[string]func(request) raw{"eth_getTransactionReceipt": func(r request) raw {
		tx, _ := chain.ParseHash(r.arg(0))
		text := recordedReceipt(tx)
		if tx == asked[2] {
			text = strings.Replace(text, `"status":"0x1"`, `"status":"0x2"`, 1)
		}
		return result(text)
	}})
	got, err := open(t, s.URL).Receipts(t.Context(), asked)
	if err == nil || len(got) != 4 || slices.ContainsFunc(got, func(r chain.Receipt) bool { return r.Tx == asked[2] }) {
		t.Fatalf("%d receipts, %v, want the 4 good ones and an error", len(got), err)
	}
	if first := got[0]; first.Tx != asked[0] || first.Block != 2_000_000 || first.Logs[0].Index != 2 ||
		first.BlockHash != hash(t, strings.Repeat("b1", 32)) {
		t.Errorf("%+v", first)
	}
}
