package measure_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/ethclient"

	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/dynamotest"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
	"github.com/remit-payouts/remit/internal/sandbox/fault"
	"github.com/remit-payouts/remit/internal/sandbox/local/localtest"
	sdk "github.com/remit-payouts/remit/sdk/go"
)

var (
	length = flag.Duration("for", 10*time.Minute, "how long chaos breaks things")
	rate   = flag.Int("rate", 40, "payments a second of chaos")
	seed   = flag.Uint64("seed", uint64(time.Now().UnixNano()), "the seed of all faults and habits of chaos")
)

const (
	// Means and maxima of the times between faults and of their lengths.
	betweenKills, longestDeath  = 7 * time.Second, 2 * time.Second
	betweenFaults, longestFault = 4 * time.Second, 4 * time.Second // of each proxy

	// Habits of clients, in parts of a hundred.
	hasty     = 10 // requests that are given up after a moment, as by a phone that loses its network
	doubled   = 5  // payments asked for by two clients at once
	forgetful = 4  // payments never asked for again after the first failure
	doubtful  = 10 // payments asked for again after they were answered

	// drainWithin is how long a stack may take, once nothing goes wrong any more,
	// until every payment is final and announced. A fee bump takes three minutes.
	drainWithin = 4 * time.Minute
)

// unbalanced is the promise of `remit audit`.
const unbalanced = "differences between the tables and the chain"

// A victim is a whole stack of processes, the clients that pay through it, and the faults it has met.
type victim struct {
	log      *log.Logger // of the faults, and of the processes' own words
	chain    devnet.Facts
	node     *ethclient.Client
	payments *dynamo.Payments
	proxies  []*proxy // before the database and the node
	hooks    *receiver
	merchant *sdk.Client
	pace     *time.Ticker  // one order each
	within   time.Duration // of drain
	batches  bool          // every tenth payment is a batch
	command  []string      // of the server
	server   *localtest.Process

	requests, failures atomic.Int64
	mu                 sync.Mutex
	orders             [][]string          // of each payment, the hashes in its answers
	happened           map[string]int      // faults, kills and failed starts
	broken             map[string][]string // by promise
	noops              int                 // nonces that the last audit found used up, by no payment
}

// BenchmarkChaos runs a whole stack as processes, breaks everything around it at random, and then holds the chain
// against the answers that clients got. A promise that was broken fails it.
//
// The chain's process itself is not killed: an embedded chain forgets everything
// with its process, which no chain does. A proxy before it goes down instead.
func BenchmarkChaos(b *testing.B) {
	v, ctx := newVictim(b, fmt.Sprintf("chaos-%d", *seed)), b.Context()
	v.pace = time.NewTicker(time.Second / time.Duration(*rate))
	say("seed %d; the log is .cache/chaos/chaos-%d.log", *seed, *seed)
	remit := build(b, nil, "github.com/remit-payouts/remit/cmd/remit")
	wallets := filepath.Join(b.TempDir(), "chain.json")
	chain, lines, err := start(ctx,
		v.log.Writer(), "}", remit, "chain", "--chain-listen", "127.0.0.1:0", "--block-time", "500ms", "--wallets", "4")
	must.OK(b, err)
	b.Cleanup(chain.Kill)
	text := []byte(strings.Join(lines, "\n"))
	must.OK(b, json.Unmarshal(text, &v.chain))
	must.OK(b, os.WriteFile(wallets, text, 0o600)) // with the private keys
	v.node = must.Get(ethclient.DialContext(ctx, v.chain.RPCURL))(b)
	v.proxies = []*proxy{newProxy(b, "database", dynamotest.Start(b)), newProxy(b, "node", v.chain.RPCURL)}
	must.OK(b, v.open(ctx, b, remit,
		"--dynamodb", v.proxies[0].URL, "--rpc", v.proxies[1].URL, "--wallet-file", wallets))
	v.rage(b)
	calm := time.Now()
	must.OK(b, v.drain(ctx))
	drained := time.Since(calm).Seconds()
	mined := must.Get(v.audit(ctx, false))(b)
	say("asking again for payments that clients forgot: %d payments are mined 0 times, %d once, %d more often", mined[0], mined[1], mined[2])
	v.askAgain(ctx)
	must.OK(b, v.drain(ctx))
	again := must.Get(v.audit(ctx, true))(b)
	v.auditBooks(ctx)
	arrived := v.auditAPI(ctx)

	fmt.Printf("seed: %d\nfor: %s\n", *seed, *length)
	v.happened["payments asked for"], v.happened["events that arrived, repetitions included"] = len(v.orders), arrived
	v.happened["requests"], v.happened["requests without an answer, or with one to retry"] = int(v.requests.Load()), int(v.failures.Load())
	for _, p := range v.proxies {
		v.happened["connections reset, "+p.name], v.happened["answers lost, "+p.name] = int(p.Resets.Load()), int(p.Lost.Load())
	}
	for _, name := range slices.Sorted(maps.Keys(v.happened)) {
		emit(b, "happened="+name, metrics{"count": float64(v.happened[name])})
	}
	for i, name := range []string{"payments mined 0 times", "payments mined once", "payments mined twice or more"} {
		emit(b, "chain="+name, metrics{"faults-over": float64(mined[i]), "asked-again": float64(again[i])})
	}
	emit(b, "chain=nonces used up by a no-op", metrics{"asked-again": float64(v.noops)})
	emit(b, "recovery=from the end of all faults to nothing left to do", metrics{"s": drained})
	broken := 0
	for promise, found := range v.broken {
		if broken += len(found); len(found) > 0 {
			b.Errorf("%s: %q", promise, found)
		}
	}
	emit(b, "broken=promises", metrics{"count": float64(broken)})
	if v.happened["kills of the server (SIGKILL)"] == 0 {
		b.Error("the server was never killed: the run was too short")
	}
}

