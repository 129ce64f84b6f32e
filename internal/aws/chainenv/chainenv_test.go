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

	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/chainenv"
	"github.com/remit-payouts/remit/internal/aws/secrets"
	deployment "github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/proof/must"
)

func rail(chainID uint64) deployment.Config { return deployment.Config{ChainID: chainID} }

// stack is an environment whose Secrets Manager answers with *secret, or ResourceNotFoundException while that is empty.
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
		"AWS_ENDPOINT_URL": server.URL, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "a",
		"AWS_SECRET_ACCESS_KEY": "b", "RPC_SECRET": "rpc",
	}
	return boot.OpenWith(func(name string) string {
		if v, ok := vars[name]; ok {
			return v
		}
		return always[name]
	})
}

// TestNodes: the nodes of a secret that is read again and again are the same, and know the requests that they missed.
func TestNodes(t *testing.T) {
	secret := `{"84532":{"urls":["http://127.0.0.1:1"]}}` // where nothing listens
	clock := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	env := stack(t, &secret, nil)
	env.Now = func() time.Time { return clock }
	provider := chainenv.Open(env).Of(rail(84532))
	must.OK(t, env.Err())
	for missed := range 3 {
		clock = clock.Add(secrets.KeepFor)
		nodes := must.Get(provider.Nodes(t.Context()))(t)
		if h := nodes.Health()[0]; h.Silent != (missed > 0) {
			t.Errorf("after %d requests without an answer: %+v", missed, h)
		}
		_, _ = nodes.Fees(t.Context())
	}
}

// TestNodesByChain: each rail has the nodes of its chain, soon after they are stored.
func TestNodesByChain(t *testing.T) {
	secret := `{"84532":{"urls":["https://first.example"]},"137":{"urls":["https://polygon.example"]},"note":"x"}`
	env, clock := stack(t, &secret, nil), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	env.Now = func() time.Time { return clock }
	nodes := chainenv.Open(env)
	for _, c := range []struct {
		chain uint64
		want  string
	}{{84532, "[first.example]"}, {137, "[polygon.example]"}, {1, ""}} {
		got, err := nodes.Of(rail(c.chain)).Nodes(t.Context())
		if (err == nil) != (c.want != "") || err == nil && fmt.Sprint(got) != c.want || err != nil && !errors.Is(err, chain.ErrNoNodes) {
			t.Errorf("chain %d: %v, %v; want %s", c.chain, got, err, c.want)
		}
	}
	if all, err := nodes.Chains(t.Context()); err != nil || fmt.Sprint(all) != "[137 84532]" {
		t.Errorf("chains %v, %v", all, err)
	}
	secret, clock = `{"1":{"urls":["https://added.example"]}}`, clock.Add(secrets.RetryAfter)
	if got, err := nodes.Of(rail(137)).Nodes(t.Context()); err != nil || fmt.Sprint(got) != "[polygon.example]" {
		t.Errorf("nodes are known, and read again: %v, %v", got, err)
	}
	got, err := nodes.Of(rail(1)).Nodes(t.Context())
	if err != nil || fmt.Sprint(got) != "[added.example]" {
		t.Errorf("nodes that were stored since: %v, %v", got, err)
	}
}

// TestABadEntry: a chain without nodes, or with a bad URL, fails alone, and its error names it and quotes nothing.
func TestABadEntry(t *testing.T) {
	secret := `{"84532":{"urls":["https://%zz/k3y"]},"10":{"urls":[]},"137":{"urls":["https://a.example","k3y"]},"8":["https://k3y"],` +
		`"1":{"urls":["https://good.example"]}}`
	nodes := chainenv.Open(stack(t, &secret, nil))
	for _, c := range []struct {
		chain uint64
		err   error
	}{{1, nil}, {10, chain.ErrNoNodes}, {137, ethrpc.ErrURL}, {8, ethrpc.ErrURL}, {84532, ethrpc.ErrURL}} {
		_, err := nodes.Of(rail(c.chain)).Nodes(t.Context())
		if text := fmt.Sprint(err); !errors.Is(err, c.err) || err != nil && !strings.Contains(text, fmt.Sprintf("of chain %d", c.chain)) ||
			strings.Contains(text, "k3y") {
			t.Errorf("chain %d: %v, want %v", c.chain, err, c.err)
		}
	}
	if all, err := nodes.Chains(t.Context()); err != nil || fmt.Sprint(all) != "[1 8 10 137 84532]" {
		t.Errorf("chains of the secret: %v, %v", all, err)
	}
}

// TestL1Fee: nodes are asked for the L1 fee of chains that charge one, and of no other.
func TestL1Fee(t *testing.T) {
	for id, want := range map[uint64]bool{8453: true, 84532: true, 10: true, 11155420: true, 1: false, 42220: false, 31337: false} {
		asked := make(chan bool, 10)
		node := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			asked <- strings.Contains(strings.ToLower(string(body)), "0x420000000000000000000000000000000000000f")
		}))
		secret := fmt.Sprintf(`{"%d":{"urls":["%s"]}}`, id, node.URL)
		nodes := must.Get(chainenv.Open(stack(t, &secret, nil)).Of(rail(id)).Nodes(t.Context()))(t)
		_, _ = nodes.Fees(t.Context())
		if got := <-asked; got != want {
			t.Errorf("chain %d: its GasPriceOracle was asked: %t", id, got)
		}
		node.Close()
	}
}
