package ethrpc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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
