package operator_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/stack"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/operatortest"
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
