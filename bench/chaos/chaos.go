// Package chaos runs a whole stack as processes, breaks everything around it at
// random, and then holds the chain against what clients were answered: nothing
// may have been paid twice, nothing that was answered may be missing, and
// nothing may wait for a person.
//
// The chain process itself is not killed: an embedded chain forgets everything
// with its process, which no chain does. A proxy before it goes down instead.
package chaos

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	"remit/bench/lab"
	"remit/bench/report"
	"remit/internal/dynamo/dynamotest"
)

// Options say how much is broken for how long. None has a default.
type Options struct {
	For     time.Duration // how long things go wrong
	Rate    int           // payments a second
	Clients int
	Wallets int
	Seed    uint64
	Remit   string                           // the binary under test
	Dir     string                           // where the log and the wallets' file go
	Say     func(format string, args ...any) // progress, a line a time
}

// drainWithin is how long a stack may take, once nothing goes wrong any more,
// until every payment is final and announced. A fee bump takes three minutes.
const drainWithin = 4 * time.Minute

const blockTime = 500 * time.Millisecond

// A bed is everything that runs.
type bed struct {
	Options
	journal  *journal
	scene    lab.Scene
	chainID  uint64
	dynamodb string
	db, rpc  *Proxy
	server   *server
	hooks    *receiver
	clients  *clients
	what     map[string]int // faults by kind
	calm     time.Time      // when the last fault ended
	drained  time.Duration
	closers  []func()
}

// Run breaks a stack for a while and audits what is left. A promise that was
// broken is in the result; an error means that the run itself failed.
func Run(ctx context.Context, o Options) (*report.Result, error) {
	b := &bed{Options: o, what: map[string]int{}}
	defer b.close()
	if err := b.open(ctx); err != nil {
		return nil, err
	}
	o.Say("seed %d; the log is %s", o.Seed, b.journal.path)
	if err := b.rage(ctx); err != nil {
		return nil, err
	}
	return b.audit(ctx)
}

func (b *bed) close() {
	for i := len(b.closers) - 1; i >= 0; i-- {
		b.closers[i]()
	}
}

// open starts all processes.
func (b *bed) open(ctx context.Context) error {
	var err error
	if b.journal, err = openJournal(filepath.Join(b.Dir, fmt.Sprintf("chaos-%d.log", b.Seed))); err != nil {
		return err
	}
	b.closers = append(b.closers, b.journal.close)
	endpoint, end, err := dynamotest.Open()
	if err != nil {
		return fmt.Errorf("starting DynamoDB Local: %w", err)
	}
	b.dynamodb = endpoint
	b.closers = append(b.closers, end)
	file := filepath.Join(b.Dir, "chaos-chain.json")
	chain, scene, err := lab.StartChain(ctx, b.journal, b.Remit, file,
		"--block-time", blockTime.String(), "--wallets", fmt.Sprint(b.Wallets))
	if err != nil {
		return err
	}
	b.scene, b.chainID = scene, scene.ChainID
	b.closers = append(b.closers, chain.Kill)
	if b.db, err = proxyOf(ctx, "database", endpoint); err != nil {
		return err
	}
	if b.rpc, err = proxyOf(ctx, "node", scene.RPC); err != nil {
		return err
	}
	b.closers = append(b.closers, b.db.Close, b.rpc.Close)
	if b.hooks, err = newReceiver(ctx); err != nil {
		return err
	}
	b.closers = append(b.closers, func() { _ = b.hooks.server.Close() })
	return b.serve(ctx, file)
}

func proxyOf(ctx context.Context, name, endpoint string) (*Proxy, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return nil, err
	}
	return NewProxy(ctx, name, u.Host)
}

// serve starts the server under test and makes the merchant one of its
// customers.
func (b *bed) serve(ctx context.Context, file string) error {
	listen, err := freeAddress(ctx)
	if err != nil {
		return err
	}
	b.server = &server{binary: b.Remit, stderr: b.journal, args: []string{"local", "--listen", listen,
		"--rpc", b.rpc.URL(), "--token", b.scene.Token.Address, "--wallet-file", file,
		"--dynamodb", b.db.URL(), "--block-time", blockTime.String()}}
	b.closers = append(b.closers, b.server.stop)
	starting, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := b.server.start(starting); err != nil {
		return fmt.Errorf("starting the server: %w", err)
	}
	b.clients = &clients{merchant: lab.NewMerchant("http://" + listen), book: &book{}, refused: map[string]int{},
		pace: time.NewTicker(time.Second / time.Duration(b.Rate))}
	b.closers = append(b.closers, b.clients.pace.Stop)
	if err := b.clients.merchant.Join(ctx); err != nil {
		return err
	}
	a, err := b.clients.merchant.Call(ctx, "POST", "/webhooks", fmt.Sprintf(`{"url":%q}`, b.hooks.url), "")
	if err == nil && a.Status != 201 {
		err = fmt.Errorf("status %d %s", a.Status, a.Body.Code)
	}
	if err != nil {
		return fmt.Errorf("registering the webhook: %w", err)
	}
	return nil
}

// rage applies load and breaks things, then lets the clients finish.
func (b *bed) rage(ctx context.Context) error {
	faults, cancel := context.WithTimeout(ctx, b.For)
	defer cancel()
	var load, trouble sync.WaitGroup
	for i := range b.Clients {
		draw := rand.New(rand.NewPCG(b.Seed, uint64(1000+i)))
		load.Go(func() { b.clients.run(ctx, faults.Done(), draw) })
	}
	makers := make([]*mischief, 3)
	for i := range makers {
		makers[i] = &mischief{draw: rand.New(rand.NewPCG(b.Seed, uint64(i))), log: b.journal.logf, what: map[string]int{}}
	}
	var killErr error
	trouble.Go(func() { killErr = makers[0].killing(faults, ctx, b.server) })
	trouble.Go(func() { makers[1].disturbing(faults, b.db) })
	trouble.Go(func() { makers[2].disturbing(faults, b.rpc) })
	b.watch(faults)
	trouble.Wait()
	b.calm = time.Now()
	for _, m := range makers {
		for what, n := range m.what {
			b.what[what] += n
		}
	}
	b.journal.logf("nothing goes wrong from here on")
	if killErr != nil {
		return killErr
	}
	load.Wait()
	return ctx.Err()
}

// watch says how it goes until ctx ends.
func (b *bed) watch(ctx context.Context) {
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	begin := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			answered := 0
			all := b.clients.book.orders()
			for _, o := range all {
				if o.answer() != "" {
					answered++
				}
			}
			kills, _ := b.server.count()
			b.Say("%3.0f of %.0f s: %d payments asked for, %d answered 201, %d kills, %d requests without an answer",
				time.Since(begin).Seconds(), b.For.Seconds(), len(all), answered, kills, b.clients.failures.Load())
		}
	}
}

// A journal is the log of a run: faults and what the processes wrote.
type journal struct {
	mu   sync.Mutex
	file *os.File
	path string
}

func openJournal(path string) (*journal, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	return &journal{file: file, path: path}, nil
}

var _ io.Writer = (*journal)(nil)

// Write implements io.Writer.
func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.file.Write(b)
}

func (j *journal) logf(format string, args ...any) {
	_, _ = fmt.Fprintf(j, "%s CHAOS %s\n", time.Now().Format("15:04:05.000"), fmt.Sprintf(format, args...))
}

func (j *journal) close() { _ = j.file.Close() }
