package measure_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/ethereum/go-ethereum/common"

	"github.com/remit-payouts/remit/internal/proof/dynamotest"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// stackTables are the tables of remit local. The first has the merchants' keys.
var stackTables = []string{"remit-api-keys", "remit-payments", "remit-webhooks"}

// TestRecover pays under load, kills the server with SIGKILL, and deletes every table, or takes all of them back to a
// copy that was made under load. After remit recover every request is made again: the chain has one transfer for each,
// and the answer names it. The keys of merchants are put back: who a merchant is, no chain tells.
func TestRecover(t *testing.T) {
	kinds, payments := strings.Split(*nodesFlag, ","), 300
	if *nodesFlag == "" {
		kinds, payments = []string{"remit"}, 60
	}
	dynamotest.Start(t) // before anything is built
	remit := build(t, nil, "github.com/remit-payouts/remit/cmd/remit")
	for _, kind := range kinds {
		for _, loss := range []string{"tables deleted", "tables copied earlier"} {
			t.Run(kind+"/"+loss, func(t *testing.T) {
				begin := time.Now()
				v := newVictim(t, "recover-"+kind+"-"+strings.ReplaceAll(loss, " ", "-"))
				report := loseAndRecover(t, v, remit, kind, payments, loss == "tables deleted")
				for promise, found := range v.broken {
					t.Errorf("%s: %d: %.1000q", promise, len(found), found[:min(3, len(found))])
				}
				say("%s, %s: %d payments in %.0f s; %s", kind, loss, payments, time.Since(begin).Seconds(), report)
			})
		}
	}
}

// loseAndRecover returns the report of remit recover.
func loseAndRecover(t *testing.T, v *victim, remit, kind string, payments int, deleted bool) string {
	n := startNode(t, v.log.Writer(), kind, 2)
	v.chain, v.node, v.orders = n.facts, n.Client, make([][]string, payments)
	file := filepath.Join(t.TempDir(), "wallets")
	must.OK(t, os.WriteFile(file, []byte(strings.Join(n.facts.PrivateKeys, "\n")+"\n"), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	must.OK(t, v.open(ctx, t, remit, append(n.flags, "--dynamodb", dynamotest.Start(t), "--rpc", n.facts.RPCURL, "--wallet-file", file,
		"--confirmation-rule", "4", "--window", "64")...))
	db := dynamotest.Client(t)
	under, stop := context.WithCancel(ctx)
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		_ = each(under, 16, payments, func(ctx context.Context, i int) error {
			for ctx.Err() == nil {
				if p, err := ask(ctx, v.merchant, i); err == nil {
					v.mu.Lock()
					v.orders[i] = append(v.orders[i], p.TxHash)
					v.mu.Unlock()
					break
				}
				sleep(ctx, 50*time.Millisecond)
			}
			return nil
		})
	}()
	until := func(share int) {
		for v.answered() < payments*share/10 && ctx.Err() == nil {
			sleep(ctx, 10*time.Millisecond)
		}
	}
	until(3)
	image := readTables(t, db)
	until(9)
	v.server.Kill()
	stop()
	<-loaded
	keys := readTables(t, db)[stackTables[0]]
	for _, name := range stackTables {
		must.Get(db.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &name}))(t)
	}
	must.OK(t, v.serve(ctx)) // makes the tables
	if deleted {
		image = map[string][]map[string]types.AttributeValue{stackTables[0]: keys}
	} else {
		v.server.Kill() // no process works on tables that are being filled
	}
	for name, items := range image {
		for _, item := range items {
			must.Get(db.PutItem(ctx, &dynamodb.PutItemInput{TableName: &name, Item: item}))(t)
		}
	}
	if !deleted {
		must.OK(t, v.serve(ctx))
	}
	command := exec.CommandContext(ctx, remit, "recover", "--stack", v.merchant.URL, "--yes", "--resume")
	report, err := command.CombinedOutput()
	v.log.Printf("remit recover: %s", report)
	if err != nil || !strings.Contains(string(report), "the wallets pay again") {
		t.Fatalf("remit recover: %v\n%s", err, report)
	}
	again := make([]string, payments)
	_ = each(ctx, 16, payments, func(ctx context.Context, i int) error {
		for again[i] == "" && ctx.Err() == nil {
			if p, err := ask(ctx, v.merchant, i); err == nil {
				again[i] = p.TxHash
			} else {
				sleep(ctx, 100*time.Millisecond)
			}
		}
		return nil
	})
	for left := []string{"unknown"}; len(left) > 0 && ctx.Err() == nil; sleep(ctx, 500*time.Millisecond) {
		left = must.Get(v.unfinished(ctx))(t)
	}
	found := must.Get(transfers(ctx, v.node, common.Address(v.chain.Token.Address)))(t)
	if len(found) != payments {
		v.breaks("payments that the chain has", "%d, want %d", len(found), payments)
	}
	for i := range again {
		p, err := v.merchant.Get(ctx, again[i])
		switch made := found[i]; {
		case len(made) != 1:
			v.breaks("payments that are not made once", "order-%d: %v", i, made)
		case again[i] != made[0].String() || v.answer(i) != "" && v.answer(i) != again[i]:
			v.breaks("answers that do not name the payment that was made", "order-%d: %s, then %s, and made by %s", i, v.answer(i), again[i],
				made[0])
		case err != nil || p.Status != "confirmed":
			v.breaks("payments that the merchant does not find", "order-%d: %s %v", i, p.Status, err)
		}
	}
	v.auditBooks(ctx)
	lines := strings.Split(strings.TrimSpace(string(report)), "\n")
	return fmt.Sprintf("%q", slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "Every wallet") }))
}

// readTables returns every item of the stack's tables.
func readTables(t *testing.T, db *dynamodb.Client) map[string][]map[string]types.AttributeValue {
	t.Helper()
	items := map[string][]map[string]types.AttributeValue{}
	for _, name := range stackTables {
		pages := dynamodb.NewScanPaginator(db, &dynamodb.ScanInput{TableName: &name})
		for pages.HasMorePages() {
			items[name] = append(items[name], must.Get(pages.NextPage(t.Context()))(t).Items...)
		}
	}
	return items
}
