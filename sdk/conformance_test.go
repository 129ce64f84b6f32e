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
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"

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
	made    map[string]int  // requests, by the name of the fault
	held    map[string]int  // POSTs of the intents to hold, by Idempotency-Key
	again   map[string]bool // intents whose bytes arrive again, by Idempotency-Key
	holds   sync.WaitGroup  // until all bytes have arrived
}

// holdFor are how long the gateway holds bytes: until a client asks about them, and until it knows.
var holdFor = []time.Duration{50 * time.Second, 90 * time.Second}

// hold holds the bytes of an intent's first POST and resets the client's connection. It refuses later ones, as a
// service without funds does, and reports false for those that are too late to begin anything, and for other intents.
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
	g.late(r, body, holdFor[len(body)%len(holdFor)])
	panic(http.ErrAbortHandler)
}

// late lets the bytes of a request arrive later.
func (g *gateway) late(r *http.Request, body []byte, by time.Duration) {
	path, header := r.URL.Path, r.Header.Clone()
	g.holds.Go(func() {
		time.Sleep(by)
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
}

// repeat lets the bytes of a request of a proposal's intent arrive twice more: soon, and when it has ended.
func (g *gateway) repeat(r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.again[r.Header.Get("Idempotency-Key")] {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		g.late(r, body, 2*time.Second)
		g.late(r, body, 20*time.Second)
	}
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
	g.repeat(r)
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
	hashes, drivers, begin := make([]string, *intents), 0, time.Now()
	for ; slices.Contains(hashes, "") && t.Context().Err() == nil; drivers++ {
		ask, kill := drives(t, l, url, key)
		dies := drivers <= *intents/400
		if dies {
			time.AfterFunc(time.Duration(2000+draw.IntN(3000))*time.Millisecond, kill)
		}
		each(*intents, func(i int) {
			if hashes[i] != "" {
				return
			}
			batch, intent := payments(i, to), fmt.Sprint("order-", i)
			call, args := "pay", []any{intent, to, batch[0]["amount"]}
			if len(batch) > 1 {
				call, args = "payMany", []any{intent, batch}
			}
			e := ask(call, map[string]any{"timeout": 60, "asset": assetOf(i)}, args...)
			if e.Error == "" {
				hashes[i] = fmt.Sprint(e.Value["tx_hash"])
			} else if e.Error != "OutcomeUnknown" && (e.Error != "dead" || !dies) {
				t.Errorf("%s: %s ended with %s %s", l.name, intent, e.Error, e.Message)
				hashes[i] = e.Error
			}
		})
	}
	t.Logf("%s: %d intents have a hash after %.0f s, of %d drivers", l.name, *intents, time.Since(begin).Seconds(), drivers)
}

// An end is how a driver's call ended.
type end struct {
	ID             int
	Value          map[string]any
	Error, Message string
}

// drives starts a client, and returns functions that make its calls, on any goroutine, and that kill it. A dead client's
// calls end "dead".
func drives(t *testing.T, l language, url, key string) (ask func(call string, options map[string]any, args ...any) end,
	kill func()) {
	cmd := command(t, l, t.Output(), l.driver...)
	in, out := json.NewEncoder(must.Get(cmd.StdinPipe())(t)), json.NewDecoder(must.Get(cmd.StdoutPipe())(t))
	must.OK(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Wait() }) // its context has ended
	var mu sync.Mutex
	var calls []chan end
	dead := make(chan struct{})
	go func() {
		defer close(dead)
		for e := (end{}); out.Decode(&e) == nil; e = (end{}) {
			mu.Lock()
			calls[e.ID] <- e
			mu.Unlock()
		}
	}()
	ask = func(call string, options map[string]any, args ...any) end {
		mu.Lock()
		ended := make(chan end, 1)
		_ = in.Encode(map[string]any{"id": len(calls), "call": call, "args": args, "options": options})
		calls = append(calls, ended)
		mu.Unlock()
		select {
		case e := <-ended:
			return e
		case <-dead:
			return end{Error: "dead"}
		}
	}
	ask("open", map[string]any{}, url, key)
	return ask, func() { _ = cmd.Process.Kill() }
}

// known repeats a call whose outcome is unknown, as its error says. No deadline is enough: a refusal needs two more
// answers after 71 s to settle, and a busy machine gives few while its server is killed each few seconds.
func known(call func() end) (e end) {
	for e.Error = "OutcomeUnknown"; e.Error == "OutcomeUnknown" || e.Error == "Refused proposal_in_progress"; {
		e = call()
	}
	return e
}

// each calls do with 0 to n-1, 25 at once.
func each(n int, do func(i int)) {
	var all errgroup.Group
	all.SetLimit(25)
	for i := range n {
		all.Go(func() error { do(i); return nil })
	}
	_ = all.Wait()
}

// settles is a client that asks for the intents which the gateway holds, until each is settled: none may be paid.
// Amounts of 7 and 8 digits have different holds.
func settles(t *testing.T, l language, url, key, to string) {
	ask, _ := drives(t, l, url, key)
	each(holds(), func(i int) {
		options := map[string]any{"timeout": 200, "settle": true, "asset": map[bool]*string{true: &eurc}[l.name == "python"]}
		e := known(func() end { return ask("pay", options, held(l, i), to, fmt.Sprint(3_000_000+i+i%2*10_000_000)) })
		if e.Error != "Refused insufficient_funds settled" {
			t.Errorf("%s: an intent that is held ended with %q %s", l.name, e.Error, e.Message)
		}
	})
}

// proposals is how many intents of each language are proposed, and how many bills two agents pay.
func proposals() int { return max(3, *intents/4) }

func proposed(l language, i int) string { return fmt.Sprint("proposed-", l.name, "-", i) }

// proposes is two clients of a merchant: one proposes, and asks for the payment while the proposal is open and again at
// its end; the other one approves it, cancels it, or does one behind the other. It reports the amounts that must be
// paid, once: of those that were approved, unless a cancel was answered.
func proposes(t *testing.T, l language, url, key, second, to string, paid func(amount string, asset *string)) {
	first, _ := drives(t, l, url, key)
	other, _ := drives(t, l, url, second)
	until := func(call string, id any) end { return known(func() end { return other(call, map[string]any{}, id) }) }
	each(proposals(), func(i int) {
		intent, amount, asset := proposed(l, i), fmt.Sprint(5_000_000+i), assetOf(i)
		asked, kind := map[string]any{"to": to, "amount": amount, "asset": asset}, i/3%3
		pay := func(timeout int) end {
			return first("pay", map[string]any{"timeout": timeout, "asset": asset}, intent, to, amount)
		}
		p := known(func() end { return first("propose", map[string]any{}, intent, asked) })
		early := known(func() end { return pay(3) })
		var approved, cancelled end
		if kind != 0 {
			approved = until("approve", p.Value["id"])
		}
		if kind != 1 {
			cancelled = until("cancel", p.Value["id"])
		}
		made := kind != 0 && cancelled.Error == map[bool]string{false: "", true: "Refused proposal_released"}[kind == 2]
		late := known(func() end { return pay(120) })
		for n := 0; made && late.Error == "Refused proposal_open" && n < 120; n++ { // until it is released
			time.Sleep(time.Second)
			late = known(func() end { return pay(120) })
		}
		if made {
			paid(amount, asset)
		}
		if early.Error != "Refused proposal_open" || approved.Error != "" || !made && cancelled.Error != "" ||
			late.Error != map[bool]string{false: "IntentReused"}[made] {
			t.Errorf("%s: %s: %+v; a payment meanwhile %+v; approve %+v; cancel %+v; a payment then %+v",
				l.name, intent, p, early, approved, cancelled, late)
		}
	})
}

// agent is one of two on two machines, which want the same bills paid and name each bill in words of their own. It calls
// its server of remit mcp for each bill until it hears of a payment. A server is killed after some seconds.
func agent(t *testing.T, words, url, key, to string, draw *rand.Rand) {
	server := language{dir: t.TempDir(), env: []string{"REMIT_URL=" + url, "REMIT_API_KEY=" + key}}
	servers, paid, begin := 0, make([]bool, proposals()), time.Now()
	var turns atomic.Int64
	for ; slices.Contains(paid, false) && t.Context().Err() == nil; servers++ {
		cmd := command(t, server, nil, remitPath, "mcp")
		with, err := mcp.NewClient(&mcp.Implementation{Name: "agent"}, nil).
			Connect(t.Context(), &mcp.CommandTransport{Command: cmd}, nil)
		if err != nil {
			continue
		}
		kill := time.AfterFunc(time.Duration(2000+draw.IntN(8000))*time.Millisecond, func() { _ = cmd.Process.Kill() })
		each(len(paid), func(bill int) {
			if paid[bill] {
				return
			}
			args := map[string]any{"intent": fmt.Sprintf(words, bill), "to": to, "amount": fmt.Sprintf("20.%06d", bill)}
			said, err := with.CallTool(t.Context(), &mcp.CallToolParams{Name: "pay", Arguments: args})
			if err == nil {
				turns.Add(1)
				paid[bill] = !said.IsError
			}
		})
		kill.Stop()
		_ = with.Close()
	}
	t.Logf("an agent has %d bills paid after %.0f s, %d turns and %d servers",
		len(paid), time.Since(begin).Seconds(), turns.Load(), servers)
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

func assetOf(i int) *string { return map[bool]*string{true: &eurc}[i%3 == 2] }

// TestConformance: through lost and late answers, cut connections, 5xx, 429, and killed servers and clients, every
// intent of every language is paid once, on the chain of its asset, as is each bill of two agents. None is paid that was
// refused and settled, though a network held its bytes; a proposal is paid once if it was approved, and never if its
// cancel was answered, though a network repeated its bytes and those of a payment beside it. The chains are the judge.
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
	flags := []string{"--token", strings.Join(tokens, ","),
		"--key-creation", "public", "--dynamodb", dynamotest.Start(t), "--rpc", strings.Join(urls, ","),
		"--wallet-file", strings.Join(wallets, ","), "--batch-contract", install.Address().String(), "--no-page"}
	server, merchant := localtest.Local(t, io.Discard, remitPath, flags...)
	g := &gateway{draw: rand.New(rand.NewPCG(*seed, 1)), made: map[string]int{}, held: map[string]int{}, again: map[string]bool{}}
	for _, l := range languages {
		for i := range holds() {
			g.held[must.Get(remit.Key(held(l, i)))(t)] = 0
		}
		for i := range proposals() {
			g.again[must.Get(remit.Key(proposed(l, i)))(t)] = true
		}
	}
	g.before(merchant.URL)
	front := httptest.NewServer(g)
	t.Cleanup(front.Close)

	var clients sync.WaitGroup
	var mu sync.Mutex
	want := map[string]int{} // transfers, by recipient, amount and token
	for i, l := range languages {
		key, own := localtest.Join(t, merchant, l.name).Key, rand.New(rand.NewPCG(*seed, uint64(2+i)))
		approves := remit.IssueAPIKeyRequest{Scopes: []remit.Scope{remit.ScopePaymentsApprove}}
		second, to := must.Get(merchant.CreateKey(t.Context(), approves))(t).APIKey, fmt.Sprintf("0x%040x", 0x5d0000+i)
		paid := func(amount string, asset *string) {
			mu.Lock()
			defer mu.Unlock()
			want[to+" "+amount+map[bool]string{true: " USDC", false: " EURC"}[asset == nil]] = 1
		}
		clients.Go(func() { pays(t, l, front.URL, key, to, own) })
		clients.Go(func() { settles(t, l, front.URL, key, to) })
		clients.Go(func() { proposes(t, l, front.URL, key, second, to, paid) })
		for n := range *intents {
			for _, p := range payments(n, to) {
				paid(p["amount"], assetOf(n))
			}
		}
	}
	guard, to := int32(3600), fmt.Sprintf("0x%040x", 0x5d0100)
	key := must.Get(localtest.Join(t, merchant, "agents").CreateKey(t.Context(), remit.IssueAPIKeyRequest{RepeatGuardSeconds: &guard,
		Scopes: []remit.Scope{remit.ScopePaymentsWrite, remit.ScopePaymentsRead}}))(t).APIKey
	for i, words := range []string{"invoice %d", "Invoice No. %d of May"} {
		own := rand.New(rand.NewPCG(*seed, uint64(10+i)))
		clients.Go(func() { agent(t, words, front.URL, key, to, own) })
	}
	for bill := range proposals() {
		want[fmt.Sprintf("%s %d USDC", to, 20_000_000+bill)] = 1
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

// transfers counts the transfers on the chains by recipient, amount and token, once they are as wanted for two seconds,
// or after two minutes.
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
