package ethrpc_test

import (
	"encoding/json"
	"errors"
	"fmt"
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
)

// TestEstimatesABatch: a batch is estimated as it is, and with each tenth recipient new, its recipients are held
// against the list, its gas against the block, and the code that it calls against the contract's, in one request.
func TestEstimatesABatch(t *testing.T) {
	var entries []disburser.Entry
	for i := range 11 {
		entries = append(entries, disburser.Entry{To: token.Address{1 + byte(i)}, Amount: token.Units(5)})
	}
	word := func(digit string) raw { return result(`"0x` + strings.Repeat("0", 63) + digit + `"`) }
	const noContract, unsaid = "no contract, where every call succeeds", "a node that does not say the code"
	reason := func(data string) raw {
		return raw(fmt.Sprintf(`"error":{"code":3,"message":"execution reverted","data":%s}`, data))
	}
	index := crypto.Keccak256([]byte("Refused(uint256,bytes)"))[:4]
	refused := fmt.Sprintf(`0x%x%064x%064x%064x`, index, 7, 64, 0)
	fits, dearer, reverts, small := result(`"0x30000"`), result(`"0x34000"`), failure("3", "execution reverted"), result(`"0x5208"`)
	const wide = "0x1c9c380"
	for _, row := range []struct {
		name             string
		estimate, dearer raw
		listed           byte // the recipient that the list has; 0: none
		limit            string
		gas              uint64
		want             error
		index            int
	}{
		{"it fits", fits, dearer, 0, wide, 0x34000, nil, -1},
		{"a token that refuses who is new", fits, reverts, 0, wide, 0x30000 + 2*97_920, nil, -1},
		{"the third recipient is listed", fits, dearer, 3, wide, 0, chain.ErrListed, 2},
		{"a smaller block", fits, dearer, 0, "0x3e665", 0, chain.ErrTooLarge, -1},
		{"the block has room for the margin too", fits, dearer, 0, "0x3e666", 0x34000, nil, -1},
		{"more than EIP-7825 allows", result(`"0xd5555b"`), dearer, 0, "0x3938700", 0, chain.ErrTooLarge, -1},
		{"more than the node allows", failure("-32000", "gas required exceeds allowance (30000000)"), small, 0, wide, 0, chain.ErrTooLarge, -1},
		{"a block without a limit", fits, dearer, 0, "", 0, errAny, -1},
		{"the token refuses one", reason(`"` + refused + `"`), reverts, 0, wide, 0, chain.ErrReverted, 7},
		{"as Hardhat says it", reason(`{"message":"reverted","data":"` + refused + `"}`), reverts, 0, wide, 0, chain.ErrReverted, 7},
		{"as Nethermind says it", reason(`"Reverted ` + refused + `"`), reverts, 0, wide, 0, chain.ErrReverted, 7},
		{"without a reason", reverts, reverts, 0, wide, 0, chain.ErrReverted, -1},
		{noContract, small, small, 0, wide, 0, chain.ErrCode, -1},
		{"another contract, which refuses the call", reverts, reverts, 0, wide, 0, chain.ErrCode, -1},
		{"another contract, which takes the call", fits, dearer, 0, wide, 0, chain.ErrCode, -1},
		{unsaid, fits, dearer, 0, wide, 0, errAny, -1},
	} {
		t.Run(row.name, func(t *testing.T) {
			estimates := 0
			s := serve(t, map[string]func(request) raw{
				"eth_estimateGas": func(request) raw {
					if estimates++; estimates == 1 {
						return row.estimate
					}
					return row.dearer
				},
				"eth_call": func(r request) raw {
					to := token.Address{row.listed}
					if row.listed > 0 && strings.Contains(string(r.Params[0]), fmt.Sprintf("%x", to[:])) {
						return word("1")
					}
					return word("0")
				},
				"eth_getBlockByNumber": always(result(`{"number":"0x5","gasLimit":"` + row.limit + `"}`)),
				"eth_getCode": func(r request) raw {
					code := disburser.Code()
					switch {
					case row.name == unsaid:
						return failure("-32000", "header not found")
					case row.name == noContract || string(r.Params[0]) != `"`+contract.String()+`"`:
						code = nil
					case row.want == chain.ErrCode:
						code[len(code)-1]++
					}
					return result(fmt.Sprintf(`"0x%x"`, code))
				},
			})
			call := chain.Call{From: account, To: contract, Data: disburser.Calldata(contract, entries, []byte{7}), Batch: true}
			call.List = token.Address{0x40, 19: 0x01}
			for _, e := range entries {
				call.Recipients = append(call.Recipients, e.To)
			}
			gas, err := open(t, s.URL).Estimate(t.Context(), call)
			got := -1
			if entry, ok := errors.AsType[*chain.EntryError](err); ok {
				got = entry.Index
			}
			if gas != row.gas || got != row.index || (err == nil) != (row.want == nil) || row.want != nil && row.want != errAny &&
				!errors.Is(err, row.want) {
				t.Errorf("Estimate = %d, %v of entry %d, want %d, %v of %d", gas, err, got, row.gas, row.want, row.index)
			}
			if requests := s.methods(); len(requests) != 1 || estimates != 2 {
				t.Errorf("%d estimates in requests %q", estimates, requests)
			}
		})
	}
}

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

