package sdk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/big"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"

	"github.com/remit-payouts/remit/internal/cli/local/localtest"
	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/proof/dynamotest"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
	"github.com/remit-payouts/remit/internal/sandbox/fault"
	remit "github.com/remit-payouts/remit/sdk/go"
)

var (
	intents = flag.Int("intents", 60, "payments of each language in TestConformance")
	seed    = flag.Uint64("seed", 1, "the seed of the faults in TestConformance")
)

// A stack is a server before a chain and tables that outlive it, behind a gateway that breaks one request in three.
type stack struct {
	t       *testing.T
	log     io.Writer
	flags   []string
	server  *localtest.Process
	proxies atomic.Pointer[[]*fault.Proxy] // by mode, before the server as it runs now

	mu   sync.Mutex
	draw *rand.Rand
	made map[fault.Mode]int // requests
}

// serve starts the server.
func (s *stack) serve() {
	s.server = must.Get(localtest.Launch(context.WithoutCancel(s.t.Context()), s.log, remitPath, s.flags...))(s.t)
	target := strings.Fields(s.server.Out.Await(s.t, "API"))[1]
	s.server.Out.Await(s.t, "Ctrl-C")
	proxies := make([]*fault.Proxy, fault.Fail+1)
	for mode := range proxies {
		proxies[mode] = fault.NewProxy(target)
		proxies[mode].Set(fault.Mode(mode))
	}
	s.proxies.Store(&proxies)
}

// ServeHTTP carries a request to the server, or breaks it.
func (s *stack) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	n, mode := s.draw.IntN(100), fault.Pass
	for _, f := range []struct {
		mode    fault.Mode
		percent int
	}{{fault.Mute, 14}, {fault.Reset, 8}, {fault.Fail, 6}, {fault.Slow, 5}} {
		if n -= f.percent; n < 0 && mode == fault.Pass {
			mode = f.mode
		}
	}
	s.made[mode]++
	s.mu.Unlock()
	(*s.proxies.Load())[mode].ServeHTTP(w, r)
}

// pays is one client: its driver is killed now and then, and started again with what has no hash yet.
func pays(t *testing.T, l language, url, key, to string, n int, draw *rand.Rand) (hashes map[int]string, kills int) {
	hashes = map[int]string{}
	for round := 0; len(hashes) < n && t.Context().Err() == nil; round++ {
		if round == 50 {
			t.Errorf("%s: after 50 rounds only %d of %d payments are made", l.name, len(hashes), n)
			return hashes, kills
		}
		var words bytes.Buffer
		cmd := command(t, l, &words, l.driver...)
		in, out := must.Get(cmd.StdinPipe())(t), json.NewDecoder(must.Get(cmd.StdoutPipe())(t))
		must.OK(t, cmd.Start())
		var kill *time.Timer
		if round < 1+n/400 {
			kill = time.AfterFunc(time.Duration(2000+draw.IntN(3000))*time.Millisecond, func() { _ = cmd.Process.Kill() })
		}
		next, open := 0, 0
		call := func(name string, args ...any) {
			_ = json.NewEncoder(in).Encode(map[string]any{"id": next, "call": name, "args": args, "options": map[string]int{"timeout": 60}})
			open++
		}
		call("open", url, key)
		for open > 0 {
			for ; open < 16 && next < n; next++ {
				if intent, batch := fmt.Sprint("order-", next), []any{}; hashes[next] == "" {
					for _, amount := range amounts(next) {
						batch = append(batch, map[string]string{"to": to, "amount": amount})
					}
					if len(batch) > 1 {
						call("payMany", intent, batch)
					} else {
						call("pay", intent, to, amounts(next)[0])
					}
				}
			}
			var end struct {
				ID    int
				Value struct {
					TxHash string `json:"tx_hash"`
				}
				Error, Message string
			}
			if out.Decode(&end) != nil {
				break
			}
			if open--; end.Error != "" && end.Error != "OutcomeUnknown" {
				t.Errorf("%s: order-%d ended with %s %s", l.name, end.ID, end.Error, end.Message)
				hashes[end.ID] = end.Error
			} else if end.Value.TxHash != "" {
				hashes[end.ID] = end.Value.TxHash
			}
		}
		_ = in.Close()
		if err := cmd.Wait(); kill != nil && !kill.Stop() {
			kills++
		} else if err != nil {
			t.Errorf("%s: %v\n%s", l.name, err, words.String())
			return hashes, kills
		}
	}
	return hashes, kills
}

// amounts are what payment i pays; each tenth is a batch. No two are the same.
func amounts(i int) []string {
	if i%10 == 9 {
		return []string{fmt.Sprint(1_000_000 + i), fmt.Sprint(2_000_000 + i)}
	}
	return []string{fmt.Sprint(1_000_000 + i)}
}

