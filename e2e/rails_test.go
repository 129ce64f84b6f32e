package e2e_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/remit-payouts/remit/e2e/localaws"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
)

// A wire is the address of a chain's node. It counts what only payments ask of it, and answers nobody while it hangs.
type wire struct {
	*httptest.Server
	of    *devnet.Chain
	asset string

	mu    sync.Mutex
	asked [3]int        // requests with each of steps
	hangs chan struct{} // nil: it does not
}

// steps are parts of a payment's requests: its trial, the broadcast, and the gas price, which probes ask too.
var steps = [3]string{`"0xa9059cbb`, "eth_sendRawTransaction", "eth_maxPriorityFeePerGas"}

const prices = 2

func newWire(t *testing.T, of *devnet.Chain) *wire {
	t.Helper()
	w := &wire{of: of, asset: token.Coin{ChainID: of.ID(), Contract: of.Token().Contract}.String()}
	proxy := httputil.NewSingleHostReverseProxy(must.Get(url.Parse(of.URL()))(t))
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		w.mu.Lock()
		for i, step := range steps {
			if bytes.Contains(body, []byte(step)) {
				w.asked[i]++
			}
		}
		hangs := w.hangs
		w.mu.Unlock()
		if hangs == nil {
			proxy.ServeHTTP(rw, r)
		} else {
			select {
			case <-r.Context().Done():
			case <-hangs:
			}
		}
	}))
	t.Cleanup(func() { w.hang(false); w.Close() })
	return w
}

func (w *wire) hang(hangs bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hangs != nil {
		close(w.hangs)
	}
	if w.hangs = nil; hangs {
		w.hangs = make(chan struct{})
	}
}

func (w *wire) counts() [3]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked
}

