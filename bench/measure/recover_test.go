package measure_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/proof/dynamotest"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// keyTable has the merchants' keys.
const keyTable = "remit-api-keys"

// BenchmarkRecover pays under load, kills the server with SIGKILL, and empties every table, or takes all of them back
// to a copy that was made of them as another SIGKILL left them. After remit recover every request is made again: the
// chain has one transfer for each, and the answer names it. The keys of merchants are put back: no chain has them.
func BenchmarkRecover(t *testing.B) {
	remit := build(t, nil, "github.com/remit-payouts/remit/cmd/remit")
	for kind := range strings.SplitSeq(*nodesFlag, ",") {
		for _, loss := range []string{"tables emptied", "tables copied earlier"} {
			t.Run(kind+"/"+loss, func(t *testing.B) {
				begin := time.Now()
				v := newVictim(t, "recover-"+kind+"-"+strings.ReplaceAll(loss, " ", "-"))
				report := loseAndRecover(t, v, remit, kind, loss == "tables emptied")
				for promise, found := range v.broken {
					if len(found) > 0 {
						t.Errorf("%s: %d: %.1000q", promise, len(found), found[:min(3, len(found))])
					}
				}
				say("%s, %s: %d payments in %.0f s; %s", kind, loss, len(v.orders), time.Since(begin).Seconds(), report)
			})
		}
	}
}

// loseAndRecover returns the report of remit recover.
func loseAndRecover(t *testing.B, v *victim, remit, kind string, emptied bool) string {
	const payments = 300
	n := startNode(t, v.log.Writer(), kind, 2)
	v.chain, v.node, v.orders = n.facts, n.Client, make([][]string, payments)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	must.OK(t, v.open(ctx, t, remit, append(n.flags(t), "--rpc", n.facts.RPCURL, "--window", "64")...))
	request := func(ctx context.Context, i int) error {
		for draw := rand.New(rand.NewPCG(*seed, uint64(i))); ctx.Err() == nil && !v.ask(ctx, i, draw); {
			sleep(ctx, 50*time.Millisecond)
		}
		return nil
	}
	under, stop := context.WithCancel(ctx)
	loaded := make(chan error)
	go func() { loaded <- each(under, 16, payments, request) }()
	until := func(share int) {
		for v.answered() < payments*share/10 && ctx.Err() == nil {
			sleep(ctx, 10*time.Millisecond)
		}
	}
	until(3)
	v.server.Kill()
	image := dynamotest.Read(t)
	must.OK(t, v.serve(ctx))
	until(9)
	v.server.Kill()
	stop()
	must.OK(t, <-loaded)
	if emptied {
		image = dynamotest.Image{keyTable: dynamotest.Read(t)[keyTable]}
	}
	image.Restore(t)
	must.OK(t, v.serve(ctx))
	report, err := v.operate(ctx, "recover", "--resume")
	if err != nil || !strings.Contains(report, "the wallets pay again") {
		t.Fatalf("%v\n%s", err, report)
	}
	must.OK(t, each(ctx, 16, payments, request))
	must.OK(t, v.settled(ctx))
	must.Get(v.audit(ctx, true))(t)
	for i := range v.orders {
		if p, err := v.merchant.Get(ctx, v.answer(i)); err != nil || p.Status != "confirmed" {
			v.breaks("payments that the merchant does not find", "order-%d: %s %v", i, p.Status, err)
		}
	}
	v.auditBooks(ctx)
	lines := strings.Split(strings.TrimSpace(report), "\n")
	return fmt.Sprintf("%q", slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "Every wallet") }))
}
