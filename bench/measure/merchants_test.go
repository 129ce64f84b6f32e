package measure_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/proof/dynamotest"
	sdk "github.com/remit-payouts/remit/sdk/go"
)

// BenchmarkMerchants has 500 merchants pay for five minutes on DynamoDB Local, from one
// wallet at the rate that its window allows and from 50 wallets. Payments are refused for a
// full window or a merchant cap only, no round fails, and each payment made is mined once.
func BenchmarkMerchants(b *testing.B) {
	remit := build(b, nil, "github.com/remit-payouts/remit/cmd/remit")
	for _, row := range []struct {
		wallets int
		rate    float64 // payments a second
	}{{1, 20}, {50, 25}} {
		b.Run(fmt.Sprint("wallets=", row.wallets), func(b *testing.B) {
			log := &strings.Builder{}
			server, first := startLocalTo(b, log, remit, row.wallets, "--dynamodb", dynamotest.Start(b), "--fresh",
				"--window", "64", "--merchant-cap", "50")
			all, hashes, answers := make([]*sdk.Client, 500), make([][]string, 500), map[string]int{}
			for i := range all {
				all[i] = another(b, first)
			}
			var mu sync.Mutex
			var requests sync.WaitGroup
			n, begin, length := 0, time.Now(), pick(5*time.Minute, 5*time.Second)
			for ; time.Since(begin) < length; n++ {
				sleep(b.Context(), time.Until(begin.Add(time.Duration(float64(n)/row.rate*float64(time.Second)))))
				payment, by := n, n%len(all)
				requests.Go(func() {
					p, err := ask(b.Context(), all[by], payment)
					mu.Lock()
					defer mu.Unlock()
					if open, ok := errors.AsType[*sdk.OutcomeUnknown](err); ok {
						var problem struct{ Code string }
						_ = json.Unmarshal(open.Last.Body, &problem) // without an answer there is no code
						answers[fmt.Sprint(open.Last.Status, " ", problem.Code)]++
					} else if err != nil {
						answers[err.Error()]++
					} else {
						answers["201"]++
						hashes[by] = append(hashes[by], p.TxHash)
					}
				})
			}
			requests.Wait()
			for by, m := range all {
				allConfirmed(b, m, hashes[by])
			}
			found := sandboxTransfers(b, all[0])
			server.Kill()
			made, capped, full := answers["201"], answers["429 too_many_pending"], answers["503 payment_rail_unavailable"]
			if made+capped+full != n || made < n/2 {
				b.Errorf("of %d payments: %v", n, answers)
			}
			for i, hashes := range found {
				if len(hashes) != 1 || len(found) != made {
					b.Fatalf("payment %d is mined %d times; %d payments are made, %d mined", i, len(hashes), made, len(found))
				}
			}
			if failed := strings.Count(log.String(), `"msg":"settling"`); failed > 0 {
				b.Errorf("%d rounds failed:\n%s", failed, log)
			}
			report(b, metrics{"payments": float64(n), "made": float64(made), "capped": float64(capped), "window-full": float64(full)})
		})
	}
}
