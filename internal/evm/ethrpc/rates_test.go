package ethrpc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/proof/must"
)

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

// RoundTrip implements http.RoundTripper.
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