// TestScreensARecipient: a list is asked in the request of the estimate. Only a plain
// "not listed" lets the estimate through.
func TestScreensARecipient(t *testing.T) {
	word := func(digit string) raw { return result(`"0x` + strings.Repeat("0", 63) + digit + `"`) }
	reverts := failure("3", "execution reverted")
	for _, row := range []struct {
		name             string
		listed, estimate raw
		want             error // nil: the gas
	}{
		{"not listed", word("0"), result(`"0xfde8"`), nil},
		{"listed", word("1"), result(`"0xfde8"`), chain.ErrListed},
		{"listed, and the token refuses it too", word("1"), reverts, chain.ErrListed},
		{"not listed, and the token refuses it", word("0"), reverts, chain.ErrReverted},
		{"a word that is no boolean", word("2"), result(`"0xfde8"`), chain.ErrListed},
		{"no contract is there", result(`"0x"`), result(`"0xfde8"`), errAny},
		{"a contract that is no list", reverts, result(`"0xfde8"`), errAny},
		{"a contract that is no list, for a token that reverts", reverts, reverts, errAny},
		{"no answer", "", result(`"0xfde8"`), errAny},
		{"null", result("null"), result(`"0xfde8"`), errAny},
	} {
		t.Run(row.name, func(t *testing.T) {
			var asked string
			s := serve(t, map[string]func(request) raw{"eth_estimateGas": always(row.estimate), "eth_call": func(r request) raw {
				asked = string(r.Params[0])
				return row.listed
			}})
			list := token.Address{0x40, 19: 0x01}
			gas, err := open(t, s.URL).Estimate(t.Context(),
				chain.Call{From: account, To: contract, Data: chain.TransferData(account, token.Units(1)),
					Screening: chain.Screening{List: list, Recipients: []token.Address{account}}})
			if ok := err == nil && gas == 0xfde8; ok != (row.want == nil) || row.want != nil && row.want != errAny && !errors.Is(err, row.want) {
				t.Errorf("Estimate = %d, %v, want %v", gas, err, row.want)
			}
			if refused := errors.Is(err, chain.ErrListed) || errors.Is(err, chain.ErrReverted); row.want == errAny && refused {
				t.Errorf("%v is taken for an answer", err)
			}
			selector := crypto.Keccak256([]byte("isSanctioned(address)"))[:4]
			if want := fmt.Sprintf(`{"to":"%s","data":"0x%x%064x"}`, list, selector, account[:]); asked != want {
				t.Errorf("asked %s, want %s", asked, want)
			}
			if requests := s.methods(); row.listed != "" && row.name != "null" && len(requests) != 1 {
				t.Errorf("requests %q, want one", requests)
			}
		})
	}
}

// errAny stands for any error that is no answer.
var errAny = errors.New("any")

