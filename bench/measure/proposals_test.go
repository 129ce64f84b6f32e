package measure_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/ethclient"

	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
)

// BenchmarkProposals releases the proposals of ten merchants that are due at once, by the runs of a minute, on DynamoDB
// Local and blocks of a second. The chain must hold each once, and proposals that are not due must cost a run no read.
func BenchmarkProposals(b *testing.B) {
	const merchants, wallets = 10, 16
	n, ctx := pick(1000, 50), b.Context()
	m, db, tables := newTables(b)
	c := must.Get(devnet.Start(ctx, devnet.Config{Listen: "127.0.0.1:0", Wallets: wallets, BlockTime: time.Second, Now: time.Now}))(b)
	b.Cleanup(func() { _ = c.Close() })
	r := newRig(b, c, c.Wallets(), dynamo.NewPayments(db, tables.Payments), far,
		webhook.NewPublisher(dynamo.NewWebhooks(db, tables.Webhooks), (&sender{}).jobsOf()))
	propose := func(before int, at time.Time) {
		by := proposal.Author{Key: "key_bench", Root: "key_bench"}
		must.OK(b, each(ctx, wallets, n, func(ctx context.Context, i int) error {
			_, _, err := r.release.Propose(ctx, proposal.Proposal{By: by, Life: time.Hour, NotBefore: at},
				payment.Request{Merchant: fmt.Sprint(merchant, i%merchants), Mode: "test", IdempotencyKey: fmt.Sprint("order-", before+i),
					To: must.Get(token.ParseAddress(payee))(b), Amount: token.Units(uint64(base + before + i))}, true)
			return err
		}))
	}
	run := func() (released int) {
		ctx, cancel := context.WithTimeout(ctx, 55*time.Second) // the function's
		defer cancel()
		released, _, err := r.release.Run(ctx)
		must.OK(b, err)
		return released
	}
	for _, waiting := range []int{0, n} {
		if waiting > 0 {
			propose(n, time.Now().Add(time.Hour))
		}
		m.take()
		released, used := run(), m.take().sum()
		if released > 0 {
			b.Fatalf("%d were released early", released)
		}
		emit(b, fmt.Sprint("waiting=", waiting), used.per(1, metrics{}))
	}
	settling, stop := context.WithCancel(ctx)
	var settled sync.WaitGroup
	settled.Go(func() {
		for ; settling.Err() == nil; sleep(settling, time.Second) {
			if _, err := r.settler.Round(settling, "bench", true); err != nil && settling.Err() == nil {
				b.Error(err)
			}
		}
	})
	propose(0, time.Time{})
	released, runs, began := 0, 0, time.Now()
	for ; released < n && runs < 5; runs++ {
		sleep(ctx, time.Until(began.Add(time.Duration(runs)*time.Minute)))
		released += run()
	}
	took := time.Since(began)
	await(b, c, c.Wallets(), released)
	stop()
	settled.Wait()
	emit(b, "due", metrics{"s": took.Seconds(), "runs": float64(runs), "proposals": float64(released)})
	node := must.Get(ethclient.DialContext(ctx, c.URL()))(b)
	paid := must.Get(transfers(ctx, node, common.Address(c.Token().Contract)))(b)
	for i := range n {
		if len(paid[i]) != 1 {
			b.Errorf("proposal %d was paid %d times", i, len(paid[i]))
		}
	}
	if len(paid) != n {
		b.Errorf("%d payments, not %d", len(paid), n)
	}
}
