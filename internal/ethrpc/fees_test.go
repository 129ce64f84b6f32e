package ethrpc_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/go-cmp/cmp"

	"remit/internal/chain"
	"remit/internal/token"
)

func TestReadsFeesInOneRequest(t *testing.T) {
	// From Base Sepolia, cut to the fields that are read.
	history := result(`{"oldestBlock":"0x1f","reward":[["0xf4240"]],"baseFeePerGas":["0x64","0x62"],"gasUsedRatio":[0.4]}`)
	for _, row := range []struct {
		name         string
		history, tip raw
		want         chain.Market
	}{
		{"the node suggests a tip", history, result(`"0x59682f00"`), chain.Market{BaseFee: token.Units(0x62), Tip: token.Units(1_500_000_000)}},
		{"the node suggests no tip at all", history, result(`"0x0"`), chain.Market{BaseFee: token.Units(0x62)}},
		{"the node knows no such method: what the last block paid", history, failure("-32601", "no such method"), chain.Market{BaseFee: token.Units(0x62), Tip: token.Units(1_000_000)}},
		{"leading zeros, which the specification forbids", result(`{"reward":[["0x0"]],"baseFeePerGas":["0x0064","0x0062"]}`), result(`"0x00"`), chain.Market{BaseFee: token.Units(0x62)}},
		{"Avalanche leaves the next block's base fee out: an eighth more", result(`{"reward":[["0x0"]],"baseFeePerGas":["0x64"]}`), result(`"0x1"`), chain.Market{BaseFee: token.Units(113), Tip: token.Units(1)}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var params string
			s := serve(t, map[string]func(request) raw{
				"eth_feeHistory": func(r request) raw {
					for _, p := range r.Params {
						params += string(p)
					}
					return row.history
				},
				"eth_maxPriorityFeePerGas": always(row.tip),
			})
			got, err := open(t, s.URL).Fees(t.Context())
			must(t, err)
			if diff := cmp.Diff(row.want, got, exact); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(s.methods()) != 1 || params != `"0x1""latest"[50]` {
				t.Errorf("requests %v, of %s", s.methods(), params)
			}
		})
	}
}

func TestFeesAreUsableOrAnError(t *testing.T) {
	tip := result(`"0x1"`)
	for name, row := range map[string]struct{ history, tip raw }{
		"no history":                      {failure("-32000", "header not found"), tip},
		"null":                            {result("null"), tip},
		"no base fee":                     {result(`{"baseFeePerGas":[],"reward":[["0x1"]]}`), tip},
		"more blocks than were asked for": {result(`{"baseFeePerGas":["0x64","0x62","0x60"],"reward":[["0x1"],["0x1"]]}`), tip},
		"a base fee that is no quantity":  {result(`{"baseFeePerGas":["100","98"],"reward":[["0x1"]]}`), tip},
		"no tip and no rewards":           {result(`{"baseFeePerGas":["0x64","0x62"]}`), failure("-32601", "no such method")},
		"no tip and no reward":            {result(`{"baseFeePerGas":["0x64","0x62"],"reward":[[]]}`), failure("-32601", "no such method")},
	} {
		s := serve(t, map[string]func(request) raw{"eth_feeHistory": always(row.history), "eth_maxPriorityFeePerGas": always(row.tip)})
		if got, err := open(t, s.URL).Fees(t.Context()); err == nil {
			t.Errorf("%s: Fees = %+v, want an error", name, got)
		}
	}
}

func TestEstimatesGas(t *testing.T) {
	var asked string
	s := serve(t, map[string]func(request) raw{"eth_estimateGas": func(r request) raw {
		asked = string(r.Params[0])
		return result(`"0xfde8"`)
	}})
	got, err := open(t, s.URL).Estimate(t.Context(), chain.Call{From: account, To: contract, Value: token.Units(17), Data: []byte{0xa9, 0x05}})
	if err != nil || got != 65_000 {
		t.Fatalf("Estimate = %d, %v, want 65000", got, err)
	}
	const want = `{"from":"0x9d8A62f656a8d1615C1294fd71e9CFb3E4855A4F","to":"0x036CbD53842c5426634e7929541eC2318f3dCF7e","value":"0x11","data":"0xa905"}`
	if asked != want {
		t.Errorf("asked %s, want %s", asked, want)
	}
}

