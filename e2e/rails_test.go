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

// A wire is a node's address. It counts the requests of payments, by method, and swallows all requests while it hangs.
type wire struct {
	*httptest.Server
	of    *devnet.Chain
	asset string

	mu    sync.Mutex
	asked map[string]int
	hangs chan struct{} // nil: it does not
}

func newWire(t *testing.T, of *devnet.Chain) *wire {
	t.Helper()
	w := &wire{of: of, asset: token.Coin{ChainID: of.ID(), Contract: of.Token().Contract}.String(), asked: map[string]int{}}
	proxy := httputil.NewSingleHostReverseProxy(must.Get(url.Parse(of.URL()))(t))
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		w.mu.Lock()
		w.asked["all"]++
		for _, method := range []string{"eth_estimateGas", "eth_sendRawTransaction"} { // check-receipts asks for neither
			w.asked[method] += bytes.Count(body, []byte(method))
		}
		hangs := w.hangs
		w.mu.Unlock()
		if hangs == nil {
			proxy.ServeHTTP(rw, r)
			return
		}
		select {
		case <-r.Context().Done():
		case <-hangs:
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
	w.hangs = map[bool]chan struct{}{true: make(chan struct{})}[hangs]
}

func (w *wire) count(method string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked[method]
}

// another returns a chain with other keys than the first.
func anotherChain(t *testing.T, config devnet.Config) *devnet.Chain {
	t.Helper()
	config.Listen, config.BlockTime, config.Now, config.Wallets = "127.0.0.1:0", localaws.BlockTime, time.Now, 1
	c := must.Get(devnet.Start(t.Context(), config))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// pay asks for a payment of an asset, "" for the default, and returns its status, its code or hash, and how long it took.
func (m merchant) pay(asset, key string, amount int) (status int, text string, took time.Duration) {
	m.t.Helper()
	order := map[string]any{"to": recipient, "amount": amount}
	if asset != "" {
		order["asset"] = asset
	}
	began := time.Now()
	a, err := m.api().Call(m.t.Context(), "POST", "/send-payment", string(must.Get(json.Marshal(order))(m.t)), "Idempotency-Key", key)
	must.OK(m.t, err)
	described(m.t, "POST", "/send-payment", &http.Response{StatusCode: a.Status, Header: a.Header, Body: io.NopCloser(bytes.NewReader(a.Body))})
	var body struct {
		Code string `json:"code"`
		Hash string `json:"tx_hash"`
	}
	_ = json.Unmarshal(a.Body, &body)
	return a.Status, body.Code + body.Hash, time.Since(began)
}

// A load is payments one after the other: what each asked of the rail's nodes, and how long they took.
type load struct {
	estimates, broadcasts int
	median, p99           time.Duration
}

func (m merchant) load(w *wire, name string, beside func()) (l load) {
	m.t.Helper()
	const posts = 20
	l.estimates, l.broadcasts = w.count("eth_estimateGas"), w.count("eth_sendRawTransaction")
	var all []time.Duration
	for i := range posts {
		beside()
		status, text, took := m.pay("", fmt.Sprint(name, i), 1)
		if status != 201 {
			m.t.Errorf("%s, payment %d: %d %s", name, i, status, text)
		}
		all = append(all, took)
	}
	slices.Sort(all)
	l = load{w.count("eth_estimateGas") - l.estimates, w.count("eth_sendRawTransaction") - l.broadcasts, all[posts/2], all[posts-1]}
	m.t.Logf("%s: %+v", name, l)
	return l
}

// TestRails pays on two rails with one key, has the nodes of one hang, and adds a third.
func TestRails(t *testing.T) {
	s, _ := another(t)
	must.OK(t, s.Reauthorize(t.Context(), 300))
	a, b := newWire(t, s.Chain), newWire(t, anotherChain(t, devnet.Config{}.EURC()))
	for _, w := range []*wire{a, b} {
		must.OK(t, s.AddRail(t.Context(), w.of, w.URL))
	}
	o := &operator{t: t, s: s}
	t.Cleanup(func() { t.Log(o.printed.String()) })
	m := newMerchant(t, s)
	settle := func() { s.invoke(t, "CheckReceipts", sample(t, "check-receipts")) }
	settle()
	s.oneKey(t, m, a, b)

	both := m.load(a, "both-alive-", func() { m.pay(b.asset, fmt.Sprint("beside-", time.Now()), 1) })
	b.hang(true)
	until(t, "refusing at once", time.Minute, func() bool {
		status, code, took := m.pay(b.asset, fmt.Sprint("hanging-", time.Now()), 1)
		t.Log("hanging", status, code, took)
		return status == 503 && took < 400*time.Millisecond
	})
	for range 20 {
		before := b.count("all")
		status, code, took := m.pay(b.asset, fmt.Sprint("hanging-", time.Now()), 1)
		t.Log("hanging", status, code, took, b.count("all")-before)
	}
	one := m.load(a, "one-hangs-", func() {})
	t.Log(both, one)
	b.hang(false)
	until(t, "paying again", time.Minute, func() bool {
		status, code, took := m.pay(b.asset, fmt.Sprint("again-", time.Now()), 1)
		t.Log("again", status, code, took)
		return status == 201
	})
	s.third(t, o, m)
}

// oneKey pays on both rails with one API key, and asks for both under one Idempotency-Key.
func (s *stack) oneKey(t *testing.T, m merchant, a, b *wire) {
	t.Helper()
	hashes := map[*wire]string{}
	for w, other := range map[*wire]string{a: b.asset, b: ""} {
		status, hash, _ := m.pay(w.asset, "one-of-"+w.asset, 7)
		if status != 201 {
			t.Fatalf("a payment of %s: %d %s", w.asset, status, hash)
		}
		hashes[w] = hash
		if status, code, _ := m.pay(other, "one-of-"+w.asset, 7); status != 422 || code != "idempotency_key_reused" {
			t.Errorf("its key for the other asset: %d %s", status, code)
		}
	}
	for w, hash := range hashes {
		until(t, "confirming "+w.asset, time.Minute, func() bool {
			return m.call("GET", "/transaction/"+hash, nil).want(t, 200).get("status") == "confirmed"
		})
		paid := 0
		for _, block := range w.of.Since(func(chain.Block) bool { return false }) {
			for _, l := range block.Transfers {
				if l.To.String() == recipient {
					paid++
				}
			}
		}
		if paid != 1 {
			t.Errorf("%d payments of %s", paid, w.asset)
		}
		if list := m.call("GET", "/transactions?asset="+w.asset, nil).want(t, 200).text; !strings.Contains(list, hash) || strings.Count(list, `"tx_hash"`) != 1 {
			t.Errorf("the list of %s: %s", w.asset, list)
		}
		if has := m.call("GET", "/balance/"+recipient+"?asset="+w.asset, nil).want(t, 200); has.get("balance") != "7" || has.get("asset") != w.asset {
			t.Errorf("the balance of %s: %s", w.asset, has.text)
		}
	}
	var assets struct {
		Data []struct {
			Asset         string
			Default, Open bool
		}
	}
	must.OK(t, json.Unmarshal([]byte(m.call("GET", "/assets", nil).want(t, 200).text), &assets))
	if d := assets.Data; len(d) != 2 || d[0].Asset != a.asset || !d[0].Default || d[1].Asset != b.asset || d[1].Default || !d[1].Open {
		t.Errorf("the assets: %+v", d)
	}
}

// third adds a rail while payments run.
func (s *stack) third(t *testing.T, o *operator, m merchant) {
	t.Helper()
	c := newWire(t, anotherChain(t, devnet.Config{ChainID: 1339, Seed: "third"}))
	stop, stopped := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		defer func() { stopped <- n }()
		for ; ; n++ {
			if status, code, _ := m.pay("", fmt.Sprint("meanwhile-", n), 1); status != 201 {
				t.Errorf("while a rail is added, payment %d: %d %s", n, status, code)
			}
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
	began := time.Now()
	must.OK(t, s.AddRail(t.Context(), c.of, c.URL))
	t.Log("added in", time.Since(began))
	took := until(t, "the third rail to be in force", 6*time.Minute, func() bool {
		status, code, took := m.pay(c.asset, "third", 7)
		t.Log(status, code, took)
		return status == 201
	})
	close(stop)
	t.Logf("a third rail was in force %v after it was added, %d payments meanwhile", took, <-stopped)
	if took > 30*time.Second {
		t.Errorf("a third rail was in force %v after it was added", took)
	}
}
