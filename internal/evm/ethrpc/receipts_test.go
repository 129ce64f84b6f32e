package ethrpc_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

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

func TestReadsWhatAReceiptSays(t *testing.T) {
	tx := hash(t, signedHash)
	reverted := strings.Replace(recordedReceipt(tx), `"status":"0x1"`, `"status":"0x0"`, 1)
	withoutLog := strings.Replace(recordedReceipt(tx), `"removed":false`, `"removed":true`, 1)
	fee := token.Units(46_322*1_000_000 + 1)
	want := chain.Receipt{
		Fee: &fee,
		Tx:  tx, Succeeded: true, Block: 2_000_000, BlockHash: hash(t, strings.Repeat("b1", 32)), GasUsed: 46_322,
		Logs: []chain.Log{{
			Contract: contract,
			Topics: []chain.Hash{
				hash(t, "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"),
				hash(t, "0x0000000000000000000000009d8a62f656a8d1615c1294fd71e9cfb3e4855a4f"),
				hash(t, "0x000000000000000000000000000000000000000000000000000000000000dead"),
			},
			Data: append(make([]byte, 29), 0x0f, 0x42, 0x40), Index: 2,
		}},
	}
	failed, bare := want, want
	failed.Succeeded = false
	bare.Logs = nil
	for _, row := range []struct {
		name, json string
		want       []chain.Receipt
	}{
		{"mined", recordedReceipt(tx), []chain.Receipt{want}},
		{"reverted", reverted, []chain.Receipt{failed}},
		{"a log that was taken back", withoutLog, []chain.Receipt{bare}},
		{"not mined", "null", []chain.Receipt{}},
		{"pending, by a node that hands those out", strings.Replace(recordedReceipt(tx), `"blockHash":"0x`+strings.Repeat("b1", 32)+`"`,
			`"blockHash":null`, 1), nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := serve(t, map[string]func(request) raw{"eth_getTransactionReceipt": always(result(row.json))})
			got := must.Get(open(t, s.URL).Receipts(t.Context(), []chain.Hash{tx}))(t)
			if diff := cmp.Diff(row.want, got, cmpopts.EquateEmpty(), exact); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	transfer := chain.Transfer{Contract: contract, From: account, To: token.Address{18: 0xde, 19: 0xad}, Amount: token.Units(1_000_000)}
	if verdict := chain.Judge(want, transfer); verdict != chain.Transferred {
		t.Errorf("the receipt reads %s, want a transfer of one USDC", verdict)
	}
}

// TestFees: what a transaction cost its sender, as each kind of chain says it.
func TestFees(t *testing.T) {
	tx := hash(t, signedHash)
	const l1 = `"l1Fee":"0x1"`
	for _, row := range []struct {
		name, fields string
		want         uint64 // 0: not known
	}{
		{"gas alone", `"x":"0x1"`, 46_322_000_000},
		{"the layer-1 fee of the OP stack", `"l1Fee":"0xa"`, 46_322_000_010},
		{"an operator's fee since Isthmus", `"l1Fee":"0xa","operatorFeeScalar":"0x1e8480","operatorFeeConstant":"0x7"`,
			46_322_000_010 + 2*46_322 + 7},
		{"an operator's fee since Jovian", `"l1Fee":"0xa","operatorFeeScalar":"0x2","operatorFeeConstant":"0x7","daFootprintGasScalar":"0x190"`, 46_322_000_010 + 200*46_322 + 7},
		{"a fee of more than 256 bits", `"l1Fee":"0x` + strings.Repeat("f", 64) + `"`, 0},
		{"no price", `"effectiveGasPrice":null`, 0},
	} {
		text := strings.Replace(recordedReceipt(tx), l1, row.fields, 1)
		if row.name == "no price" {
			text = strings.Replace(recordedReceipt(tx), `"effectiveGasPrice":"0xf4240"`, row.fields, 1)
		}
		s := serve(t, map[string]func(request) raw{"eth_getTransactionReceipt": always(result(text))})
		got := must.Get(open(t, s.URL).Receipts(t.Context(), []chain.Hash{tx}))(t)
		if fee := got[0].Fee; (fee == nil) != (row.want == 0) || fee != nil && *fee != token.Units(row.want) {
			t.Errorf("%s: %v, want %d", row.name, fee, row.want)
		}
	}
}

// hashes returns n hashes that differ in their first bytes.
func hashes(n int) []chain.Hash {
	all := make([]chain.Hash, n)
	for i := range all {
		all[i] = chain.Hash{byte(i >> 8), byte(i), 1}
	}
	return all
}

func TestOneBadReceiptHidesNoOther(t *testing.T) {
	asked := hashes(5)
	good := func(r request) raw {
		tx, _ := chain.ParseHash(r.arg(0))
		return result(recordedReceipt(tx))
	}
	for _, row := range []struct {
		name string
		bad  func(request) raw
	}{
		{"refused", always(failure("-32000", "transaction indexing is in progress"))},
		{"left out", always("")},
		{"of another transaction", always(result(recordedReceipt(chain.Hash{9})))},
		{"of no status, as before Byzantium", func(r request) raw {
			return raw(strings.Replace(string(good(r)), `"status":"0x1"`, `"root":"0x1"`, 1))
		}},
		{"of a status that is neither", func(r request) raw {
			return raw(strings.Replace(string(good(r)), `"status":"0x1"`, `"status":"0x2"`, 1))
		}},
		{"of no shape", always(result(`"soon"`))},
		{"of a log with half a topic", func(r request) raw { return raw(strings.Replace(string(good(r)), "dead", "de", 1)) }},
		{"of which all but the end can be read", func(r request) raw {
			return result(fmt.Sprintf(`{"transactionHash":%q,"status":"0x1","blockNumber":"0x1","blockHash":%[1]q,"logs":[{"topics":["0x"]}]}`,
				r.arg(0)))
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := serve(t, map[string]func(request) raw{"eth_getTransactionReceipt": func(r request) raw {
				if r.arg(0) == asked[2].String() {
					return row.bad(r)
				}
				return good(r)
			}})
			got, err := open(t, s.URL).Receipts(t.Context(), asked)
			if err == nil {
				t.Error("no error: the bad receipt looks like a transaction that is not mined")
			}
			if len(got) != 4 {
				t.Fatalf("%d receipts, want the 4 good ones", len(got))
			}
			for _, r := range got {
				if r.Tx == asked[2] {
					t.Errorf("the bad receipt was read as %+v", r)
				}
			}
		})
	}
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

func TestBlockHashesAreAllReadOrNone(t *testing.T) {
	block := func(number, hash string) raw { return result(`{"number":` + number + `,"hash":` + hash + `}`) }
	good := `"0x` + strings.Repeat("b1", 32) + `"`
	for name, bad := range map[string]raw{
		"refused": failure("-32000", "missing block"), "left out": "", "another block": block(`"0x8"`, good),
		"a block without number":        block(`null`, good),
		"a block without hash, pending": block(`"0x7"`, `null`), "half a hash": block(`"0x7"`, `"0xb1b1"`),
	} {
		s := serve(t, map[string]func(request) raw{"eth_getBlockByNumber": func(r request) raw {
			if r.arg(0) == "0x7" {
				return bad
			}
			return block(`"`+r.arg(0)+`"`, good)
		}})
		if got, err := open(t, s.URL).BlockHashes(t.Context(), []uint64{6, 7, 8}); err == nil {
			t.Errorf("%s: BlockHashes = %v, want an error", name, got)
		}
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
