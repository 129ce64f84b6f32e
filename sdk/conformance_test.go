package sdk_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/disburser/install"
	"github.com/remit-payouts/remit/internal/proof/dynamotest"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
	"github.com/remit-payouts/remit/internal/sandbox/fault"
	"github.com/remit-payouts/remit/internal/sandbox/local/localtest"
	remit "github.com/remit-payouts/remit/sdk/go"
)

var (
	intents = flag.Int("intents", 60, "payments of each language in TestConformance")
	seed    = flag.Uint64("seed", 1, "the seed of the faults in TestConformance")
)

// A gateway breaks one request in three.
type gateway struct {
	mu      sync.Mutex
	proxies [fault.Fail + 1]*fault.Proxy // by mode, before the server as it runs now
	draw    *rand.Rand
	made    map[string]int // requests, by the name of the fault
	held    map[string]int // POSTs of the intents to hold, by Idempotency-Key
	holds   sync.WaitGroup // until all bytes have arrived
}

// holdFor are how long the gateway holds bytes: until a client asks about them, and until it knows.
var holdFor = []time.Duration{50 * time.Second, 90 * time.Second}

// hold holds the bytes of an intent's first POST and resets the client's connection. It refuses later ones, as a service
// without funds does, and reports false for those that are too late to begin anything, and for other intents.
func (g *gateway) hold(w http.ResponseWriter, r *http.Request) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	key := r.Header.Get("Idempotency-Key")
	posts, held := g.held[key]
	notAfter, _ := strconv.ParseInt(r.Header.Get("Remit-Not-After"), 10, 64)
	if !held || notAfter > 0 && notAfter < time.Now().Unix() {
		return false
	}
	if g.held[key]++; posts > 0 {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"detail":"No funds.","code":"insufficient_funds"}`)
		return true
	}
	body, _ := io.ReadAll(r.Body)
	path, header, longer := r.URL.Path, r.Header.Clone(), holdFor[len(body)%len(holdFor)]
	g.holds.Go(func() {
		time.Sleep(longer)
		for arrived := false; !arrived; time.Sleep(100 * time.Millisecond) { // until a server runs
			g.mu.Lock()
			server := g.proxies[fault.Pass]
			g.mu.Unlock()
			late, answer := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body)), httptest.NewRecorder()
			late.RequestURI, late.Header = "", header
			server.ServeHTTP(answer, late)
			arrived = answer.Body.Len() > 0
		}
	})
	panic(http.ErrAbortHandler)
}

// before puts the gateway before a server.
func (g *gateway) before(url string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for mode := range g.proxies {
		g.proxies[mode] = fault.NewProxy(url)
		g.proxies[mode].Set(fault.Mode(mode))
	}
}

// breaks are the gateway's faults, in percent of requests. A status is an answer of its own.
var breaks = []struct {
	percent int
	name    string
	mode    fault.Mode
	status  int
	body    string
}{
	{12, "answers lost", fault.Mute, 0, ""},
	{6, "connections cut before the request", fault.Reset, 0, ""},
	{4, "500", fault.Fail, 0, ""},
	{4, "late", fault.Slow, 0, ""},
	{4, "429", fault.Pass, 429, `{"detail":"Too many requests","code":"too_many_requests"}`},
	{3, "502 without JSON", fault.Pass, 502, "<html>bad gateway"},
	{67, "carried", fault.Pass, 0, ""},
}

// ServeHTTP carries a request to the server, or breaks it.
func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.hold(w, r) {
		return
	}
	g.mu.Lock()
	n, i := g.draw.IntN(100)-breaks[0].percent, 0
	for ; n >= 0; n -= breaks[i].percent {
		i++
	}
	do := breaks[i]
	g.made[do.name]++
	proxy := g.proxies[do.mode]
	g.mu.Unlock()
	if do.status == 0 {
		proxy.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(do.status)
	_, _ = io.WriteString(w, do.body)
}

// pays is one client: its driver is killed now and then, and started again with the intents that have no hash yet.
func pays(t *testing.T, l language, url, key, to string, draw *rand.Rand) {
	hashes, kills, begin := map[int]string{}, 0, time.Now()
	for round := 0; len(hashes) < *intents && t.Context().Err() == nil; round++ {
		cmd := command(t, l, t.Output(), l.driver...)
		in, out := must.Get(cmd.StdinPipe())(t), json.NewDecoder(must.Get(cmd.StdoutPipe())(t))
		must.OK(t, cmd.Start())
		kill := time.AfterFunc(time.Duration(2000+draw.IntN(3000))*time.Millisecond, func() { _ = cmd.Process.Kill() })
		killed := round < 1+*intents/400 || !kill.Stop()
		next, open := 0, 0
		ask := func(call, asset string, args ...any) {
			options := map[string]any{"timeout": 60}
			if call != "open" {
				options["asset"] = asset
			}
			_ = json.NewEncoder(in).Encode(map[string]any{"id": next, "call": call, "args": args, "options": options})
			open++
		}
		ask("open", "", url, key)
		for open > 0 {
			var end struct {
				ID             int
				Value          map[string]any
				Error, Message string
			}
			if out.Decode(&end) != nil {
				break
			}
			if hash, paid := end.Value["tx_hash"].(string); paid {
				hashes[end.ID] = hash
			} else if end.Error != "" && end.Error != "OutcomeUnknown" {
				t.Errorf("%s: order-%d ended with %s %s", l.name, end.ID, end.Error, end.Message)
				hashes[end.ID] = end.Error
			}
			open--
			for ; open < 16 && next < *intents; next++ {
				switch batch := payments(next, to); {
				case hashes[next] != "":
				case len(batch) == 1:
					ask("pay", assetOf(next), fmt.Sprint("order-", next), to, batch[0]["amount"])
				default:
					ask("payMany", assetOf(next), fmt.Sprint("order-", next), batch)
				}
			}
		}
		_ = in.Close()
		if err := cmd.Wait(); killed && !kill.Stop() {
			kills++
		} else if err != nil {
			t.Errorf("%s: %v", l.name, err)
			return
		}
	}
	t.Logf("%s: %d intents have a hash after %.0f s; its driver was killed %d times", l.name, len(hashes), time.Since(begin).Seconds(), kills)
}

// settles is a client that asks for the intents which the gateway holds, until each is settled: none may be paid. Amounts
// of 7 and 8 digits have different holds.
func settles(t *testing.T, l language, url, key, to string) {
	cmd := command(t, l, t.Output(), l.driver...)
	in, out := must.Get(cmd.StdinPipe())(t), json.NewDecoder(must.Get(cmd.StdoutPipe())(t))
	must.OK(t, cmd.Start())
	ask := func(id int, call string, args ...any) {
		options := map[string]any{"timeout": 200}
		if call == "pay" {
			options["settle"], options["asset"] = true, map[bool]string{true: eurc}[l.name == "python"]
		}
		_ = json.NewEncoder(in).Encode(map[string]any{"id": id, "call": call, "args": args, "options": options})
	}
	ask(-1, "open", url, key)
	for n := range holds() + 1 {
		var end struct{ Error, Message string }
		if must.OK(t, out.Decode(&end)); n > 0 && end.Error != "Refused insufficient_funds settled" {
			t.Errorf("%s: an intent that is held ended with %q %s", l.name, end.Error, end.Message)
		}
		for i := range holds() {
			if n == 0 {
				ask(i, "pay", held(l, i), to, fmt.Sprint(3_000_000+i+i%2*10_000_000))
			}
		}
	}
	_ = in.Close()
	must.OK(t, cmd.Wait())
}

// holds is how many intents of each language the gateway holds.
func holds() int { return max(2, *intents/20) }

func held(l language, i int) string { return fmt.Sprint("held-", l.name, "-", i) }

// payments are the payments of intent i; each tenth is a batch. No two are the same.
func payments(i int, to string) []map[string]string {
	return []map[string]string{{"to": to, "amount": fmt.Sprint(1_000_000 + i)}, {"to": to, "amount": fmt.Sprint(2_000_000 + i)}}[:1+i%10/9]
}

// eurc is the asset of each third intent; the others name none.
var eurc string

func assetOf(i int) string { return map[bool]string{true: eurc}[i%3 == 2] }

// TestConformance: through lost and late answers, cut connections, 5xx, 429, and killed servers and clients, every intent of
// every language is paid once, on the chain of its asset, and none is paid that was refused and settled, though a network
// held its bytes. The chains are the judge.
func TestConformance(t *testing.T) {
	t.Parallel()
	languages := built(t)
	dynamotest.Clear(t)
	config := devnet.Config{Listen: "127.0.0.1:0", BlockTime: 250 * time.Millisecond, Now: time.Now,
		Log: slog.New(slog.DiscardHandler)}
	var on []*devnet.Chain
	var tokens, urls, wallets []string
	for i, config := range []devnet.Config{config, config.EURC()} {
		chain := must.Get(devnet.Start(t.Context(), config))(t)
		t.Cleanup(func() { _ = chain.Close() })
		on, tokens, urls = append(on, chain), append(tokens, chain.Token().Contract.String()), append(urls, chain.URL())
		wallets = append(wallets, filepath.Join(t.TempDir(), fmt.Sprint("wallets", i)))
		must.OK(t, os.WriteFile(wallets[i], must.Get(json.Marshal(must.Get(chain.Facts(t.Context()))(t)))(t), 0o600))
	}
	eurc = "eip155:1338/erc20:" + tokens[1]
	draw := rand.New(rand.NewPCG(*seed, 0))
	flags := []string{"--token", strings.Join(tokens, ","), "--key-creation", "public", "--dynamodb", dynamotest.Start(t),
		"--rpc", strings.Join(urls, ","), "--wallet-file", strings.Join(wallets, ","),
		"--batch-contract", install.Address().String(), "--no-page"}
	server, merchant := localtest.Local(t, io.Discard, remitPath, flags...)
	g := &gateway{draw: rand.New(rand.NewPCG(*seed, 1)), made: map[string]int{}, held: map[string]int{}}
	for _, l := range languages {
		for i := range holds() {
			g.held[must.Get(remit.Key(held(l, i)))(t)] = 0
		}
	}
	g.before(merchant.URL)
	front := httptest.NewServer(g)
	t.Cleanup(front.Close)

	var clients sync.WaitGroup
	want := map[string]int{} // transfers, by recipient, amount and token
	for i, l := range languages {
		key, own := localtest.Join(t, merchant, l.name).Key, rand.New(rand.NewPCG(*seed, uint64(2+i)))
		to := fmt.Sprintf("0x%040x", 0x5d0000+i)
		clients.Go(func() { pays(t, l, front.URL, key, to, own) })
		clients.Go(func() { settles(t, l, front.URL, key, to) })
		for n := range *intents {
			for _, p := range payments(n, to) {
				want[p["to"]+" "+p["amount"]+map[bool]string{true: " USDC", false: " EURC"}[assetOf(n) == ""]] = 1
			}
		}
	}
	done, kills := make(chan struct{}), 0
	go func() { clients.Wait(); close(done) }()
	for paying := true; paying && kills < 2+*intents/50; {
		select {
		case <-time.After(time.Duration(3000+draw.IntN(6000)) * time.Millisecond):
			server.Kill()
			server, merchant = localtest.Local(t, io.Discard, remitPath, flags...)
			g.before(merchant.URL)
			kills++
		case <-done:
			paying = false
		}
	}
	<-done
	g.holds.Wait()
	t.Logf("seed %d: the server was killed %d times; of the requests, %v", *seed, kills, g.made)
	if diff := cmp.Diff(want, transfers(on, want)); diff != "" {
		t.Errorf("transfers (-want +on the chains)\n%s", diff)
	}
}

// transfers counts those on the chains by recipient, amount and token, once they are as wanted for two seconds, or after two minutes.
func transfers(chains []*devnet.Chain, want map[string]int) (found map[string]int) {
	for calm, end := 0, time.Now().Add(2*time.Minute); calm < 20; time.Sleep(100 * time.Millisecond) {
		found = map[string]int{}
		for _, on := range chains {
			for _, block := range on.Since(func(chain.Block) bool { return false }) {
				for _, transfer := range block.Transfers {
					found[fmt.Sprintf("%#x %s %s", transfer.To[:], transfer.Amount, on.Token().Symbol)]++
				}
			}
		}
		if calm++; !maps.Equal(found, want) && time.Now().Before(end) {
			calm = 0
		}
	}
	return found
}