// TestExecutesATransfer: a transfer is executed once within its gas, in the request that
// screens its recipient, if the node keeps calls to their gas. Where that does not show that it passes it is estimated; where the
// token returns false it is refused, and also if it is executed beside an estimate.
func TestExecutesATransfer(t *testing.T) {
	word := func(digit string) raw { return result(`"0x` + strings.Repeat("0", 63) + digit + `"`) }
	no, reverts := word("0"), failure("3", "execution reverted")
	for _, row := range []struct {
		name                      string
		within                    uint64
		returns, listed, estimate raw
		gas                       uint64
		want                      error
		estimates, requests       int
		ignores                   bool // the node lets a call have all the gas that it needs
	}{
		{"true", 70_000, word("1"), no, reverts, 70_000, nil, 0, 1, false},
		{"nothing, as USDT does", 70_000, result(`"0x"`), no, reverts, 70_000, nil, 0, 1, false},
		{"false", 70_000, word("0"), no, result(`"0xfde8"`), 0, chain.ErrReverted, 0, 1, false},
		{"a recipient that the list has", 70_000, word("1"), word("1"), result(`"0xfde8"`), 0, chain.ErrListed, 0, 1, false},
		{"a list that does not say", 70_000, word("1"), result(`"0x"`), result(`"0xfde8"`), 0, errAny, 0, 1, false},
		{"too little gas for a dear recipient", 70_000, failure("-32000", "out of gas"), no, result(`"0x15f90"`), 90_000, nil, 2, 2, false},
		{"a revert", 70_000, reverts, no, reverts, 0, chain.ErrReverted, 2, 2, false},
		{"a node that lets no call have so much gas", 70_000, failure("-32602", "gas limit is too high"), no, result(`"0xfde8"`), 65_000, nil,
			2, 2, false},
		{"a word that is no boolean", 70_000, word("2"), no, result(`"0xfde8"`), 65_000, nil, 2, 2, false},
		{"more than a word", 70_000, result(`"0x` + strings.Repeat("0", 126) + `01"`), no, result(`"0xfde8"`), 65_000, nil, 2, 2, false},
		{"less than a word", 70_000, result(`"0x01"`), no, result(`"0xfde8"`), 65_000, nil, 2, 2, false},
		{"no answer", 70_000, "", no, result(`"0xfde8"`), 0, errAny, 0, -1, false},
		{"null", 70_000, result("null"), no, result(`"0xfde8"`), 0, errAny, 0, -1, false},
		{"a node that ignores the gas", 70_000, word("1"), no, result(`"0x15f90"`), 90_000, nil, 2, 1, true},
		{"no worst case", 0, word("1"), no, result(`"0xfde8"`), 65_000, nil, 2, 1, false},
		{"no worst case, and false", 0, word("0"), no, result(`"0xfde8"`), 0, chain.ErrReverted, 2, 1, false},
		{"no worst case, and a call that fails", 0, failure("-32000", "out of gas"), no, result(`"0xfde8"`), 65_000, nil, 2, 1, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			var executed string
			estimates, calls, list := 0, 0, token.Address{0x40, 19: 0x01}
			learning := true
			s := serve(t, map[string]func(request) raw{
				"eth_estimateGas": func(request) raw {
					estimates++
					if learning {
						return result(`"0xfde8"`)
					}
					return row.estimate
				},
				"eth_call": func(r request) raw {
					switch {
					case strings.Contains(string(r.Params[0]), list.String()):
						return row.listed
					}
					calls++
					switch {
					case strings.Contains(string(r.Params[0]), `"gas":"0x2904"`): // too little
						if row.ignores {
							return word("1")
						}
						return failure("-32000", "out of gas")
					case learning:
						return word("1")
					}
					executed = string(r.Params[0]) + string(r.Params[1])
					return row.returns
				},
			})
			call := chain.Call{From: account, To: contract, Data: chain.TransferData(token.Address{7}, token.Units(1)), ByCall: true,
				Within:    row.within,
				Screening: chain.Screening{List: list, Recipients: []token.Address{{7}}}}
			node := open(t, s.URL)
			_, err := node.Estimate(t.Context(), chain.Call{From: account, To: contract, Data: call.Data, ByCall: true, Within: 70_000})
			must.OK(t, err)
			learned := len(s.methods())
			learning, estimates, calls = false, 0, 0
			gas, err := node.Estimate(t.Context(), call)
			refused := errors.Is(err, chain.ErrReverted) || errors.Is(err, chain.ErrListed)
			if row.want == nil && (err != nil || gas != row.gas) || row.want != nil &&
				(err == nil || refused == (row.want == errAny) || refused && !errors.Is(err, row.want)) {
				t.Errorf("Estimate = %d, %v, want %d, %v", gas, err, row.gas, row.want)
			}
			// Within a worst case a request is one call, and an estimate of both cases two.
			if requests := s.methods()[learned:]; estimates != row.estimates || row.requests > 0 &&
				(len(requests) != row.requests || calls != row.requests+row.estimates/2) {
				t.Errorf("%d estimates and %d calls in requests %q, want %d and %d in %d", estimates, calls, requests, row.estimates,
					row.requests+row.estimates/2, row.requests)
			}
			within := ""
			if row.within > 0 && row.estimates == 0 {
				within = fmt.Sprintf(`,"gas":"0x%x"`, row.within)
			}
			if want := fmt.Sprintf(`{"from":"%s","to":"%s","data":"0x%x"%s}"latest"`, account, contract, call.Data, within); row.estimates == 0 &&
				executed != want {
				t.Errorf("executed %s, want %s", executed, want)
			}
		})
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
