package measure_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/proof/dynamotest"
	"github.com/remit-payouts/remit/internal/proof/must"

	"github.com/ethereum/go-ethereum/common"
)

var (
	nodesFlag = flag.String("nodes", "", "comma-separated nodes of the acceptance run: remit, arc, anvil, hardhat, ganache; empty for "+
		"a short run on the embedded chain")
	habitsFlag = flag.String("habits", "", "habits of the acceptance run, comma-separated and without commas of their own; empty for all")
	tableFlag  = flag.Bool("table", false, "write the results of the acceptance run to docs/chains.md")
)

// settleWithin is how long payments may take to settle once they are all made.
const settleWithin = 2 * time.Minute

// rateLimited is the habit whose payments are all made before it begins.
const rateLimited = "3 calls a batch, 20 requests a second"

// TestNodes is the acceptance run: payments through nodes of several authors, each
// behind a gateway with one habit after the other. Clients give up, ask twice and
// ask again; the server is killed twice with SIGKILL; one transaction in ten gets
// lost; one block is replaced. In the end every payment that a client asked for is
// mined once, settled and announced, with its hash, no wallet is paused and nothing
// is left over. Every tenth payment is a batch of 2 to 100 entries, through the contract
// that `remit batch deploy` makes.
func TestNodes(t *testing.T) {
	kinds, wanted := strings.Split(*nodesFlag, ","), strings.Split(*habitsFlag, ",")
	if *nodesFlag == "" {
		kinds, wanted = []string{"remit"}, []string{"3 calls a batch"}
	}
	remit := build(t, nil, "github.com/remit-payouts/remit/cmd/remit")
	for _, kind := range kinds {
		for _, h := range habits {
			if h.TokenGas && kind != arc || wanted[0] != "" && !slices.Contains(wanted, strings.ReplaceAll(h.Name, ",", "")) {
				continue
			}
			for tries, again := 1, true; again; tries++ {
				again = false
				t.Run(kind+"/"+h.Name, func(t *testing.T) {
					c := cell{node: kind, habit: h.Name}
					begin := time.Now()
					n, broken := accept(t, remit, kind, h)
					found := slices.Concat(slices.Collect(maps.Values(broken))...)
					if tries < 3 && slices.Equal(found, []string{noNoop}) {
						again = true
						say("%s, %s: again, since %s", kind, h.Name, noNoop)
						return
					}
					for promise, found := range broken {
						if len(found) > 0 {
							c.failed = append(c.failed, promise)
							t.Errorf("%s: %d: %.1000q", promise, len(found), found[:min(3, len(found))])
						}
					}
					c.text = fmt.Sprintf("%d in %.0f s", n, time.Since(begin).Seconds())
					say("%s, %s: %s %q", kind, h.Name, c.text, c.failed)
					if *tableFlag {
						writeTable(t, c) // at once: the whole run takes a quarter of an hour
					}
				})
			}
		}
	}
}

// noNoop reports a run that shows nothing, since by chance no request of a pair came too late.
const noNoop = "no nonce was left to a no-op"