// A proxy is a fault.Proxy that serves.
type proxy struct {
	*fault.Proxy
	name, URL string
}

// newProxy listens on a free port for requests to target, until the test ends.
func newProxy(t testing.TB, name, target string) *proxy {
	p := fault.NewProxy(target)
	server := httptest.NewServer(p)
	t.Cleanup(func() { p.Close(); server.CloseClientConnections(); server.Close() })
	return &proxy{p, name, server.URL}
}

// say tells progress on standard error: standard output is the results.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// newVictim returns a victim without processes, which logs to a file of that name.
func newVictim(t testing.TB, name string) *victim {
	t.Helper()
	dir := filepath.Join(root, ".cache", "chaos")
	must.OK(t, os.MkdirAll(dir, 0o755))
	file := must.Get(os.Create(filepath.Join(dir, name+".log")))(t)
	t.Cleanup(func() { _ = file.Close() })
	dynamotest.Clear(t) // tables are of one chain and token
	return &victim{log: log.New(file, "CHAOS ", log.Lmicroseconds), payments: dynamo.NewPayments(dynamotest.Client(t), "remit-payments"),
		happened: map[string]int{}, broken: map[string][]string{}, within: drainWithin}
}

// open starts the server, which pays on v's chain, and makes the merchant its customer.
func (v *victim) open(ctx context.Context, t testing.TB, remit string, args ...string) error {
	t.Helper()
	listen := fmt.Sprint("127.0.0.1:", ownPort(t)) // also after every restart
	v.command = append([]string{remit, "local", "--listen", listen,
		"--token", v.chain.Token.Address.String(), "--block-time", "500ms", "--key-creation", "public"}, args...)
	if err := v.serve(ctx); err != nil {
		return err
	}
	t.Cleanup(func() { v.server.Kill() })
	v.hooks = &receiver{events: map[string]event{}}
	v.hooks.Server = httptest.NewServer(v.hooks)
	t.Cleanup(func() { v.hooks.CloseClientConnections(); v.hooks.Close() })
	v.merchant = another(t, &sdk.Client{URL: "http://" + listen, HTTP: &http.Client{Timeout: time.Minute}})
	must.Get(v.merchant.CreateWebhook(t.Context(), sdk.CreateWebhookRequest{URL: v.hooks.URL}))(t)
	return nil
}

// serve starts the server, and tries again until it serves or ctx ends.
func (v *victim) serve(ctx context.Context) error {
	for {
		p, _, err := start(ctx, v.log.Writer(), "Ctrl-C", v.command[0], v.command[1:]...)
		if err == nil {
			v.server = p
			return nil
		}
		v.count("starts that failed because a service was down")
		if sleep(ctx, 300*time.Millisecond); ctx.Err() != nil {
			return err
		}
	}
}

func (v *victim) count(fault string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.happened[fault]++
	v.log.Print(fault)
}

