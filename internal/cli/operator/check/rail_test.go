package check_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/deployment/chains"
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/operatortest"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// TestDoctorAsksEveryNode: the second of two nodes has the fault, which no other check sees.
func TestDoctorAsksEveryNode(t *testing.T) {
	missing := `"error":{"code":-32000,"message":"missing trie node"}`
	for _, c := range []struct {
		why    string
		faults operatortest.Node
		check  string
		want   string // ! marks a finding
	}{
		{"a stack that is well says what it works by", nil, "chain", "Base: finalized, 2s, at most 1 gwei, 16 in flight"},
		{"how far finality is behind", nil, "finality", "300 blocks behind, about 10m0s"},
		{"nodes of one chain have the same blocks", operatortest.Node{"eth_getBlockByNumber 0x3de": operatortest.Block("2")},
			"nodes agree", "!different branches"},
		{"and all of them", operatortest.Node{"eth_getBlockByNumber 0x3de": `"result":null`}, "nodes agree", "!lacks blocks"},
		{"what is paid beside gas", nil, "fees", "0.100000001 gwei, and 0.000000007 gwei a payment beside gas"},
		{"which is not known without the oracle of the OP stack", operatortest.Node{"eth_call 0x275aedd2": `"result":"0x"`}, "fees",
			"!gas price oracle"},
		{"small batches are taken as they are", operatortest.Node{operatortest.OneBatch: "ten calls!"}, "batches",
			"takes 6 calls in one request"},
		{"a tag that a node lacks would hang", operatortest.Node{"eth_getBlockByNumber finalized": `"result":null`}, "finality",
			"!has no finalized block"},
		{"a tag that it refuses too", operatortest.Node{"eth_getBlockByNumber finalized": `"error":{"code":-32602,"message":"invalid block"}`},
			"finality", "!invalid block"},
		{"the state of the final block is needed", operatortest.Node{"eth_getTransactionCount 0x2bc": missing},
			"finality", "!lacks the state of the final block"},
		{"without fees no payment is made", operatortest.Node{"eth_feeHistory": missing}, "fees", "!reading fees"},
		{"nor above the limit", operatortest.Node{"eth_feeHistory": `"result":{"baseFeePerGas":["0x1","0x77359400"],"reward":[["0x1"]]}`}, "fees",
			"!gas costs 2.000000001 gwei, more than MaxFeeCapGwei"},
		{"a node that answers no batch", operatortest.Node{"eth_getBlockByNumber 0x0": missing}, "batches", "!missing trie node"},
		{"decimals that differ", operatortest.Node{"eth_call 0x313ce567": operatortest.Word(18)}, "token", "!has 18 decimals"},
		{"a token that takes the arguments alone", operatortest.Node{"eth_estimateGas": `"result":"0xc350"`,
			"eth_estimateGas of 178": `"error":{"code":3,"message":"execution reverted"}`}, "memo", "!takes no payment's id"},
		{"a token that takes more", operatortest.Node{"eth_estimateGas": `"result":"0xc350"`}, "memo", "the token takes a payment's id"},
		{"a token that takes neither", nil, "memo", "not tried: "},
		{"the contract of batches", operatortest.Node{"eth_getCode": `"result":"0x6001"`}, "batch contract", "!has other code at"},
		{"another chain", operatortest.Node{"eth_chainId": `"result":"0x1"`}, "token", "!another chain: 1, ChainId is 8453"},
	} {
		good, bad := httptest.NewServer(operatortest.WellNode(nil)), httptest.NewServer(operatortest.WellNode(c.faults))
		own, _ := chains.Of(8453)
		contract, _ := token.ParseAddress(own.USDC)
		config := own.Complete(stack.Config{ChainID: 8453, Token: token.Token{Symbol: "USDC", Decimals: 6, Contract: contract}})
		found := examine(t, operatortest.Empty(t, config, good.URL, bad.URL))[c.check]
		want, finding := strings.CutPrefix(c.want, "!")
		if got := fmt.Sprint(found); found.OK == finding || !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %q", c.why, got, c.want)
		}
		good.Close()
		bad.Close()
	}
}

// TestDoctorKnowsProviders, and the rule of an unknown chain.
func TestDoctorKnowsProviders(t *testing.T) {
	config := stack.Config{ChainID: 1337, ConfirmationRule: chain.ConfirmationRule{Tag: "safe"}, BlockTime: time.Second}
	for urls, ok := range map[string]bool{
		"http://127.0.0.1:1/a http://127.0.0.1:2/a":                    true,
		"http://127.0.0.1:1/a http://127.0.0.1:1/b":                    false,
		"http://base.provider.invalid/a http://eth.provider.invalid/b": false,
		"http://base.one.invalid/a http://base.two.invalid/a":          true,
		"http://base.one.co.uk/a http://base.two.co.uk/a":              true,
	} {
		found := examine(t, operatortest.Empty(t, config, strings.Fields(urls)...))
		if found["providers"].OK != ok || !strings.Contains(found["chain"].Saw, "1337, which docs/chains.md does not have: safe") {
			t.Errorf("%s: %+v, %+v", urls, found["providers"], found["chain"])
		}
	}
}

type finding struct {
	Check, Saw, Do string
	OK             bool
}

// examine examines a stack in this process and returns its findings by check.
func examine(t *testing.T, stack *deployed.Local, args ...string) map[string]finding {
	t.Helper()
	out, failed := operatortest.Local(t.Context(), stack, append([]string{"doctor", "--json"}, args...)...)
	var findings []finding
	if err := json.Unmarshal([]byte(out), &findings); err != nil {
		t.Fatalf("%v: %s, %v", err, out, failed)
	}
	byCheck := map[string]finding{}
	for _, f := range findings {
		byCheck[f.Check] = f
	}
	return byCheck
}

// TestDoctorReadsSettings: settings that hold up payments are a finding.
func TestDoctorReadsSettings(t *testing.T) {
	payments, keys := memory.NewPayments(), new(memory.APIKeys)
	local := operatortest.Empty(t, stack.Config{})
	local.Payments, local.Keys = payments, keys
	want := func(text string) {
		t.Helper()
		if got := examine(t, local)["settings"]; !strings.Contains(got.Saw, text) {
			t.Errorf("doctor reports %q, want %q", got.Saw, text)
		}
	}
	want("payments, version 0: no settings are stored")
	must.OK(t, errors.Join(payments.SetSettings(t.Context(), settings.Default()),
		keys.SetKeySettings(t.Context(), settings.DefaultKeys(false))))
	want("payments at version 1, keys at version 1")
	must.OK(t, payments.Bind(t.Context(), store.Coin{ChainID: 5}, time.Now()))
	want("payments, version 1: the payments of these tables are of another coin: token " +
		"0x0000000000000000000000000000000000000000 on chain 5, and")
	payments.SpoilSettings(settings.ErrDamaged)
	want("payments, version 1: the stored settings are damaged")
	payments.SpoilSettings(settings.ErrNewer)
	want("need newer code")
}
