package ethrpc_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// TestEstimatesABatchLikeTheLast: a batch is estimated within what another of its size has needed, and less and less
// if it needs less. One that needs more, or that the token refuses within it, is estimated again.
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
	for _, step := range []struct {
		entries      int
		asIs, dearer uint64
		strict       bool
		gas          uint64
		caps         string
		why          string
	}{
		{3, 0x30000, 0x34000, false, 0x34000, `["" ""]`, "the first of its size"},
		{3, 0x2ff00, 0x33f00, false, 0x34340, `["0x30300" "0x34340"]`, "a batch that needs no more"},
		{3, 0x30301, 0x34000, false, 0x34000, `["0x30300" "0x34340" "" ""]`, "a batch that needs more as it is"},
		{3, 0x30301, 0x36000, false, 0x36000, `["0x30604" "0x34340" "" ""]`, "a batch that needs more to new holders"},
		{3, 0x30301, 0x36000, false, 0x36360, `["0x30604" "0x36360"]`, "the same again"},
		{3, 0x20001, 0x36000, false, 0x36360, `["0x30604" "0x36360"]`, "a batch that needs much less"},
		{3, 0x20001, 0x36000, false, 0x36360, `["0x2e581" "0x36360"]`, "and again"},
		{2, 0x20000, 0x24000, true, 0x20000 + 97_920, `["" ""]`, "another size, of a strict token"},
		{2, 0x20000, 0x24000, true, 0x20200 + 97_920, `["0x20200" ""]`, "for which there is no second cap"},
	} {
		asked, strict, needs = nil, step.strict, [2]uint64{step.asIs, step.dearer}
		entries := make([]disburser.Entry, step.entries)
		for i := range entries {
			entries[i] = disburser.Entry{To: token.Address{1 + byte(i)}, Amount: token.Units(5)}
		}
		gas, err := node.Estimate(t.Context(), chain.Call{From: account, To: contract, Data: disburser.Calldata(contract, entries, []byte{7}),
			Batch: true})
		if caps := fmt.Sprintf("%q", asked); err != nil || gas != step.gas || caps != step.caps {
			t.Errorf("%s: %#x, %v, asked within %s; want %#x within %s", step.why, gas, err, caps, step.gas, step.caps)
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