// accept pays through a node with a habit. It returns how many payments it asked
// for, and the promises that were broken.
func accept(t *testing.T, remit, kind string, h habit) (int, map[string][]string) {
	payments, wallets := 60, 2
	switch {
	case *nodesFlag == "":
		payments = 30
	case h.Name == "none":
		payments = 500
	case h.Name == rateLimited:
		payments, wallets = 200, 1
	}
	t.Logf("-seed=%d", *seed)
	v := newVictim(t, "nodes-"+kind+"-"+strings.NewReplacer(" ", "-", ",", "").Replace(h.Name))
	n := startNode(t, v.log.Writer(), kind, wallets)
	v.chain, v.node, v.within = n.facts, n.Client, settleWithin
	honest := habits[0]
	g := newGateway(t, n.facts.RPCURL, h)
	file := filepath.Join(t.TempDir(), "wallets")
	must.OK(t, os.WriteFile(file, []byte(strings.Join(n.facts.PrivateKeys, "\n")+"\n"), 0o600))
	args := append(n.flags, "--dynamodb", dynamotest.Start(t), "--rpc", g.URL, "--wallet-file", file, "--confirmation-rule", "4",
		"--batch-contract", disburser.Address().String())
	if h.Beside {
		args = append(args, "--rpc", newGateway(t, n.facts.RPCURL, honest).URL)
	}
	if h.Gone {
		args = append(args, "--silent-after", "3s")
	}
	if h.Name == rateLimited || h.Lies || h.Gone {
		g.adopt(honest) // until the wallets pay batches
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute) // for the clients
	defer cancel()
	if err := v.open(t.Context(), t, remit, args...); err != nil {
		v.breaks("starting the server", "%v", err)
		return payments, v.broken
	}
	v.orders, v.batches = make([][]string, payments), !n.used
	if n.used {
		must.OK(t, v.resume(ctx))
	} else if err := v.enableBatches(ctx); err != nil {
		v.breaks("batches by `remit batch`", "%v", err)
		return payments, v.broken
	}
	if h.Lies || h.Gone {
		g.adopt(h)
	}
	n.still(h.Name == rateLimited)
	var load sync.WaitGroup
	load.Go(func() {
		_ = each(ctx, 16, payments, func(ctx context.Context, i int) error {
			draw := rand.New(rand.NewPCG(*seed, uint64(i)))
			var both sync.WaitGroup
			if draw.IntN(100) < doubled || h.Twins {
				twin := rand.New(rand.NewPCG(draw.Uint64(), draw.Uint64()))
				both.Go(func() { v.pursue(ctx, i, twin) })
			}
			v.pursue(ctx, i, draw)
			both.Wait()
			return nil
		})
	})
	again := func() error { v.server.Kill(); return v.serve(t.Context()) }
	for i, trouble := range []func() error{again, n.fork, again} {
		if h.Name == rateLimited && i == 1 {
			continue // no block is made yet
		}
		for v.answered() < (i+1)*payments/4 && ctx.Err() == nil {
			time.Sleep(20 * time.Millisecond)
		}
		if err := trouble(); err != nil {
			v.breaks("the run itself", "trouble %d: %v", i, err)
			return payments, v.broken
		}
	}
	load.Wait()
	v.askAgain(ctx)
	for i := range v.orders {
		if v.answer(i) == "" {
			v.breaks("payments not answered 201 within four minutes", "order-%d", i)
		}
	}
	ctx = t.Context()
	switch {
	case h.Name == rateLimited:
		g.adopt(h)
		n.still(false)
	case h.Lies:
		v.sufferLies(ctx)
		g.adopt(honest)
	}
	must.OK(t, v.drain(ctx))
	must.Get(v.audit(ctx, true))(t)
	if h.TokenGas {
		must.OK(t, v.empty(ctx))
	}
	g.adopt(honest) // an audit asks every node, and takes no silence for an answer
	noops := v.auditBooks(ctx)
	if n.used {
		noops -= wallets
	}
	if h.Twins && noops == 0 && len(v.broken["payments answered 201 and not mined"]) == 0 {
		v.breaks("the run itself", noNoop)
	}
	v.auditAPI(ctx)
	v.log.Printf("%d requests through the gateway, %d transactions lost", g.requests.Load(), g.lost.Load())
	return payments, v.broken
}

// resume lets wallets pay that the first request finds used, and so leaves paused.
func (v *victim) resume(ctx context.Context) error {
	for ctx.Err() == nil {
		_, _ = ask(ctx, v.merchant, 0) // is refused
		if left, err := v.unfinished(ctx); err == nil && len(left) == len(v.chain.Wallets) {
			break
		}
		sleep(ctx, 100*time.Millisecond)
	}
	return must.Err(v.operate(ctx, "wallet", "resume", "--all"))
}

// operate runs an operator's command and returns its output.
func (v *victim) operate(ctx context.Context, command ...string) (string, error) {
	said, err := exec.CommandContext(ctx, v.command[0], append(command, "--yes", "--stack", v.merchant.URL)...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("remit %v: %w: %s", command, err, said)
	}
	v.log.Printf("remit %v: %s", command, said)
	return string(said), err
}

// enableBatches has an operator make the contract and give each wallet's allowance, and
// returns when all of that is confirmed.
func (v *victim) enableBatches(ctx context.Context) error {
	for said := ""; !strings.Contains(said, "The contract is there"); sleep(ctx, 100*time.Millisecond) {
		var err error
		key := fmt.Sprint("deploy-", v.chain.ChainID) // all runs share the tables
		if said, err = v.operate(ctx, "batch", "deploy", v.chain.Wallets[0].Address.String(), "--key", key); err != nil {
			return err
		}
	}
	for i, w := range v.chain.Wallets {
		if _, err := v.operate(ctx, "batch", "approve", w.Address.String(), "--amount", "unlimited", "--key",
			fmt.Sprint("approve-", v.chain.ChainID, i)); err != nil {
			return err
		}
	}
	for ctx.Err() == nil {
		if left, err := v.unfinished(ctx); err == nil && len(left) == 0 {
			break
		}
		sleep(ctx, 100*time.Millisecond)
	}
	return ctx.Err()
}

