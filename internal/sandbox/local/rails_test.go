package local_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/proof/dynamotest"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
	"github.com/remit-payouts/remit/internal/sandbox/local/localtest"
	remit "github.com/remit-payouts/remit/sdk/go"
)

const payee = "0x2222222222222222222222222222222222222222"

// TestRailsOfKeptTables: the first rail is the default for ever, and no rail of the tables is left out.
func TestRailsOfKeptTables(t *testing.T) {
	dynamotest.Clear(t)
	dynamodb := "--dynamodb=" + dynamotest.Start(t)
	for _, flags := range [][]string{{"--rail=eurc,usdc", "--fresh"}, {"--rail=usdc,eurc"}} {
		t.Run(flags[0], func(t *testing.T) {
			api, _ := localtest.Stack(t, append(flags, dynamodb)...)
			if facts := factsOf(t, api); facts.Token.Symbol != "EURC" || facts.Assets[1].Token.Symbol != "USDC" ||
				facts.Assets[1].ChainID == facts.ChainID || facts.Assets[1].RPCURL == facts.RPCURL {
				t.Errorf("the assets are %+v", facts.Assets)
			}
		})
	}
	err := start(t, "--listen=127.0.0.1:0", "--chain-listen=127.0.0.1:0", "--rail=usdc", dynamodb)
	if err == nil || !strings.Contains(err.Error(), "start it as well") {
		t.Errorf("without the tables' first rail: %v", err)
	}
}

func factsOf(t *testing.T, api *remit.Client) (facts devnet.Facts) {
	t.Helper()
	answer := must.Get(api.Call(t.Context(), "GET", "/sandbox", ""))(t)
	must.OK(t, json.Unmarshal(answer.Body, &facts))
	return facts
}