// TestEstimatesBothCases: a transfer is estimated as it is, and to a recipient that
// holds nothing, in one request.
func TestEstimatesBothCases(t *testing.T) {
	for _, row := range []struct {
		name   string
		nobody raw
		want   uint64
	}{
		{"a holder", result(`"0x12345"`), 0x12345},
		{"a new holder", result(`"0xb000"`), 0xb000},
		{"an address that holds nothing and still costs less", result(`"0xa000"`), 0xb000},
		{"a token that pays none it does not know", failure("3", "execution reverted"), 0xb000 + 97_920},
	} {
		t.Run(row.name, func(t *testing.T) {
			var asked []string
			s := serve(t, map[string]func(request) raw{"eth_estimateGas": func(r request) raw {
				var call struct{ Data string }
				_ = json.Unmarshal(r.Params[0], &call)
				asked = append(asked, call.Data)
				if len(asked) == 1 {
					return result(`"0xb000"`)
				}
				return row.nobody
			}})
			call := chain.Call{From: account, To: contract, Data: append(chain.TransferData(token.Address{7}, token.Units(5)), 0xee)}
			got, err := open(t, s.URL).Estimate(t.Context(), call)
			if err != nil || got != row.want || len(s.methods()) != 1 {
				t.Errorf("Estimate = %d, %v in requests of %q, want %d in one", got, err, s.methods(), row.want)
			}
			if len(asked) != 2 || asked[0][:34] != asked[1][:34] || asked[0][34:74] == asked[1][34:74] || asked[0][74:] != asked[1][74:] {
				t.Errorf("the calls differ in more than the recipient: %q", asked)
			}
		})
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
			gas, err := open(t, s.URL).Estimate(t.Context(), chain.Call{From: account, To: contract, Data: chain.TransferData(account, token.Units(1)),
				Screening: chain.Screening{List: list, Recipient: account}})
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

func TestKnowsAContractsRefusal(t *testing.T) {
	data := func(code, message, data string) raw {
		return raw(`"error":{"code":` + code + `,"message":"` + message + `","data":"` + data + `"}`)
	}
	for _, row := range []struct {
		name     string
		answer   raw
		reverted bool
	}{
		{"geth, with a reason (internal/ethapi/errors.go)", data("3", "execution reverted: Blacklistable: account is blacklisted", "0x08c379a0"), true},
		{"geth, without one", failure("-32000", "execution reverted"), true},
		{"geth before 1.9.15", failure("-32000", "gas required exceeds allowance (8000029) or always failing transaction"), true},
		{"geth, an assertion of old Solidity (core/vm/errors.go)", failure("-32000", "invalid opcode: INVALID"), true},
		{"Reth and Erigon, a custom error", data("3", "execution reverted", "0xe450d38c"), true},
		{"anvil, a code and words of its own", failure("3", "custom error 0xe450d38c"), true},
		{"Besu (RpcErrorType.java)", data("-32000", "Execution reverted", "0x08c379a0"), true},
		{"Nethermind before 1.30 and OpenEthereum", data("-32015", "VM execution error.", "Reverted 0x08c379a0"), true},
		{"Hardhat", failure("-32603", "Error: VM Exception while processing transaction: reverted with reason string 'Pausable: paused'"), true},
		{"Ganache", failure("-32000", "VM Exception while processing transaction: revert"), true},

		{"a wallet without ether, geth", failure("-32000", "gas required exceeds allowance (0)"), false},
		{"a wallet without ether, of older geth", failure("-32000", "insufficient funds for transfer"), false},
		{"a node that lags", failure("-32000", "header not found"), false},
		{"a rate limit", failure("-32005", "limit exceeded"), false},
		{"a node that broke", failure("-32603", "Internal error"), false},
		{"a result that is none", result(`null`), false},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := serve(t, map[string]func(request) raw{"eth_estimateGas": always(row.answer)})
			gas, err := open(t, s.URL).Estimate(t.Context(), chain.Call{From: account, To: contract})
			if err == nil {
				t.Fatalf("Estimate = %d, want an error", gas)
			}
			if errors.Is(err, chain.ErrReverted) != row.reverted {
				t.Errorf("%v: taken for a revert: %v, want %v", err, !row.reverted, row.reverted)
			}
		})
	}
}
