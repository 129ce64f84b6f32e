package operator_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/stack"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/operatortest"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
)

// TestAllowanceIsForTheContractAlone: none is given unless each node has the contract's
// code. An allowance is ended all the same.
func TestAllowanceIsForTheContractAlone(t *testing.T) {
	ours := fmt.Sprintf(`"result":"0x%x"`, disburser.Code())
	deployer := fmt.Sprintf(`"result":"0x%x"`, disburser.DeployerCode())
	own := disburser.Address().String()
	at := func(code string) operatortest.Node {
		return operatortest.Node{"eth_getCode " + own: code, "eth_call 0xdd62ed3e": operatortest.Word(5)}
	}
	const approve, deploy = "batch approve --yes --key a 0x1111111111111111111111111111111111111111 --amount ",
		"batch deploy --yes --key a 0x1111111111111111111111111111111111111111"
	const passed = "no key for wallet 0x1111111111111111111111111111111111111111"
	for _, c := range []struct {
		why, line     string
		first, second operatortest.Node
		want          string
	}{
		{"both have it", approve + "5", at(ours), at(ours), passed},
		{"any amount too", approve + "unlimited", at(ours), at(ours), passed},
		{"one has another contract there", approve + "5", at(ours), at(`"result":"0x6001"`), "has other code at " + own},
		{"one does not say what is allowed", approve + "0", at(ours), operatortest.Node{"eth_call": `"error":{"code":-32000,"message":"header not found"}`},
			"header not found"},
		{"one does not say", approve + "5", at(ours), at(`"error":{"code":-32000,"message":"missing trie node"}`), "missing trie node"},
		{"one is behind", approve + "5", at(ours), at(`"result":"0x"`), "nodes disagree"},
		{"neither has it", approve + "5", at(`"result":"0x"`), at(`"result":"0x"`),
			"run remit batch deploy first, since nothing was approved"},
		{"an allowance is ended whatever is there", approve + "0", at(`"result":"0x6001"`), at(`"result":"0x"`), passed},
		{"an amount that is none", approve + "much", at(ours), at(ours), "use whole tokens above zero"},
		{"it is made once", deploy, at(ours), at(ours), "settings set BatchContract=" + own},
		{"never in place of another", deploy, at(ours), at(`"result":"0x6001"`), "has other code at"},
		{"nor without its deployer", deploy, at(`"result":"0x"`), at(`"result":"0x"`), "the deterministic deployer is not on this chain"},
		{"nor with another in its place", deploy, operatortest.Node{"eth_getCode": `"result":"0x6001"`, "eth_getCode " + own: `"result":"0x"`},
			at(`"result":"0x"`), "has other code at"},
		{"with it by a wallet", deploy, operatortest.Node{"eth_getCode": deployer, "eth_getCode " + own: `"result":"0x"`},
			operatortest.Node{"eth_getCode": deployer, "eth_getCode " + own: `"result":"0x"`}, passed},
	} {
		one, two := httptest.NewServer(operatortest.WellNode(c.first)), httptest.NewServer(operatortest.WellNode(c.second))
		config := stack.Config{ChainID: 8453, Token: token.Token{Symbol: "USDC", Decimals: 6}}
		out, err := operatortest.Local(t.Context(), operatortest.Empty(t, config, one.URL, two.URL), strings.Fields(c.line)...)
		if !strings.Contains(fmt.Sprint(out, err), c.want) {
			t.Errorf("%s: %s, %v, want %q", c.why, out, err, c.want)
		}
		one.Close()
		two.Close()
	}
}

// TestBatchCall gives an allowance: the command's output before it and after each outcome.
func TestBatchCall(t *testing.T) {
	onChain(t, devnet.Config{}, func(t *testing.T, e *embedded) {
		const approve = "batch approve W --amount 5 --yes --key "
		must.OK(t, e.settle(t.Context()))
		e.want("the contract is there", "batch deploy W --key a", "The contract is there, on every node")
		e.want("no key", approve[:len(approve)-1]+"=", "^--key is empty")
		e.want("no such wallet", "batch approve O --amount 5 --key a", "^payment rail unavailable: no key for wallet O")
		e.fail("Rules", true)
		e.want("no rules", approve+"a", "^store is down")
		e.mend()
		e.want("what it means", "batch approve W --amount unlimited --key a", `add --yesThis lets \S+ take any amount of USDC from W, when this wallet `+
			`asks it to. Now it may take any amount of USDC.\nW pays a fee of at most \S+ ether.\nNothing more is done if this is given again with --key a.$`)
		e.Hint = noRun
		e.want("no end", approve+"a", `^no run \(run the command again with the same --key to see the outcome\)`)
		e.mend()
		for range 2 {
			e.want("an end", approve+"a", `^confirmed 0x\S+\nremit doctor shows what the chain has.\n$`)
		}
		e.want("was done", "batch approve W --amount 6 --key b", "Now it may take 5 USDC")

		e.Hint = e.soon
		e.want("no receipt yet", approve+"f", "^pending 0x")
		p := must.Get(e.tables.Payment(t.Context(), payment.KeyID(payment.Operator, "test", "f")))(t)
		must.OK(t, e.tables.Finish(t.Context(), must.Get(p.Fail(payment.ExecutionReverted, chain.Receipt{Tx: p.TxHash}, time.Now()))(t)))
		e.want("a failure", approve+"f", `^failed 0x\S+: [^\n]+\nGive the command with another --key to try again.\n$`)

		e.asked = func() { e.Nodes = nil }
		e.want("no nodes any more", "batch approve W --amount 0 --key g", "RPC secret")
	})
}
