package local_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
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

// TestTwoRails: one key pays both assets, each on its own chain, and an Idempotency-Key pays one of them.
func TestTwoRails(t *testing.T) {
	api, _ := localtest.Stack(t, "--rail=usdc", "--rail=eurc")
	facts := factsOf(t, api)
	if len(facts.Assets) != 2 || facts.Assets[0].ChainID != facts.ChainID || facts.Assets[0].Token != facts.Token ||
		facts.Assets[1].ChainID == facts.ChainID || facts.Assets[1].Token.Symbol != "EURC" ||
		facts.Assets[1].Wallets[0].Address == facts.Wallets[0].Address || facts.Assets[1].RPCURL == facts.RPCURL {
		t.Errorf("GET /sandbox shows %+v", facts)
	}
	for i, a := range facts.Assets {
		key := fmt.Sprint("inv-", i)
		body := fmt.Sprintf(`{"to":%q,"amount":5,"asset":%q}`, payee, a.Asset)
		var p remit.Payment
		answer := must.Get(api.Call(t.Context(), "POST", "/send-payment", body, "Idempotency-Key", key))(t)
		must.OK(t, json.Unmarshal(answer.Body, &p))
		p = must.Get(api.Wait(t.Context(), p.TxHash))(t)
		if p.Status != remit.PaymentStatusConfirmed || p.Asset != a.Asset || p.Token != a.Token.Symbol {
			t.Errorf("%s: %s is now %+v", a.Asset, answer.Body, p)
		}
		has := must.Get(api.Call(t.Context(), "GET", "/balance/"+payee+"?asset="+a.Asset, ""))(t)
		if !strings.Contains(string(has.Body), `"balance":5,`) {
			t.Errorf("%s: the recipient has %s", a.Asset, has.Body)
		}
		other := strings.Replace(body, a.Asset, facts.Assets[1-i].Asset, 1)
		answer = must.Get(api.Call(t.Context(), "POST", "/send-payment", other, "Idempotency-Key", key))(t)
		if answer.Status != 422 || !strings.Contains(string(answer.Body), "idempotency_key_reused") {
			t.Errorf("its key with the other asset: %d %s", answer.Status, answer.Body)
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

// TestThePageAnswers: each press of Pay gets the API's answers, the page proposes keys that it has not used, counts the
// transfers of both chains, and has a payment's own times where it was made before the page was opened.
func TestThePageAnswers(t *testing.T) {
	api, _ := localtest.Stack(t, "--rail=eurc", "--rail=usdc")
	assets := factsOf(t, api).Assets
	early := must.Get(api.Pay(t.Context(), "early", remit.Order{To: payee, Amount: "1"}))(t)
	early = must.Get(api.Wait(t.Context(), early.TxHash))(t)
	press := func(key, amount, asset string, times int) (said struct {
		Replies []struct {
			Status, N    int
			Text, Detail string
		}
		Unused string
	}) {
		t.Helper()
		order := fmt.Sprintf(`{"do":"pay","to":%q,"amount":%q,"key":%q,"asset":%q,"times":%d}`, payee, amount, key, asset, times)
		answer := must.Get(api.Call(t.Context(), "POST", "/page/do", order))(t)
		must.OK(t, json.Unmarshal(answer.Body, &said))
		return said
	}
	for i, row := range []struct {
		key, amount, asset string
		times              int
		want               string
	}{
		{"order-1", "1", assets[0].Asset, 1, "201 pending  order-2"},
		{"order-2", "1", assets[1].Asset, 1, "201 pending  order-3"},
		{"order-2", "1", assets[0].Asset, 1, "422 idempotency_key_reused This Idempotency-Key was used "},
		{"order-3", "99999999999999", assets[1].Asset, 1, "400 insufficient_funds "},
		{"order-2", "1", assets[1].Asset, 50, "201 "},
	} {
		said := press(row.key, row.amount, row.asset, row.times)
		n := 0
		for _, r := range said.Replies {
			n += r.N
			shown := fmt.Sprintf("%d %s %s %s", r.Status, r.Text, r.Detail, said.Unused)
			if !strings.HasPrefix(shown, row.want) || r.Status >= 400 && r.Detail == "" {
				t.Errorf("press %d: %s, want %s", i, shown, row.want)
			}
		}
		if n != row.times {
			t.Errorf("press %d: %d of %d are answered: %+v", i, n, row.times, said)
		}
	}
	stream := must.Get(http.Get(api.URL + "/page/events"))(t)
	defer func() { _ = stream.Body.Close() }()
	var shown struct {
		Count    struct{ Asked, Once, Twice, Unpaid int }
		Chains   []struct{ Logs int }
		Payments []struct {
			Key, Asset, Answer, Detail string
			Refusals                   int
			Begun                      int64
			At                         []int64
		}
	}
	lines := bufio.NewScanner(stream.Body)
	lines.Buffer(nil, 1<<20)
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end) && lines.Scan(); {
		text, isData := strings.CutPrefix(lines.Text(), "data: ")
		if isData {
			must.OK(t, json.Unmarshal([]byte(text), &shown))
		}
		if shown.Count.Once == 3 && len(shown.Payments) == 4 && shown.Payments[0].At[5] != 0 {
			break
		}
	}
	if shown.Count.Asked != 3 || shown.Count.Once != 3 || shown.Chains[0].Logs != 2 || shown.Chains[1].Logs != 1 {
		t.Errorf("the page counts %+v, on the chains %+v", shown.Count, shown.Chains)
	}
	for _, p := range shown.Payments {
		switch p.Key {
		case "order-2":
			if p.Asset != assets[1].Asset || p.Refusals != 1 || !strings.HasPrefix(p.Answer, "201 ") {
				t.Errorf("the page shows %+v", p)
			}
		case "order-3":
			if p.Refusals != 1 || p.Answer != "400 insufficient_funds" || p.Detail == "" {
				t.Errorf("the page shows %+v", p)
			}
		case "order-1":
		default: // the one before the page
			made, ended := time.Time(early.CreatedAt), time.Time(early.UpdatedAt)
			want := []int64{made.UnixMilli(), p.At[1], -1, -1, ended.UnixMilli(), -1}
			if p.Begun != want[0] || p.At[1] < want[0] || !slices.Equal(p.At, want) {
				t.Errorf("made %v, ended %v: the page shows %+v", made.UnixMilli(), ended.UnixMilli(), p)
			}
		}
	}
}
