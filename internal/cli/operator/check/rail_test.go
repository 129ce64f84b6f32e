package check_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/deployment/chains"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/operatortest"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

// TestDoctorAsksEveryNode: the second of two nodes has the fault, which no other check sees.
func TestDoctorAsksEveryNode(t *testing.T) {
	words := map[string]string{"missing": `"error":{"code":-32000,"message":"missing trie node"}`,
		"another block": operatortest.Block("2"), "eighteen": operatortest.Word(18)}
	own, _ := chains.Of(8453)
	contract := must.Get(token.ParseAddress(own.USDC))(t)
	config := own.Complete(stack.Config{ChainID: 8453, Token: token.Token{Symbol: "USDC", Decimals: 6, Contract: contract}})
	tabletest.Run(t, words, func(t *testing.T, c tabletest.Case) {
		faults := operatortest.Node{}
		for answer := range strings.SplitSeq(c.In[0], " & ") {
			method, text, _ := strings.Cut(answer, " = ")
			faults[method] = text
		}
		good, bad := httptest.NewServer(operatortest.WellNode(nil)), httptest.NewServer(operatortest.WellNode(faults))
		defer good.Close()
		defer bad.Close()
		found := examine(t, operatortest.Empty(t, config, good.URL, bad.URL))[c.In[1]]
		want, finding := strings.CutPrefix(c.Want, "!")
		if got := fmt.Sprint(found); found.OK == finding || !strings.Contains(got, want) {
			t.Errorf("%s, want %q", got, c.Want)
		}
	})
}

func TestDoctorKnowsProviders(t *testing.T) {
	for urls, ok := range map[string]bool{
		"http://127.0.0.1:1/a http://127.0.0.1:2/a":                    true,
		"http://127.0.0.1:1/a http://127.0.0.1:1/b":                    false,
		"http://base.provider.invalid/a http://eth.provider.invalid/b": false,
		"http://base.one.invalid/a http://base.two.invalid/a":          true,
		"http://base.one.co.uk/a http://base.two.co.uk/a":              true,
	} {
		found := examine(t, operatortest.Empty(t, stack.Config{ChainID: 1337}, strings.Fields(urls)...))
		if found["providers"].OK != ok {
			t.Errorf("%s: %+v", urls, found["providers"])
		}
	}
}

// TestDoctorFindsABadURL, and names its chain.
func TestDoctorFindsABadURL(t *testing.T) {
	found := examine(t, operatortest.Empty(t, stack.Config{ChainID: 1337}, "http://127.0.0.1:1", "k3y"))["nodes agree"]
	if found.OK || !strings.Contains(found.Saw, "urls[1] of chain 1337") || strings.Contains(found.Saw, "k3y") {
		t.Errorf("%+v", found)
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
