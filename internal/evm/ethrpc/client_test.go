package ethrpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// roundTrip is a transport.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A request whose answer is overdue is sent again, once; the answer that begins
// first counts.
func TestAnOverdueRequestIsSentAgain(t *testing.T) {
	const hangs, resets = -1, -2 // else how long the answer takes
	for _, c := range []struct {
		name     string
		requests []time.Duration
		took     time.Duration
		fails    bool
	}{
		{"answered in time", []time.Duration{time.Second}, time.Second, false},
		{"the first hangs", []time.Duration{hangs, time.Second}, 3 * time.Second, false},
		{"the first is slow, the second hangs", []time.Duration{5 * time.Second, hangs}, 5 * time.Second, false},
		{"the second is refused, the first slow", []time.Duration{5 * time.Second, resets}, 5 * time.Second, false},
		{"both hang", []time.Duration{hangs, hangs}, 10 * time.Second, true},
		{"refused at once", []time.Duration{resets}, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent atomic.Int64
				node := must.Get(ethrpc.Open("http://node.example",
					ethrpc.Config{ChainID: 1, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
						var calls []request
						if err := json.NewDecoder(r.Body).Decode(&calls); err != nil || len(calls) != 2 {
							t.Errorf("request of %d calls: %v", len(calls), err)
						}
						switch takes := c.requests[sent.Add(1)-1]; takes {
						case hangs:
							<-r.Context().Done()
							return nil, context.Cause(r.Context())
						case resets:
							return nil, errors.New("connection reset")
						default:
							time.Sleep(takes)
						}
						answer := fmt.Sprintf(`[{"jsonrpc":"2.0","id":%s,"result":"0x1"},{"jsonrpc":"2.0","id":%s,"result":"0x7"}]`, calls[0].ID, calls[1].ID)
						return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(answer))}, nil
					})}))(t)
				begin := time.Now()
				count, err := node.Count(t.Context(), token.Address{}, 5)
				if took := time.Since(begin); took != c.took || (err != nil) != c.fails || err == nil && count != 7 ||
					int(sent.Load()) != len(c.requests) {
					t.Errorf("%d requests in %v: %v; want %d in %v", sent.Load(), took, err, len(c.requests), c.took)
				}
			})
		})
	}
}

// A metered node answers so many calls a second, and as many at once, each 50 ms later. It
// refuses the others with a Retry-After. eth_chainId is free.
type metered struct {
	rate  float64
	after string // Retry-After

	mu                sync.Mutex
	tokens            float64
	filled            time.Time
	answered, refused float64
}

func (m *metered) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(50 * time.Millisecond)
	type call struct {
		ID     int
		Method string
	}
	calls, header := make([]call, 1), http.Header{}
	body, _ := io.ReadAll(r.Body)
	if json.Unmarshal(body, &calls) != nil {
		_ = json.Unmarshal(body, &calls[0])
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.tokens, m.filled = min(m.rate, m.tokens+now.Sub(m.filled).Seconds()*m.rate), now
	var parts []string
	for _, c := range calls {
		answer := `"result":null`
		switch {
		case c.Method == "eth_chainId":
			answer = `"result":"0x1"`
		case m.tokens < 1:
			answer = `"error":{"code":429,"message":"over rate limit"}`
			header.Set("Retry-After", m.after)
			m.refused++
		default:
			m.tokens--
			m.answered++
		}
		parts = append(parts, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,%s}`, c.ID, answer))
	}
	text := strings.Join(parts, ",")
	if bytes.HasPrefix(body, []byte("[")) {
		text = "[" + text + "]"
	}
	return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
}

// rates has forty clients ask the node for two minutes, each time for so many receipts, and
// returns how many calls were refused for each that was answered, and how many were answered
// a second: in the second minute. A node that forgets learns nothing from one time to the next.
func (m *metered) rates(t *testing.T, each int, forgets bool) (refused, answered float64) {
	synctest.Test(t, func(t *testing.T) {
		open := func() *ethrpc.Node {
			node, err := ethrpc.Open("http://node", ethrpc.Config{ChainID: 1, Transport: m, Log: slog.New(slog.DiscardHandler)})
			must.OK(t, err)
			return node
		}
		ctx, cancel := context.WithCancel(t.Context())
		shared := open()
		var clients sync.WaitGroup
		for range 40 {
			clients.Go(func() {
				for ctx.Err() == nil {
					node := shared
					if forgets {
						node = open()
					}
					if _, err := node.Receipts(ctx, make([]chain.Hash, each)); err != nil {
						time.Sleep(500 * time.Millisecond)
					}
				}
			})
		}
		time.Sleep(time.Minute)
		m.mu.Lock()
		m.answered, m.refused = 0, 0
		m.mu.Unlock()
		time.Sleep(time.Minute)
		m.mu.Lock()
		refused, answered = m.refused/m.answered, m.answered/60
		m.mu.Unlock()
		cancel()
		clients.Wait()
	})
	return refused, answered
}

// TestRates: of a node that limits its rate fewer than one call in twenty is refused once the
// rate is known, and not much less is answered than without knowing it.
func TestRates(t *testing.T) {
	for _, row := range []struct {
		rate  float64
		after string
		each  int
	}{{20, "1", 1}, {20, "0", 3}, {100, "1", 3}, {300, "0", 9}} {
		learned, answered := (&metered{rate: row.rate, after: row.after}).rates(t, row.each, false)
		forgotten, all := (&metered{rate: row.rate, after: row.after}).rates(t, row.each, true)
		name := fmt.Sprintf("rate=%v/batch=%d/retry-after=%s", row.rate, row.each, row.after)
		if learned > 0.05 || answered < 0.9*all {
			t.Errorf("%s: %.3f refused for each answered, and %.1f answered a second; without learning %.3f and %.1f", name, learned, answered,
				forgotten, all)
		}
		t.Logf("%s: %.3f refused for each answered, without learning %.2f; %.2f of the answers", name, learned, forgotten, answered/all)
	}
}
