package devnet_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
)

func TestServiceRefusesForeignHostNames(t *testing.T) {
	p := open(t, devnet.Config{})
	for host, want := range map[string]int{
		"127.0.0.1:8545": http.StatusOK,
		"localhost:8545": http.StatusOK,
		"localhost":      http.StatusOK,
		"[::1]:8545":     http.StatusOK,
		"[::1]":          http.StatusOK,
		"evil.example":   http.StatusForbidden, // its DNS may say 127.0.0.1
	} {
		body := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}`)
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL(), body))(p.t)
		r.Host = host
		r.Header.Set("Content-Type", "application/json")
		answer := must.Get(http.DefaultClient.Do(r))(p.t)
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("Host %s: %d; want %d", host, answer.StatusCode, want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestFactsAreWhatSandboxAnswers(t *testing.T) {
	p := open(t, devnet.Config{Wallets: 1})
	facts := must.Get(p.Facts(t.Context()))(p.t)
	var got, want any
	for v, text := range map[*any]string{&got: marshal(t, facts), &want: `{
		"rpc_url": "` + p.URL() + `",
		"chain_id": 1337,
		"token": {"address": "` + p.Token().Contract.String() + `", "symbol": "USDC", "decimals": 6},
		"wallets": [{
			"address": "0xC85186Ecd6f3a98d768F1f61F45d850a67817e4e",
			"token_balance": 1000000000000,
			"gas_balance": 1000000000000000000000
		}],
		"block_time_seconds": 0,
		"recipients": [
			{"address": "0x7e57000000000000000000000000000000000001", "behaviour": "revert"},
			{"address": "0x7e57000000000000000000000000000000000002", "behaviour": "stuck"},
			{"address": "0x7e57000000000000000000000000000000000003", "behaviour": "reorg"}
		]}`} {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		must.OK(p.t, d.Decode(v))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
	if text := marshal(t, p.WithPrivateKeys(facts)); !strings.Contains(text, `"private_keys":["`+p.Wallets()[0].PrivateKey()+`"]`) {
		t.Errorf("no keys although asked for: %s", text)
	}
	for _, r := range facts.Recipients {
		if _, err := token.ParseAddress(r.Address.String()); err != nil || r.Address.IsPrecompile() {
			t.Errorf("%s is no recipient: %v", r.Address, err)
		}
	}
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	b := must.Get(json.Marshal(v))(t)
	return string(b)
}
