package ethrpc_test

import (
	_ "embed" // testdata/answers.tsv
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

//go:embed testdata/answers.tsv
var answers string

// asked puts the questions of testdata/answers.tsv to a node, and describes its reading of the answers.
var asked = map[string]func(*testing.T, *ethrpc.Node) (string, error){
	"receipt": func(t *testing.T, n *ethrpc.Node) (string, error) {
		read, err := n.Receipts(t.Context(), []chain.Hash{hash(t, signedHash)})
		if len(read) == 0 {
			return "none", err
		}
		fee := "no fee"
		if read[0].Fee != nil {
			fee = read[0].Fee.String() + " wei"
		}
		to := token.Address{18: 0xde, 19: 0xad}
		verdict := chain.Judge(read[0], chain.Transfer{Contract: contract, From: account, To: to, Amount: token.Units(1_000_000)})
		return fmt.Sprintf("%s, %d gas, %s", verdict, read[0].GasUsed, fee), err
	},
	"fees": func(t *testing.T, n *ethrpc.Node) (string, error) {
		market, err := n.Fees(t.Context())
		return fmt.Sprintf("%v + %v wei", market.BaseFee, market.Tip), err
	},
	"finalized": final, "safe": final,
	"hashes": func(t *testing.T, n *ethrpc.Node) (string, error) {
		read, err := n.BlockHashes(t.Context(), []uint64{6, 7, 8})
		have := 0
		for _, h := range read {
			if !h.IsZero() {
				have++
			}
		}
		return fmt.Sprintf("%d hashes", have), err
	},
	"time": func(t *testing.T, n *ethrpc.Node) (string, error) {
		at, err := n.BlockTime(t.Context(), 6)
		return at.Format(time.DateTime), err
	},
	"user": func(t *testing.T, n *ethrpc.Node) (string, error) {
		found, err := n.TxAtNonce(t.Context(), account, 1, 8)
		if found == hash(t, signedHash) {
			return "found", err
		}
		return found.String(), err
	},
	"account": func(t *testing.T, n *ethrpc.Node) (string, error) {
		a, err := n.Account(t.Context(), account, contract, chain.Head{Number: 10})
		return fmt.Sprintf("%d mined, %d pending, %v units, %v wei", a.Mined, a.Pending, a.Balance, a.Gas), err
	},
	"transfers": func(t *testing.T, n *ethrpc.Node) (string, error) {
		moved, err := n.Transfers(t.Context(), contract, []token.Address{account}, 2_000_000, 2_000_000)
		return fmt.Sprintf("%d transfers", len(moved)), err
	},
	"txs": func(t *testing.T, n *ethrpc.Node) (string, error) {
		txs, err := n.Transactions(t.Context(), []chain.Hash{hash(t, signedHash)})
		if len(txs) == 0 {
			return "none", err
		}
		return fmt.Sprintf("nonce %d of block %d at %s", txs[0].Nonce, txs[0].Block, txs[0].At.Format(time.DateTime)), err
	},
	"estimate": func(t *testing.T, n *ethrpc.Node) (string, error) {
		return estimated(n.Estimate(t.Context(), chain.Call{From: account, To: contract}))
	},
	"screened": func(t *testing.T, n *ethrpc.Node) (string, error) {
		call := transferCall
		call.Screening = chain.Screening{List: list, Recipients: []token.Address{{0xa1, 19: 1}}}
		return estimated(n.Estimate(t.Context(), call))
	},
	"called": func(t *testing.T, n *ethrpc.Node) (string, error) { // without a worst case
		call := transferCall
		call.ByCall = true
		_, _ = n.Estimate(t.Context(), call)
		return estimated(n.Estimate(t.Context(), call))
	},
	"executed": func(t *testing.T, n *ethrpc.Node) (string, error) {
		call := transferCall
		call.ByCall = true
		_, _ = n.Estimate(t.Context(), call)
		call.Within, call.Screening = 70_000, chain.Screening{List: list, Recipients: []token.Address{{0xa1, 19: 1}}}
		return estimated(n.Estimate(t.Context(), call))
	},
	"batch": func(t *testing.T, n *ethrpc.Node) (string, error) {
		call := chain.Call{From: account, To: contract, Batch: true, Screening: chain.Screening{List: list}}
		var entries []disburser.Entry
		for i := range byte(11) {
			call.Recipients = append(call.Recipients, token.Address{0xa1 + i, 19: 1})
			entries = append(entries, disburser.Entry{To: call.Recipients[i], Amount: token.Units(5)})
		}
		call.Data = disburser.Calldata(contract, entries, []byte{7})
		return estimated(n.Estimate(t.Context(), call))
	},
}

var (
	list         = token.Address{0x40, 19: 0x01}
	transferCall = chain.Call{From: account, To: contract, Data: chain.TransferData(token.Address{0xa1, 19: 1}, token.Units(1))}
)

// estimated describes the outcome of an estimate. Each refusal alone is an answer.
func estimated(gas uint64, err error) (string, error) {
	said := ""
	for _, refusal := range []error{chain.ErrListed, chain.ErrReverted, chain.ErrTooLarge, chain.ErrCode} {
		if errors.Is(err, refusal) {
			said += refusal.Error()
		}
	}
	if entry, ok := errors.AsType[*chain.EntryError](err); ok && said != "" {
		return fmt.Sprintf("%s, entry %d", said, entry.Index), nil
	}
	if said != "" {
		return said, nil
	}
	return fmt.Sprintf("%d gas", gas), err
}

// variant names a call among those of its method: the purpose of an execution, "new" for the estimate of a call to
// recipients who hold nothing, or else the block.
func (r request) variant() string {
	var o struct{ From, To, Data, Gas string }
	if len(r.Params) == 0 || json.Unmarshal(r.Params[0], &o) != nil {
		return r.arg(1)
	}
	first := token.Address{0xa1, 19: 1}
	selector := crypto.Keccak256([]byte("isSanctioned(address)"))[:4]
	switch recipient, listed := strings.CutPrefix(o.Data, fmt.Sprintf("0x%x%024x", selector, 0)); {
	case listed && o.To == list.String() && len(recipient) == 40:
		return "list " + recipient[:2]
	case r.Method == "eth_call" && o.From == account.String() && o.To == contract.String() &&
		o.Data == fmt.Sprintf("0x%x", transferCall.Data):
		return strings.TrimSpace("transfer " + o.Gas)
	case r.Method == "eth_estimateGas" && len(o.Data) > 10 && !strings.Contains(o.Data, hex.EncodeToString(first[:])):
		return "new"
	}
	return r.arg(1)
}

func final(t *testing.T, n *ethrpc.Node) (string, error) {
	_, tag, _ := strings.Cut(t.Name(), "/")
	tag, _, _ = strings.Cut(tag, ":")
	head, err := n.Head(t.Context(), chain.ConfirmationRule{Tag: tag})
	return fmt.Sprintf("block %d", head.Final), err
}

// usual returns the result that the table's answers differ from.
func usual(r request) any {
	tx, _ := chain.ParseHash(signedHash)
	receipt := map[string]any{}
	_ = json.Unmarshal([]byte(recordedReceipt(tx)), &receipt)
	at := r.arg(0)
	if !strings.HasPrefix(at, "0x") {
		at = "0x7"
	}
	nonce := map[bool]string{true: "0x5", false: "0x3"}[r.arg(1) == "pending"]
	if r.Method == "eth_getTransactionCount" && len(r.arg(1)) == 3 && r.arg(1) < "0x6" {
		nonce = "0x0"
	}
	executed := "0x" + strings.Repeat("0", 58) + "6acfc0"
	switch kind, _, _ := strings.Cut(r.variant(), " "); kind {
	case "list":
		executed = "0x" + strings.Repeat("0", 64)
	case "transfer":
		executed = "0x" + strings.Repeat("0", 63) + "1"
	}
	return map[string]any{
		"eth_blockNumber": "0xa", "eth_getTransactionCount": nonce, "eth_call": executed,
		"eth_getCode":    map[bool]string{true: fmt.Sprintf("0x%x", disburser.Code())}[r.arg(0) == contract.String()],
		"eth_getBalance": "0x400000000000000000", "eth_maxPriorityFeePerGas": "0x59682f00", "eth_estimateGas": "0xfde8",
		"eth_feeHistory": map[string]any{"oldestBlock": "0x1f", "reward": []any{[]any{"0xf4240"}},
			"gasUsedRatio": []any{0.4}, "baseFeePerGas": []any{"0x64", "0x62"}},
		"eth_getTransactionReceipt": receipt, "eth_getLogs": receipt["logs"],
		"eth_getBlockByNumber": map[string]any{"number": at, "hash": "0x" + strings.Repeat("b1", 32),
			"timestamp": "0x60", "gasLimit": "0x1c9c380",
			"transactions": []any{map[string]any{"hash": signedHash, "from": account.String(), "nonce": "0x1"}}},
		"eth_getTransactionByHash": map[string]any{"hash": signedHash, "from": account.String(), "to": contract.String(), "nonce": "0x7",
			"value": "0x10", "input": "0xa905", "blockNumber": "0x5"},
	}[r.Method]
}

// merge changes fields of an object; "-" leaves one out.
func merge(object any, changes map[string]any) {
	fields := object.(map[string]any)
	maps.Copy(fields, changes)
	maps.DeleteFunc(fields, func(_ string, v any) bool { return v == "-" })
}

func TestReadsWhatNodesAnswer(t *testing.T) {
	for line := range strings.Lines(answers) {
		row := strings.Split(strings.TrimSpace(line), "\t")
		if len(row) != 4 {
			continue
		}
		t.Run(row[0]+": "+row[3], func(t *testing.T) {
			var differ map[string]map[string]any
			must.OK(t, json.Unmarshal([]byte(row[1]), &differ))
			all := map[string]func(request) raw{}
			for _, method := range []string{"eth_blockNumber", "eth_getTransactionCount", "eth_call", "eth_getBalance", "eth_estimateGas",
				"eth_maxPriorityFeePerGas", "eth_feeHistory", "eth_getTransactionReceipt", "eth_getLogs",
				"eth_getBlockByNumber", "eth_getTransactionByHash", "eth_getCode"} {
				all[method] = func(r request) raw {
					reply, ok := differ[method+" "+r.variant()]
					if !ok {
						reply, ok = differ[method]
					}
					if !ok && r.variant() == "transfer 0x2904" { // too little
						return failure("-32000", "out of gas")
					}
					result := usual(r)
					if with, is := reply["with"].(map[string]any); is {
						merge(result, with)
					} else if with, is := reply["log"].(map[string]any); is {
						logs, list := result.([]any)
						if !list {
							logs = result.(map[string]any)["logs"].([]any)
						}
						merge(logs[0], with)
					} else if ok {
						text, _ := json.Marshal(reply)
						return raw(text[1 : len(text)-1])
					}
					text, _ := json.Marshal(result)
					return raw(`"result":` + string(text))
				}
			}
			s := serve(t, all)
			got, err := asked[row[0]](t, open(t, s.URL))
			if err != nil {
				got = "error"
			} else if strings.Contains("account screened called executed batch", row[0]) {
				got += fmt.Sprintf(" in %d", len(s.methods()))
			}
			if got != row[2] {
				t.Errorf("read as %s, %v; want %s", got, err, row[2])
			}
		})
	}
}

// TestEstimatesABatchLikeTheLast: a batch is estimated within what another of its size has needed, and less and less
// if it needs less. One that needs more, or that the token refuses in it, is estimated again. A row has the entries,
// what they need as they are and to new holders, whether the token is strict, and the estimate with the limits asked.
func TestEstimatesABatchLikeTheLast(t *testing.T) {
	needs := [2]uint64{0x30000, 0x34000} // as it is, and to new holders
	strict, asked := false, []string{}   // strict: a token that pays none it does not know
	s := serve(t, map[string]func(request) raw{
		"eth_estimateGas": func(r request) raw {
			var call struct{ Gas string }
			_ = json.Unmarshal(r.Params[0], &call)
			need := needs[len(asked)%2]
			if asked = append(asked, call.Gas); strict && len(asked)%2 == 0 {
				return failure("3", "execution reverted")
			}
			most, err := strconv.ParseUint(call.Gas, 0, 64)
			switch {
			case call.Gas == "":
				return result(fmt.Sprintf(`"0x%x"`, need))
			case err != nil || most < need: // as a token says it that has too little for its part
				return failure("3", "execution reverted")
			case most > need+need/64: // as geth searches
				return result(fmt.Sprintf(`"0x%x"`, need))
			default:
				return result(fmt.Sprintf(`"0x%x"`, most))
			}
		},
		"eth_getBlockByNumber": always(result(`{"number":"0x5","gasLimit":"0x1c9c380"}`)),
		"eth_getCode":          always(result(fmt.Sprintf(`"0x%x"`, disburser.Code()))),
	})
	node := open(t, s.URL)
	for _, c := range tabletest.Read(t, nil) {
		var entries []disburser.Entry
		n := 0
		asked = nil
		must.Get(fmt.Sscan(c.In[0], &n, &needs[0], &needs[1], &strict))(t)
		for i := range n {
			entries = append(entries, disburser.Entry{To: token.Address{1 + byte(i)}, Amount: token.Units(5)})
		}
		gas, err := node.Estimate(t.Context(), chain.Call{From: account, To: contract,
			Data: disburser.Calldata(contract, entries, []byte{7}), Batch: true})
		if got := fmt.Sprintf("%#x within %q", gas, asked); err != nil || got != c.Want {
			t.Errorf("%s: %s, %v, want %s", c.Name, got, err, c.Want)
		}
	}
}

// TestAsksForFeesOnceASecond: in one request, and for tips that blocks paid only where the node suggests none.
func TestAsksForFeesOnceASecond(t *testing.T) {
	var asked []string
	now, tip := time.Now(), result(`"0x1"`)
	s := serve(t, map[string]func(request) raw{
		"eth_maxPriorityFeePerGas": func(request) raw { return tip },
		"eth_feeHistory": func(r request) raw {
			asked = append(asked, fmt.Sprintf("%s", r.Params))
			return result(`{"reward":[["0x7"]],"baseFeePerGas":["0x64","0x62"]}`)
		},
	})
	node := must.Get(ethrpc.Open(s.URL, ethrpc.Config{ChainID: chainID, Now: func() time.Time { return now }}))(t)
	for i, want := range []string{`[["0x1" "latest" []]]`, `[["0x1" "latest" []] ["0x1" "latest" [50]]]`} {
		asked = nil
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { must.Get(node.Fees(t.Context()))(t) })
		}
		all.Wait()
		must.Get(node.Fees(t.Context()))(t)
		if got := fmt.Sprint(asked); got != want {
			t.Errorf("second %d: asked for %s, want %s", i, got, want)
		}
		now, tip = now.Add(time.Second), failure("-32601", "no such method")
	}
	if n := len(s.methods()); n != 3 {
		t.Errorf("%d requests, want one, and two where no tip is suggested", n)
	}
}
