package local_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/proof/dynamotest"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
	"github.com/remit-payouts/remit/internal/sandbox/local"
	"github.com/remit-payouts/remit/internal/sandbox/local/localtest"
	remit "github.com/remit-payouts/remit/sdk/go"
)

const payee = "0x2222222222222222222222222222222222222222"

// TestTwoRails: one key pays both assets, each on its own chain. A payment that stays pending, which keeps a run of its
// own rail busy for 50 s, holds up no other rail.
func TestTwoRails(t *testing.T) {
	api, _ := localtest.Stack(t, "--rail=usdc", "--rail=eurc")
	facts := factsOf(t, api)
	if len(facts.Assets) != 2 || facts.Assets[0].ChainID != facts.ChainID || facts.Assets[0].Token != facts.Token ||
		facts.Assets[1].ChainID == facts.ChainID || facts.Assets[1].Token.Symbol != "EURC" ||
		facts.Assets[1].Wallets[0].Address == facts.Wallets[0].Address || facts.Assets[1].RPCURL == facts.RPCURL {
		t.Errorf("GET /sandbox shows %+v", facts)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Second)
	defer cancel()
	must.Get(api.Call(ctx, "POST", "/send-payment", fmt.Sprintf(`{"to":%q,"amount":5}`, devnet.StuckRecipient)))(t)
	for _, a := range facts.Assets {
		body := fmt.Sprintf(`{"to":%q,"amount":5,"asset":%q}`, payee, a.Asset)
		var p remit.Payment
		answer := must.Get(api.Call(t.Context(), "POST", "/send-payment", body))(t)
		must.OK(t, json.Unmarshal(answer.Body, &p))
		p = must.Get(api.Wait(ctx, p.TxHash))(t)
		if p.Status != remit.PaymentStatusConfirmed || p.Asset != a.Asset || p.Token != a.Token.Symbol {
			t.Errorf("%s: %s is now %+v", a.Asset, answer.Body, p)
		}
		has := must.Get(api.Call(t.Context(), "GET", "/balance/"+payee+"?asset="+a.Asset, ""))(t)
		if !strings.Contains(string(has.Body), `"balance":5,`) {
			t.Errorf("%s: the recipient has %s", a.Asset, has.Body)
		}
	}
}

// TestRailsOfKeptTables: the first rail is the default for ever, and no rail of the tables is left out.
func TestRailsOfKeptTables(t *testing.T) {
	dynamotest.Clear(t)
	dynamodb := "--dynamodb=" + dynamotest.Start(t)
	for _, flags := range [][]string{{"--rail=eurc,usdc", "--fresh"}, {"--rail=usdc,eurc"}} {
		t.Run(flags[0], func(t *testing.T) {
			api, _ := localtest.Stack(t, append(flags, dynamodb)...)
			if facts := factsOf(t, api); facts.Token.Symbol != "EURC" || facts.Assets[1].Token.Symbol != "USDC" {
				t.Errorf("the assets are %+v", facts.Assets)
			}
		})
	}
	var one local.Command
	must.OK(t, localtest.Parse(&one, "--listen=127.0.0.1:0", "--chain-listen=127.0.0.1:0", "--rail=usdc", dynamodb))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // if it starts
	defer cancel()
	if err := one.Run(ctx, io.Discard); err == nil || !strings.Contains(err.Error(), "start it as well") {
		t.Errorf("without the tables' first rail: %v", err)
	}
}

func factsOf(t *testing.T, api *remit.Client) (facts devnet.Facts) {
	t.Helper()
	answer := must.Get(api.Call(t.Context(), "GET", "/sandbox", ""))(t)
	must.OK(t, json.Unmarshal(answer.Body, &facts))
	return facts
}
