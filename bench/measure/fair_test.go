package measure_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/proof/must"
	sdk "github.com/remit-payouts/remit/sdk/go"
)

// floodRate is how many requests a second the flooding merchant makes, answered or not,
// and payRate how many payments the other makes, if each is answered in time: fewer than
// fill its merchant cap.
const floodRate, payRate = 200, 100

// turns is how often the payments are measured with a flood, and as often without.
const turns = 5

// BenchmarkFair measures the payments of one merchant of `remit local` while another floods an
// endpoint, beside the same without the flood, for every endpoint. The two are measured in turns,
// and a p99 is the median of those of the turns: a pause of the machine is in one turn, and a
// flood's effect is in all.
func BenchmarkFair(b *testing.B) {
	_, flooding := startLocal(b, build(b, nil, "github.com/remit-payouts/remit/cmd/remit"), 4, "--merchant-cap=50")
	paying := another(b, flooding)
	hang := newReceiver(b, func(r *http.Request, _ event) int { <-r.Context().Done(); return http.StatusOK })
	hook := must.Get(flooding.CreateWebhook(b.Context(), sdk.CreateWebhookRequest{URL: hang.URL}))(b)
	var spare struct{ ID string }
	must.OK(b, json.Unmarshal(must.Get(flooding.Call(b.Context(), "POST", "/api-keys", "{}"))(b).Body, &spare))
	params := strings.NewReplacer("/api-keys/{id}", "/api-keys/"+spare.ID, "{id}", hook.ID, "{address}", payee, "{tx_hash}",
		"0x"+strings.Repeat("a", 64), "{delivery_id}", "dlv_"+strings.Repeat("a", 32))
	bodies := map[string]string{
		"/send-payment": `{"to":"` + payee + `","amount":1}`, "/create-api-key": `{"merchant_name":"Flood"}`, "/api-keys": `{"label":"flood"}`,
		"/webhooks": `{"url":"` + hang.URL + `"}`, "/recipients": `{"address":"` + payee + `","label":"flood"}`,
	}
	var paid atomic.Int64
	pay := func(ctx context.Context) (latency []float64) {
		var mu sync.Mutex
		until := time.Now().Add(pick(3*time.Second, 300*time.Millisecond))
		must.OK(b, each(ctx, 4, 4, func(ctx context.Context, _ int) error {
			tick := time.NewTicker(4 * time.Second / payRate)
			defer tick.Stop()
			for ; time.Now().Before(until); <-tick.C {
				at := time.Now()
				if _, err := ask(ctx, paying, int(paid.Add(1))); err != nil {
					return err
				}
				mu.Lock()
				latency = append(latency, millis(time.Since(at)))
				mu.Unlock()
			}
			return nil
		}))
		return latency
	}
	pay(b.Context()) // the wallets' first use, and connections
	for _, r := range httpapi.Routes {
		if r.Function == "" || strings.HasSuffix(r.Path, "/delete") && strings.HasPrefix(r.Path, "/webhooks") {
			continue // without its webhook the merchant has nothing left to test
		}
		b.Run(strings.ReplaceAll(fmt.Sprintf("endpoint=%s_%s", r.Method, strings.Trim(r.Path, "/")), "/", "·"), func(b *testing.B) {
			var alone, beside []float64 // p99 of each turn
			var asked, paidAlone, paidBeside int
			turn := func(p99 *[]float64, paid *int) {
				latency := pay(b.Context())
				*p99, *paid = append(*p99, quantile(latency, 0.99)), *paid+len(latency)
			}
			for range pick(turns, 1) {
				turn(&alone, &paidAlone)
				ctx, stop := context.WithCancel(b.Context())
				var flood sync.WaitGroup
				flood.Go(func() {
					tick := time.NewTicker(time.Second / floodRate)
					defer tick.Stop()
					for ; ctx.Err() == nil; <-tick.C {
						asked++
						flood.Go(func() { _, _ = flooding.Call(ctx, r.Method, params.Replace(r.Path), bodies[r.Path]) }) // refused or not
					}
				})
				turn(&beside, &paidBeside)
				stop()
				flood.Wait()
			}
			report(b, metrics{"requests": float64(asked), "alone-p99-ms": quantile(alone, 0.5), "p99-ms": quantile(beside, 0.5),
				"x-p99": quantile(beside, 0.5) / quantile(alone, 0.5), "x-payments": float64(paidAlone) / float64(paidBeside)})
		})
	}
}