// empty has an operator move all that a wallet has, which leaves two fees where gas is paid in the token: a stack that
// believes in a balance of ether beside it leaves nothing to pay the first one.
func (v *victim) empty(ctx context.Context) error {
	_, err := v.operate(ctx, "wallet", "move", v.chain.Wallets[0].Address.String(), "--token", "all", "--to", stranger, "--key",
		fmt.Sprint("all-", v.chain.ChainID))
	return errors.Join(err, v.drain(ctx))
}

// answered returns how many payments have an answer.
func (v *victim) answered() (n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, hashes := range v.orders {
		n += min(1, len(hashes))
	}
	return n
}

// sufferLies waits until every payment is mined and long final, and holds that
// none ended wrongly.
func (v *victim) sufferLies(ctx context.Context) {
	for deadline := time.Now().Add(v.within); time.Now().Before(deadline); sleep(ctx, 200*time.Millisecond) {
		if found, err := transfers(ctx, v.node, common.Address(v.chain.Token.Address)); err == nil && len(found) == v.entries() {
			break
		}
	}
	sleep(ctx, 5*time.Second) // ten blocks
	for i := range v.orders {
		if p, err := v.merchant.Get(ctx, v.answer(i)); err != nil || p.Status == "failed" ||
			v.hooks.of(v.answer(i)).Type == "payment.failed" {
			v.breaks("payments that a lie ended", "order-%d: %+v %v", i, p, err)
		}
	}
}

// entries returns how many transfers all payments ask for.
func (v *victim) entries() (n int) {
	for i := range v.orders {
		n += v.size(i)
	}
	return n
}

// A cell is the result of one node with one habit.
type cell struct {
	node, habit, text string
	failed            []string // the promises that were broken
}

// chainsPage is the page whose table TestNodes writes, between two marks.
const (
	chainsPage             = root + "/docs/chains.md"
	tableBegin, tableClose = "<!-- nodes: generated by the acceptance runs against nodes of others -->\n", "<!-- end of nodes -->\n"
)

// readTable returns the page around the table and the cells in it, by habit and
// then by the node's title.
func readTable(t *testing.T) (before, after string, cells map[string]map[string]string) {
	t.Helper()
	before, rest, _ := strings.Cut(string(must.Get(os.ReadFile(chainsPage))(t)), tableBegin)
	table, after, ok := strings.Cut(rest, tableClose)
	if !ok {
		t.Fatalf("%s has no place for the table", chainsPage)
	}
	cells = map[string]map[string]string{}
	var head []string
	for line := range strings.Lines(strings.TrimSpace(table)) {
		var row []string
		for _, text := range strings.Split(strings.Trim(line, "|\n"), "|") {
			row = append(row, strings.TrimSpace(text))
		}
		if head == nil {
			head = row
		}
		name, _, _ := strings.Cut(row[0], " (")
		cells[name] = map[string]string{}
		for i := 1; i < min(len(row), len(head)); i++ {
			cells[name][head[i]] = row[i]
		}
	}
	return before, after, cells
}

// writeTable puts a result into the table and keeps the other ones.
func writeTable(t *testing.T, c cell) {
	t.Helper()
	before, after, cells := readTable(t)
	var page strings.Builder
	page.WriteString(before + tableBegin + "\n| habit |")
	for _, k := range nodeKinds {
		page.WriteString(" " + k.title + " |")
	}
	page.WriteString("\n|" + strings.Repeat(" --- |", 1+len(nodeKinds)) + "\n")
	for _, h := range habits {
		page.WriteString("| " + h.Name)
		if h.Seen != "" {
			page.WriteString(" (" + h.Seen + ")")
		}
		for _, k := range nodeKinds {
			text := cells[h.Name][k.title]
			if c.node == k.name && c.habit == h.Name {
				if text = c.text; len(c.failed) > 0 {
					text = "**not passed**: " + strings.Join(slices.Sorted(slices.Values(c.failed)), "; ")
				}
			}
			page.WriteString(" | " + text)
		}
		page.WriteString(" |\n")
	}
	must.OK(t, os.WriteFile(chainsPage, []byte(page.String()+"\n"+tableClose+after), 0o644))
}

// TestTableOfNodesIsWhole holds the page against the nodes and habits of the run.
func TestTableOfNodesIsWhole(t *testing.T) {
	_, _, cells := readTable(t)
	for _, h := range habits {
		for _, k := range nodeKinds {
			if text := cells[h.Name][k.title]; text == "" && (k.tokenGas || !h.TokenGas) {
				t.Errorf("docs/chains.md says nothing of %q on %s: make nodes ARGS='-nodes=%s'", h.Name, k.title, k.name)
			}
		}
		delete(cells, h.Name)
	}
	delete(cells, "habit")
	delete(cells, "---")
	if len(cells) > 0 {
		t.Errorf("docs/chains.md has results of %q, which are no habits", slices.Collect(maps.Keys(cells)))
	}
}
