package devnet_test

import (
	"encoding/json"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
)

// TestServiceAnswers calls methods that other tools use; package ethrpc's tests call
// those of Remit.
func TestServiceAnswers(t *testing.T) {
	p := open(t, devnet.Config{})
	for _, row := range []struct {
		method string
		args   []any
		want   string // empty: anything but an error or null
	}{
		{"net_version", nil, `"1337"`},
		{"web3_clientVersion", nil, `"remit-devnet/1"`},
		{"eth_getTransactionCount", []any{p.Wallets()[0].Address.String(), "finalized"}, `"0x0"`},
		{"eth_getTransactionReceipt", []any{common.Hash{1}}, `null`},
		{"eth_gasPrice", nil, ""},
		{"eth_getBlockByHash", []any{p.Head().Hash.String(), false}, ""},
	} {
		var got json.RawMessage
		if err := p.client.Client().CallContext(t.Context(), &got, row.method, row.args...); err != nil {
			t.Errorf("%s%v: %v", row.method, row.args, err)
		} else if row.want != "" && string(got) != row.want || row.want == "" && string(got) == "null" {
			t.Errorf("%s%v = %s; want %s", row.method, row.args, got, row.want)
		}
	}
	for _, method := range []string{"admin_startHTTP", "debug_setHead", "miner_setExtra", "engine_newPayloadV3"} {
		if err := p.client.Client().CallContext(t.Context(), nil, method); err == nil || !strings.Contains(err.Error(), "does not exist") {
			t.Errorf("%s: %v; want no such method", method, err)
		}
	}
}

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

func TestCloseLeavesNoGoroutine(t *testing.T) {
	open(t, devnet.Config{}) // starts the goroutines that go-ethereum keeps for the life of the process
	before := goroutines()
	c, err := devnet.Start(t.Context(), devnet.Config{Listen: "127.0.0.1:0", BlockTime: 10 * time.Millisecond, Now: time.Now})
	must.OK(t, err)
	must.OK(t, c.Close())
	// One that has done its last statement may still be counted.
	for tries := 0; len(goroutines()) > len(before); tries++ {
		if tries == 20_000 {
			t.Fatalf("%d goroutines before, %d after:\n%s", len(before), len(goroutines()), strings.Join(goroutines(), "\n\n"))
		}
		time.Sleep(time.Millisecond)
	}
}

// goroutines returns the stacks of all goroutines, except the ones that go-ethereum's node database
// leaves behind for a second.
func goroutines() []string {
	buf := make([]byte, 4<<20)
	var stacks []string
	for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if !strings.Contains(stack, "mpoolDrain") {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}
