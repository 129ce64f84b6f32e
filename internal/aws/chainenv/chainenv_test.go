package chainenv_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/chainenv"
	"github.com/remit-payouts/remit/internal/aws/secrets"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/must"
)

const contract = "0x036CbD53842c5426634e7929541eC2318f3dCF7e"

// stack is an environment whose Secrets Manager answers with *secret, or with
// ResourceNotFoundException while that is empty.
func stack(t *testing.T, secret *string, vars map[string]string) *boot.Env {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		if *secret == "" {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"__type":"ResourceNotFoundException"}`)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"SecretString": *secret})
	}))
	t.Cleanup(server.Close)
	always := map[string]string{
		"AWS_ENDPOINT_URL": server.URL, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b",
		"CHAIN_ID": "84532", "MODE": "test", "NETWORK": "base-sepolia", "RPC_SECRET": "rpc", "TOKEN_SYMBOL": "USDC", "TOKEN_DECIMALS": "6",
		"TOKEN_ADDRESS": contract,
	}
	return boot.OpenWith(func(name string) string {
		if v, ok := vars[name]; ok {
			return v
		}
		return always[name]
	})
}

func TestAsset(t *testing.T) {
	address := must.Get(token.ParseAddress(contract))(t)
	usdc := token.Token{Symbol: "USDC", Decimals: 6, Contract: address}
	other := map[string]string{"CHAIN_ID": "31337", "NETWORK": "devnet", "TOKEN_SYMBOL": "EUR", "TOKEN_DECIMALS": "18"}
	none := map[string]string{"NETWORK": "", "TOKEN_SYMBOL": "", "TOKEN_DECIMALS": "", "TOKEN_ADDRESS": ""}
	for _, c := range []struct {
		why  string
		vars map[string]string
		want token.Token
		name string // of the network
		says string // the error
	}{
		{"all are set", nil, usdc, "base-sepolia", ""},
		{"none is", none, usdc, "base-sepolia", ""},
		{"another token", other, token.Token{Symbol: "EUR", Decimals: 18, Contract: address}, "devnet", ""},
		{"another token without decimals", map[string]string{"TOKEN_ADDRESS": "0x" + strings.Repeat("12", 20),
			"TOKEN_DECIMALS": ""}, token.Token{}, "", "set TokenSymbol and TokenDecimals"},
		{"no token on an unknown chain", map[string]string{"CHAIN_ID": "5", "TOKEN_ADDRESS": ""}, token.Token{}, "", "chain 5 is not known"},
		{"decimals in words", map[string]string{"TOKEN_DECIMALS": "six"}, token.Token{}, "", "TokenDecimals"},
		{"half an address", map[string]string{"TOKEN_ADDRESS": "0x1"}, token.Token{}, "", "TokenAddress"},
	} {
		env := stack(t, new(string), c.vars)
		config := boot.Config(env)
		got, name := config.Token, config.Network
		if diff := cmp.Diff(c.want, got); diff != "" || name != c.name {
			t.Errorf("%s: network %s (-want +got):\n%s", c.why, name, diff)
		}
		if err := env.Err(); (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: error %v, want %q", c.why, err, c.says)
		}
	}
}

func TestNodes(t *testing.T) {
	var secret string
	clock := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	env := stack(t, &secret, nil)
	env.Now = func() time.Time { return clock }
	provider := chainenv.Nodes(env)
	must.OK(t, env.Err())
	for _, step := range []struct {
		why, secret, want string
		err               error
	}{
		{"a secret without a value is told when it is used", "", "", secrets.ErrMissing},
		{"a secret that is no RPC secret too", `{}`, "", secrets.ErrRPC},
		{"the nodes it names", `{"urls":["https://a.example/k3y","https://b.example/"]}`, "[a.example b.example]", nil},
		{"other nodes, once it names those", `{"urls":["https://c.example"]}`, "[c.example]", nil},
		{"the same, when it names none any more", `{"urls":[]}`, "[c.example]", nil},
	} {
		secret = step.secret
		clock = clock.Add(secrets.KeepFor)
		nodes, err := provider.Nodes(t.Context())
		got := ""
		if nodes != nil {
			got = fmt.Sprint(nodes)
		}
		if got != step.want || !errors.Is(err, step.err) {
			t.Errorf("%s: got %q, %v; want %q, %v", step.why, got, err, step.want, step.err)
		}
	}
	secret = `{"urls":["http://127.0.0.1:1"]}` // where nothing listens
	for missed := range 3 {
		clock = clock.Add(secrets.KeepFor)
		nodes := must.Get(provider.Nodes(t.Context()))(t)
		if h := nodes.Health()[0]; h.Silent != (missed > 0) {
			t.Errorf("after %d requests without an answer: %+v", missed, h)
		}
		_, _ = nodes.Fees(t.Context())
	}
}

// TestL1Fee: nodes are asked for the L1 fee of chains that charge one, and of no other.
func TestL1Fee(t *testing.T) {
	for id, want := range map[string]bool{"8453": true, "84532": true, "10": true, "11155420": true, "1": false,
		"42220": false, "31337": false} {
		asked := make(chan bool, 10)
		node := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			asked <- strings.Contains(strings.ToLower(string(body)), "0x420000000000000000000000000000000000000f")
		}))
		secret := `{"urls":["` + node.URL + `"]}`
		nodes, err := chainenv.Nodes(stack(t, &secret, map[string]string{"CHAIN_ID": id})).Nodes(t.Context())
		must.OK(t, err)
		_, _ = nodes.Fees(t.Context())
		if got := <-asked; got != want {
			t.Errorf("chain %s: its GasPriceOracle was asked: %t", id, got)
		}
		node.Close()
	}
}

// TestConfig: a variable overrides the chain's own value, unless it is empty or 0.
func TestConfig(t *testing.T) {
	for why, c := range map[string]struct {
		vars map[string]string
		want string
	}{
		"the chain's own":  {nil, "safe 2s 1000000000 16"},
		"another chain's":  {map[string]string{"CHAIN_ID": "1"}, "finalized 12s 200000000000 64"},
		"all overridden":   {map[string]string{"CONFIRMATION_RULE": "4", "BLOCK_TIME": "250ms"}, "4 250ms 1000000000 16"},
		"an unknown chain": {map[string]string{"CHAIN_ID": "31337"}, "safe 2s 200000000000 64"},
		"real money":       {map[string]string{"MODE": "live", "CHAIN_ID": "31337"}, "finalized 2s 200000000000 64"},
	} {
		env := stack(t, new(string), c.vars)
		got := boot.Config(env)
		if text := fmt.Sprint(got.ConfirmationRule, got.BlockTime, got.Own.FeeLimit, got.Own.Window); env.Err() != nil || text != c.want {
			t.Errorf("%s: %s, %v; want %s", why, text, env.Err(), c.want)
		}
	}
	for mode, chainID := range map[string]string{"live": "84532", "test": "8453"} {
		if config := boot.Config(stack(t, new(string), map[string]string{"MODE": mode, "CHAIN_ID": chainID})); !config.Live {
			t.Errorf("%s on chain %s moves no real money", mode, chainID)
		}
	}
	env := stack(t, new(string), map[string]string{"CONFIRMATION_RULE": "soon", "BLOCK_TIME": "2"})
	boot.Config(env)
	for _, name := range []string{"ConfirmationRule", "BlockTime"} {
		if err := env.Err(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v does not name %s", err, name)
		}
	}
}

// TestSilentAfter: the quorum's default is the mode's, and another word stops the function.
func TestSilentAfter(t *testing.T) {
	for _, test := range []struct {
		mode, quorum string
		want         time.Duration
		ok           bool
	}{{"live", "", 0, true}, {"test", "", 5 * time.Minute, true}, {"live", "answering", 5 * time.Minute, true},
		{"test", "strict", 0, true}, {"live", "most", 0, false}} {
		env := stack(t, new(string), map[string]string{"MODE": test.mode, "QUORUM": test.quorum})
		if got := chainenv.SilentAfter(env); got != test.want || (env.Err() == nil) != test.ok {
			t.Errorf("%s %q: %v, %v; want %v, %t", test.mode, test.quorum, got, env.Err(), test.want, test.ok)
		}
	}
}