// rage applies load and breaks things, and returns when the clients have finished.
// The seed repeats the decisions; their effect depends on the machine.
func (v *victim) rage(b *testing.B) {
	faults, cancel := context.WithTimeout(b.Context(), *length)
	defer cancel()
	var trouble, load sync.WaitGroup
	nemesis := func(n uint64, between, longest time.Duration, fault func(draw *rand.Rand, length time.Duration) error) {
		trouble.Go(func() {
			draw := rand.New(rand.NewPCG(*seed, n))
			for {
				sleep(faults, min(time.Duration(draw.ExpFloat64()*float64(between)), 4*between))
				if faults.Err() != nil {
					return
				}
				if err := fault(draw, time.Duration(draw.Int64N(int64(longest)))); err != nil {
					b.Error(err)
				}
			}
		})
	}
	nemesis(0, betweenKills, longestDeath, func(_ *rand.Rand, length time.Duration) error {
		v.count("kills of the server (SIGKILL)")
		v.server.Kill()
		sleep(b.Context(), length)
		return v.serve(b.Context())
	})
	for i, p := range v.proxies {
		nemesis(uint64(1+i), betweenFaults, longestFault, func(draw *rand.Rand, length time.Duration) error {
			m := []fault.Mode{fault.Reset, fault.Slow, fault.Mute, fault.Stall}[draw.IntN(4)]
			v.count("faults, " + p.name + " " + m.String())
			p.Set(m)
			sleep(faults, length)
			p.Set(fault.Pass)
			return nil
		})
	}
	for i := range 24 {
		load.Go(func() { v.client(b.Context(), faults, rand.New(rand.NewPCG(*seed, uint64(1000+i)))) })
	}
	for begin := time.Now(); faults.Err() == nil; sleep(faults, 10*time.Second) {
		say("%3.0f of %.0f s: %d requests, %d without an answer",
			time.Since(begin).Seconds(), length.Seconds(), v.requests.Load(), v.failures.Load())
	}
	trouble.Wait()
	v.log.Print("nothing goes wrong from here on")
	load.Wait()
}

// client asks for payments until faults ends, and then finishes its last one unless ctx ends.
func (v *victim) client(ctx, faults context.Context, draw *rand.Rand) {
	for {
		select {
		case <-faults.Done():
			return
		case <-v.pace.C:
		}
		v.mu.Lock()
		n := len(v.orders)
		v.orders = append(v.orders, nil)
		v.mu.Unlock()
		var both sync.WaitGroup
		if draw.IntN(100) < doubled {
			twin := rand.New(rand.NewPCG(draw.Uint64(), draw.Uint64()))
			both.Go(func() { v.pursue(ctx, n, twin) })
		}
		v.pursue(ctx, n, draw)
		both.Wait()
	}
}

// pursue asks for payment n until it is answered for good.
func (v *victim) pursue(ctx context.Context, n int, draw *rand.Rand) {
	forget := draw.IntN(100) < forgetful
	for try := 0; ctx.Err() == nil; try++ {
		if v.ask(ctx, n, draw) {
			if draw.IntN(100) < doubtful {
				v.ask(ctx, n, draw)
			}
			return
		}
		if forget {
			return
		}
		sleep(ctx, time.Duration(50+draw.IntN(200))*time.Millisecond<<min(try, 3))
	}
}

// ask makes one request for payment n and reports whether it was answered for good.
func (v *victim) ask(ctx context.Context, n int, draw *rand.Rand) bool {
	wait := 40 * time.Second
	if draw.IntN(100) < hasty {
		wait = time.Duration(1+draw.IntN(100)) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	v.requests.Add(1)
	p, err := askBatch(ctx, v.merchant, n, v.size(n))
	refusal, isRefusal := errors.AsType[*sdk.Refused](err)
	switch {
	case err == nil:
		v.mu.Lock()
		v.orders[n] = append(v.orders[n], p.TxHash)
		v.mu.Unlock()
		if first := v.answer(n); p.TxHash != first {
			v.breaks("payments answered with two hashes", "order-%d: %s and %s", n, first, p.TxHash)
		}
	case isRefusal:
		v.breaks("answers that refuse what must not be refused", "%v", refusal)
	default:
		v.failures.Add(1)
		return false
	}
	return true
}

// size returns how many entries payment n has, 1 to 100.
func (v *victim) size(n int) int {
	if !v.batches || n%10 < 9 {
		return 1
	}
	return 2 + n*37%99
}

// askAgain asks for every payment that has no answer until it has one: a payment made meanwhile is only named.
func (v *victim) askAgain(ctx context.Context) {
	_ = each(ctx, 16, len(v.orders), func(ctx context.Context, n int) error {
		draw := rand.New(rand.NewPCG(*seed, uint64(10_000+n)))
		for try := 0; try < 100 && v.answer(n) == "" && !v.ask(ctx, n, draw); try++ {
			sleep(ctx, 100*time.Millisecond)
		}
		return nil
	})
}

// answer returns the hash of payment n, "" without a 201.
func (v *victim) answer(n int) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return append(slices.Clone(v.orders[n]), "")[0]
}

func (v *victim) breaks(promise, format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.broken[promise] = append(v.broken[promise], fmt.Sprintf(format, args...))
}