// TestConformance: through lost answers, cut connections, 5xx, 429, and killed servers and clients, every intent of
// every language and every bill of an agent is paid once. The chain is the judge.
func TestConformance(t *testing.T) {
	languages := built(t)
	log := must.Get(os.Create(filepath.Join(t.TempDir(), "log")))(t)
	dynamotest.Clear(t)
	chain := must.Get(localtest.Launch(t.Context(), log, remitPath, "chain", "--chain-listen", "127.0.0.1:0", "--block-time", "250ms",
		"--wallets", "4"))(t)
	lines := must.Get(chain.Out.Until(func(line string) bool { return strings.HasPrefix(line, "}") }))(t)
	var facts devnet.Facts
	must.OK(t, json.Unmarshal([]byte(strings.Join(lines, "\n")), &facts))
	wallets := filepath.Join(t.TempDir(), "chain.json")
	must.OK(t, os.WriteFile(wallets, []byte(strings.Join(lines, "\n")), 0o600))
	draw := rand.New(rand.NewPCG(*seed, 0))
	s := &stack{t: t, log: log, draw: rand.New(rand.NewPCG(*seed, 1)), made: map[fault.Mode]int{}}
	s.flags = []string{"local", "--listen", "127.0.0.1:0", "--token", facts.Token.Address.String(), "--block-time", "250ms",
		"--key-creation", "public", "--dynamodb", dynamotest.Start(t), "--rpc", facts.RPCURL, "--wallet-file", wallets, "--batch-contract",
		disburser.Address().String(), "--no-page"}
	s.serve()
	t.Cleanup(func() { s.server.Kill() })
	gateway := httptest.NewServer(s)
	t.Cleanup(gateway.Close)

	var clients sync.WaitGroup
	payee := func(i int) common.Address { return common.BigToAddress(big.NewInt(int64(0x5d0000 + i))) }
	for i, l := range languages {
		key := localtest.Join(t, &remit.Client{URL: "http://" + (*s.proxies.Load())[0].Target}, l.name).Key
		own := rand.New(rand.NewPCG(*seed, uint64(2+i)))
		clients.Go(func() {
			begin := time.Now()
			hashes, kills := pays(t, l, gateway.URL, key, payee(i).Hex(), *intents, own)
			t.Logf("%s: %d intents have a hash after %.0f s; its process was killed %d times", l.name, len(hashes),
				time.Since(begin).Seconds(), kills)
		})
	}
	var bots []*agent
	limit := *intents / 2 * 9 / 10
	owner := localtest.Join(t, &remit.Client{URL: "http://" + (*s.proxies.Load())[0].Target}, "agents")
	key := agentKey(t, owner, limit)
	clients.Go(func() { bots = agents(t, *intents/2, gateway.URL, key) })
	done, kills := make(chan struct{}), 0
	go func() { clients.Wait(); close(done) }()
	for paying := true; paying; {
		select {
		case <-time.After(time.Duration(3000+draw.IntN(6000)) * time.Millisecond):
			if kills < 2+*intents/50 {
				s.server.Kill()
				kills++
				s.serve()
			}
		case <-done:
			paying = false
		}
	}
	t.Logf("seed %d: the server was killed %d times; of the requests, %v", *seed, kills, s.made)
	node := must.Get(ethclient.DialContext(t.Context(), facts.RPCURL))(t)
	told := 0
	for _, a := range bots {
		told += len(a.hashes)
	}
	judgeAgents(t, bots, limit, judge(t, node, common.Address(facts.Token.Address), languages, payee, told))
}

// judge counts the transfers on the chain until every payment is mined, and then no more for two seconds. It returns
// the count of each recipient and amount.
func judge(t *testing.T, node *ethclient.Client, token common.Address, languages []language, payee func(i int) common.Address,
	more int) (found map[string]int) {
	var logs, before int
	found = map[string]int{}
	for calm, end := 0, time.Now().Add(2*time.Minute); calm < 20; time.Sleep(100 * time.Millisecond) {
		all, err := node.FilterLogs(t.Context(), ethereum.FilterQuery{FromBlock: new(big.Int), Addresses: []common.Address{token},
			Topics: [][]common.Hash{{crypto.Keccak256Hash([]byte("Transfer(address,address,uint256)"))}}})
		must.OK(t, err)
		clear(found)
		for _, l := range all {
			found[fmt.Sprint(common.HexToAddress(l.Topics[2].Hex()), " ", new(big.Int).SetBytes(l.Data))]++
		}
		before, logs = logs, len(all)
		if calm++; logs != before || time.Now().Before(end) && logs < *intents*len(languages)*11/10+more {
			calm = 0
		}
	}
	for i, l := range languages {
		once := 0
		for n := range *intents {
			for _, amount := range amounts(n) {
				if times := found[fmt.Sprint(payee(i), " ", amount)]; times == 1 {
					once++
				} else {
					t.Errorf("%s: order-%d paid %s %d times", l.name, n, amount, times)
				}
			}
		}
		t.Logf("%s: the chain has %d transfers once", l.name, once)
	}
	return found
}