// anotherChain returns a chain beside the stack's own.
func anotherChain(t *testing.T, config devnet.Config) *devnet.Chain {
	t.Helper()
	config.Listen, config.BlockTime, config.Now, config.Wallets = "127.0.0.1:0", localaws.BlockTime, time.Now, 1
	c := must.Get(devnet.Start(t.Context(), config))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// pay asks for a payment of an asset, "" for the default. It returns the status, the code or hash, and its duration.
func (m merchant) pay(asset, key string) (status int, text string, took time.Duration) {
	m.t.Helper()
	order := map[string]any{"to": recipient, "amount": 7, "asset": asset}
	if asset == "" {
		delete(order, "asset")
	}
	began := time.Now()
	sent := string(must.Get(json.Marshal(order))(m.t))
	a := must.Get(m.api().Call(m.t.Context(), "POST", "/send-payment", sent, "Idempotency-Key", key))(m.t)
	took = time.Since(began)
	described(m.t, "POST", "/send-payment", &http.Response{StatusCode: a.Status, Header: a.Header,
		Body: io.NopCloser(bytes.NewReader(a.Body))})
	var body struct {
		Code   string `json:"code"`
		Hash   string `json:"tx_hash"`
		Detail []struct{ Type string }
	}
	if _ = json.Unmarshal(a.Body, &body); a.Status == 422 {
		body.Code = fmt.Sprint(body.Detail)
	}
	return a.Status, body.Code + body.Hash, took
}

// paid20 pays 20 times by a rail, and returns how often its node was asked to try and to broadcast, and the median.
func (m merchant) paid20(w *wire, key string) (asked [2]int, median time.Duration) {
	m.t.Helper()
	var all []time.Duration
	before := w.counts()
	for i := range 20 {
		status, text, took := m.pay(w.asset, fmt.Sprint(key, i))
		if all = append(all, took); status != 201 {
			m.t.Errorf("%s%d: %d %s", key, i, status, text)
		}
	}
	slices.Sort(all)
	now := w.counts()
	asked = [2]int{now[0] - before[0], now[1] - before[1]}
	m.t.Logf("20 payments %s*: %v trials and broadcasts, %d quotes, median %v, p99 %v", key, asked,
		now[prices]-before[prices], all[10], all[19])
	return asked, all[10]
}

// TestRails: a stack with two rails, of which one hangs, and a third that is added while payments run.
func TestRails(t *testing.T) {
	t.Parallel()
	s, _ := another(t)
	must.OK(t, s.Reauthorize(t.Context(), 300))
	a, b := newWire(t, s.Chain), newWire(t, anotherChain(t, devnet.Config{}.EURC()))
	for _, w := range []*wire{a, b} {
		must.OK(t, s.AddRail(t.Context(), w.of, w.URL))
	}
	m := newMerchant(t, s)
	m.oneKey(a, b)
	m.hanging(a, b)
	m.third()
	o := &operator{t: t, s: s}
	var report []struct{ Rail string }
	if o.ok(&report, "recover", "--yes"); len(report) != 3 {
		t.Errorf("recovered: %+v", report)
	}
	o.ok(nil, "wallet", "resume", "--all", "--yes")
	s.restart(t, "SendPayment")
	until(t, "paying after the recovery", func() bool { status, _, _ := m.pay(b.asset, "after"); return status == 201 })
}

// oneKey pays on both rails with one API key, and asks for both under one Idempotency-Key.
func (m merchant) oneKey(a, b *wire) {
	t := m.t
	t.Helper()
	hashes := map[*wire]string{}
	for w, other := range map[*wire]string{a: b.asset, b: ""} {
		status, hash, _ := m.pay(w.asset, "one-of-"+w.asset)
		if hashes[w] = hash; status != 201 {
			t.Fatalf("a payment of %s: %d %s", w.asset, status, hash)
		}
		if status, code, _ := m.pay(other, "one-of-"+w.asset); status != 422 || code != "[{idempotency_key_reused}]" {
			t.Errorf("its key for the other asset: %d %s", status, code)
		}
	}
	for w, hash := range hashes {
		until(t, "confirming "+w.asset, func() bool {
			return m.call("GET", "/transaction/"+hash, nil).want(t, 200).get("status") == "confirmed"
		})
		paid := 0
		for _, block := range w.of.Since(func(chain.Block) bool { return false }) {
			paid += len(block.Transfers)
		}
		if paid != 1 {
			t.Errorf("%d payments of %s", paid, w.asset)
		}
		if list := m.call("GET", "/transactions?asset="+w.asset, nil).want(t, 200).text; !strings.Contains(list, `"tx_hash":"`+hash) ||
			strings.Count(list, `"tx_hash"`) != 1 {
			t.Errorf("the list of %s: %s", w.asset, list)
		}
		has := m.call("GET", "/balance/"+recipient+"?asset="+w.asset, nil).want(t, 200)
		if has.get("balance") != "7" || has.get("asset") != w.asset {
			t.Errorf("the balance of %s: %s", w.asset, has.text)
		}
	}
	list := m.call("GET", "/transactions", nil).want(t, 200).text
	if !strings.Contains(list, hashes[a]) || !strings.Contains(list, hashes[b]) {
		t.Errorf("the list of both: %s", list)
	}
	if got := m.assets(); got != fmt.Sprintf("[{%s true true} {%s false true}]", a.asset, b.asset) {
		t.Errorf("the assets: %s", got)
	}
}

// assets are the names, whether each is the default, and whether it is open.
func (m merchant) assets() string {
	m.t.Helper()
	var assets struct {
		Data []struct {
			Asset         string
			Default, Open bool
		}
	}
	must.OK(m.t, json.Unmarshal([]byte(m.call("GET", "/assets", nil).want(m.t, 200).text), &assets))
	return fmt.Sprint(assets.Data)
}

// hanging holds the payments of a rail against themselves: with the other alive, and while its node answers nobody.
func (m merchant) hanging(a, b *wire) {
	t := m.t
	t.Helper()
	asked, median := m.paid20(a, "both-live-")
	b.hang(true)
	for n := 0; ; n++ { // the process finds out by requests that wait for the node
		if status, code, took := m.pay(b.asset, fmt.Sprint("lost-", n)); status != 503 || code != "payment_rail_unavailable" || n == 10 {
			t.Fatalf("by a node that hangs: %d %s", status, code)
		} else if took < 3*time.Second {
			break
		}
	}
	began, before, atOnce := time.Now(), b.counts()[prices], 0
	for n := range 20 {
		probed := b.counts()[prices]
		status, code, took := m.pay(b.asset, fmt.Sprint("refused-", n))
		if status != 503 || code != "payment_rail_unavailable" || took > 5*time.Second {
			t.Errorf("by a node that hangs: %d %s after %v", status, code, took)
		}
		if b.counts()[prices] == probed {
			atOnce++
		}
	}
	probes, took := b.counts()[prices]-before, time.Since(began)
	t.Logf("of 20 requests in %v, %d were refused at once; %d probes", took, atOnce, probes)
	if atOnce == 0 || probes > int(took.Seconds())+1 {
		t.Error("requests wait for a node that hangs")
	}
	if status, hash, _ := m.pay(b.asset, "one-of-"+b.asset); status != 201 {
		t.Errorf("the repetition of a payment by it: %d %s", status, hash)
	}
	tried := b.counts()[0] // a payment is tried once more if its first wallet waits for a run to raise its ceiling
	alone, late := m.paid20(a, "other-hangs-")
	if alone[1] != asked[1] || alone[0] > asked[0]+2 || late > 3*median+time.Second || b.counts()[0] != tried {
		t.Errorf("while the other rail hangs: %v requests in the median's %v, not %v in %v", alone, late, asked, median)
	}
	m.paid("while-the-other-hangs", 7)
	for _, function := range []string{"SendPayment", "CheckReceipts"} {
		if log := strings.Join(m.s.logged(t, function), "\n"); !strings.Contains(log, `"rail":"`+b.asset+`"`) {
			t.Errorf("the log of %s does not name the rail that hangs: %s", function, log)
		}
	}
	b.hang(false)
	until(t, "paying again", func() bool { status, _, _ := m.pay(b.asset, "lost-0"); return status == 201 })
}

// third adds a rail while payments run.
func (m merchant) third() {
	t := m.t
	t.Helper()
	c := newWire(t, anotherChain(t, devnet.Config{ChainID: 1339, Seed: "third"}))
	stop, stopped := make(chan struct{}), make(chan int)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				stopped <- n
				return
			case <-time.After(200 * time.Millisecond):
			}
			if status, code, _ := m.pay("", fmt.Sprint("meanwhile-", n)); status != 201 {
				t.Errorf("while a rail is added, payment %d: %d %s", n, status, code)
			}
		}
	}()
	must.OK(t, m.s.AddRail(t.Context(), c.of, c.URL))
	until(t, "the third rail to be in force", func() bool {
		status, _, _ := m.pay(c.asset, "third")
		return status == 201 && strings.Contains(m.assets(), c.asset+" false true")
	})
	close(stop)
	t.Logf("%d payments by the first meanwhile", <-stopped)
}