// audit counts transfers and compares them with the answers. Once clients have asked again for everything, every
// payment must be mined. It returns how many payments are mined 0, 1, and 2 or more times.
func (v *victim) audit(ctx context.Context, askedAgain bool) (mined [3]int, err error) {
	found, err := transfers(ctx, v.node, common.Address(v.chain.Token.Address))
	if err != nil {
		return mined, err
	}
	made := slices.Concat(slices.Collect(maps.Values(found))...)
	slices.SortFunc(made, common.Hash.Cmp)
	v.noops = -len(slices.Compact(made)) // a batch's entries have one transaction
	for n := range v.orders {
		hashes := found[n]
		for j := range v.size(n) {
			if entry := found[n+j*stride]; !slices.Equal(entry, hashes) {
				v.breaks("batches of which a part is mined", "order-%d: %v, but entry %d: %v", n, hashes, j, entry)
			}
			delete(found, n+j*stride)
		}
		mined[min(len(hashes), 2)]++
		switch {
		case len(hashes) > 1:
			v.breaks("payments mined more than once", "order-%d: %v", n, hashes)
		case len(hashes) == 0 && v.answer(n) != "":
			v.breaks("payments answered 201 and not mined", "order-%d: %s", n, v.answer(n))
		case len(hashes) == 0 && askedAgain:
			v.breaks("payments not mined once all were asked for again", "order-%d", n)
		}
	}
	for n, hashes := range found {
		v.breaks("transfers that no client asked for", "%d: %v", n, hashes)
	}
	for _, w := range v.chain.Wallets {
		latest, err := v.node.NonceAt(ctx, common.Address(w.Address), nil)
		pooled, err2 := v.node.PendingNonceAt(ctx, common.Address(w.Address))
		if err = errors.Join(err, err2); err != nil {
			return mined, err
		}
		v.noops += int(latest)
		if pooled > latest && askedAgain {
			v.breaks("transactions left in the node's pool", "%d of wallet %s", pooled-latest, w.Address)
		}
	}
	return mined, nil
}

// auditBooks runs remit audit once everything is settled: the tables must say what the chain says.
func (v *victim) auditBooks(ctx context.Context) {
	cmd := exec.CommandContext(ctx, v.command[0], "audit", "--json", "--stack", "http://"+v.command[3])
	var words strings.Builder
	cmd.Stderr = &words
	out, err := cmd.Output()
	if err != nil {
		v.breaks(unbalanced, "%v: %s", err, words.String())
	}
	v.log.Printf("AUDIT %s", out)
}

// auditAPI asks the stack for every answered payment, as a merchant would, and
// holds the webhooks against it. It returns how many webhooks arrived.
func (v *victim) auditAPI(ctx context.Context) int {
	var arrived atomic.Int64
	_ = each(ctx, 16, len(v.orders), func(ctx context.Context, n int) error {
		hash := v.answer(n)
		if hash == "" {
			return nil
		}
		p, err := v.merchant.Get(ctx, hash)
		e := v.hooks.of(hash)
		if arrived.Add(int64(e.times)); err != nil || p.Status != "confirmed" {
			v.breaks("payments answered 201 and not confirmed", "order-%d: %s %v", n, p.Status, err)
		} else if e.Type != "payment.confirmed" {
			v.breaks("confirmed payments never announced", "order-%d: event %q", n, e.Type)
		}
		return nil
	})
	v.broken["events announced in two forms"] = v.hooks.bad
	return int(arrived.Load())
}

// drain waits until the tables hold nothing unfinished and every event has
// arrived. The wallets that are unfinished after v.within break a promise.
func (v *victim) drain(ctx context.Context) error {
	say("waiting until nothing is left to do")
	for deadline := time.Now().Add(v.within); ctx.Err() == nil; sleep(ctx, 500*time.Millisecond) {
		left, err := v.unfinished(ctx)
		if err != nil {
			return fmt.Errorf("reading the tables: %w", err)
		}
		unannounced := false
		for n := range v.orders {
			unannounced = unannounced || v.answer(n) != "" && v.hooks.of(v.answer(n)).times == 0
		}
		if late := time.Now().After(deadline); late || len(left) == 0 && !unannounced {
			v.broken["wallets with something left for a person"] = append(v.broken["wallets with something left for a person"], left...)
			return nil
		}
	}
	return ctx.Err()
}

// unfinished returns the wallets in the tables that have something left to do.
func (v *victim) unfinished(ctx context.Context) (left []string, err error) {
	wallets, err := v.payments.Wallets(ctx, token.Coin{ChainID: v.chain.ChainID, Contract: v.chain.Token.Address})
	if err != nil {
		return nil, err
	}
	for _, r := range wallets.Working(true) {
		id := r.ID
		w, err := v.payments.Wallet(ctx, id)
		txs, unreadable, err2 := v.payments.PendingTxs(ctx, id, 0)
		if err = errors.Join(err, err2); err != nil {
			return nil, err
		}
		if len(txs)+len(w.Reservations)+unreadable > 0 || w.Paused != "" {
			left = append(left, fmt.Sprintf("wallet %s: %d pending transactions, %d reservations, %d unreadable, paused %q",
				id.Address, len(txs), len(w.Reservations), unreadable, w.Paused))
		}
	}
	return left, nil
}
