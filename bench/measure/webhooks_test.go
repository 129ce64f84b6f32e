package measure_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"remit/bench/lab"
	"remit/internal/client"
)

// BenchmarkWebhooks measures how long healthy endpoints of `remit local` wait for
// their webhooks, beside none and beside ten endpoints that hang or refuse.
func BenchmarkWebhooks(b *testing.B) {
	const merchants, endpoints = 10, 10
	remit := lab.Build(b)
	payments := pick(100, 10)
	for _, bad := range []int{0, 5} { // of each kind
		b.Run(fmt.Sprintf("hanging=%d/refusing=%d", bad, bad), func(b *testing.B) {
			server, url := lab.Local(b, remit, 16)
			var all []*client.Client
			var healthy []*lab.Receiver
			for i := range merchants {
				m := lab.Merchant(b, url)
				all = append(all, m)
				for n := range endpoints {
					r := lab.NewReceiver(b, nil)
					switch {
					case n == 0 && i < bad:
						r = lab.NewReceiver(b, hang)
					case n == 1 && i < bad:
						r.Close() // its port refuses
					default:
						healthy = append(healthy, r)
					}
					if _, err := m.CreateWebhook(b.Context(), r.URL, ""); err != nil {
						b.Fatal(err)
					}
				}
			}
			if err := lab.Each(b.Context(), 4*merchants, payments*merchants, func(ctx context.Context, i int) error {
				n := i / merchants
				_, err := all[i%merchants].Send(ctx, client.Order{To: lab.Payee, Amount: json.Number(fmt.Sprint(lab.Base + n))}, fmt.Sprint("order-", n))
				return err
			}); err != nil {
				b.Fatal(err)
			}
			var delays []float64
			repeated := 0
			for begin := time.Now(); len(healthy) > 0; {
				switch r := healthy[0]; {
				case r.Count() == payments:
					events, wrong := r.Events()
					for _, e := range events {
						delays = append(delays, e.At.Sub(e.Timestamp).Seconds())
						repeated += e.Times - 1
					}
					if len(wrong) > 0 {
						b.Errorf("wrong webhooks: %v", wrong)
					}
					healthy = healthy[1:]
				case time.Since(begin) > 90*time.Second:
					b.Fatalf("%d of %d webhooks arrived at %s", r.Count(), payments, r.URL)
				default:
					time.Sleep(50 * time.Millisecond)
				}
			}
			_, peak := server.Usage()
			lab.Report(b, map[string]float64{"webhooks": float64(len(delays)), "p50-s": lab.Quantile(delays, 0.5), "p99-s": lab.Quantile(delays, 0.99),
				"worst-s": lab.Quantile(delays, 1), "repeated": float64(repeated), "peak-MB": peak})
		})
	}
}

// hang answers only when the sender has given up.
func hang(r *http.Request, _ lab.Event) int {
	<-r.Context().Done()
	return http.StatusOK
}
