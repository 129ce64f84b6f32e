// Package chaos_test runs a whole stack as processes, breaks everything around it
// at random, and then holds the chain against the answers that clients got: no
// payment may be made twice, no payment that was answered 201 may be missing, and
// none may wait for a person.
//
// The chain's process itself is not killed: an embedded chain forgets everything
// with its process, which no chain does. A proxy before it goes down instead.
package chaos_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"hash/crc32"
	"log"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"remit/bench/lab"
	"remit/internal/devnet"
	"remit/internal/dynamo/dynamotest"
)

var (
	length = flag.Duration("for", 10*time.Minute, "how long things go wrong")
	rate   = flag.Int("rate", 40, "payments a second")
	seed   = flag.Uint64("seed", uint64(time.Now().UnixNano()), "the seed of all faults and habits")
)

const (
	blockTime = 500 * time.Millisecond
	// drainWithin is how long a stack may take, once nothing goes wrong any more,
	// until every payment is final and announced. A fee bump takes three minutes.
	drainWithin = 4 * time.Minute
)

// A stack is everything that runs.
type stack struct {
	log      *log.Logger // of the faults, and of the processes' own words
	chain    devnet.Facts
	dynamodb string
	db, rpc  *proxy
	server   *server
	hooks    *lab.Receiver
	clients  *clients
}

// BenchmarkChaos breaks a stack for a while and audits the state it is left in. A
// promise that was broken fails it.
func BenchmarkChaos(b *testing.B) {
	s := start(b)
	ctx := b.Context()
	faults := s.rage(b)
	calm := time.Now()
	say("waiting until nothing is left to do")
	first, last := &audit{broken: map[string][]string{}}, &audit{broken: map[string][]string{}}
	must(b, first.drain(ctx, s))
	drained := time.Since(calm)
	must(b, first.chain(ctx, s, false))
	say("asking again for payments that clients forgot: %d payments are mined 0 times, %d once, %d more often", first.mined[0], first.mined[1], first.mined[2])
	_ = lab.Each(ctx, 16, len(s.clients.all), func(ctx context.Context, i int) error { // each order has its key: a payment made meanwhile is only named
		draw := rand.New(rand.NewPCG(*seed, uint64(10_000+i)))
		for try := 0; try < 100 && s.clients.all[i].hash == "" && !s.clients.ask(ctx, s.clients.all[i], draw); try++ {
			lab.Sleep(ctx, 100*time.Millisecond)
		}
		return nil
	})
	must(b, last.drain(ctx, s))
	must(b, last.chain(ctx, s, true))
	arrived := last.api(ctx, s)
	s.report(b, faults, first, last, drained, arrived)
	for _, promise := range promises {
		for _, found := range append(first.broken[promise], last.broken[promise]...) {
			b.Errorf("%s: %s", promise, found)
		}
	}
	if len(s.server.kills) == 0 {
		b.Error("the server was never killed: the run was too short")
	}
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// say tells progress on standard error: standard output is the results.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// start starts all processes, and makes the merchant a customer of the server.
func start(b *testing.B) *stack {
	dir := filepath.Join(lab.Root, ".cache", "chaos")
	must(b, os.MkdirAll(dir, 0o755))
	file, err := os.Create(filepath.Join(dir, fmt.Sprintf("chaos-%d.log", *seed)))
	must(b, err)
	say("seed %d; the log is %s", *seed, file.Name())
	s := &stack{log: log.New(file, "CHAOS ", log.Lmicroseconds)}
	var end func()
	s.dynamodb, end, err = dynamotest.Open()
	must(b, err)
	b.Cleanup(end)
	remit, wallets := lab.Build(b), filepath.Join(dir, "chaos-chain.json")
	chain, lines, err := lab.Start(b.Context(), file, "}", remit, "chain", "--chain-listen", "127.0.0.1:0", "--block-time", blockTime.String(), "--wallets", "4")
	must(b, err)
	b.Cleanup(chain.Kill)
	text := []byte(strings.Join(lines, "\n"))
	must(b, json.Unmarshal(text, &s.chain))
	must(b, os.WriteFile(wallets, text, 0o600)) // with the private keys
	s.db, s.rpc = newProxy(b, "database", s.dynamodb), newProxy(b, "node", s.chain.RPCURL)
	free, err := net.Listen("tcp", "127.0.0.1:0") // the server takes the same address after every restart
	must(b, err)
	must(b, free.Close())
	s.server = &server{binary: remit, log: s.log, args: []string{"local", "--listen", free.Addr().String(), "--rpc", s.rpc.url(),
		"--token", s.chain.Token.Address.String(), "--wallet-file", wallets, "--dynamodb", s.db.url(), "--block-time", blockTime.String()}}
	starting, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	must(b, s.server.start(starting))
	b.Cleanup(func() { s.server.process.Kill() })
	s.hooks = lab.NewReceiver(b, func(_ *http.Request, e lab.Event) int {
		if e.Times == 1 && crc32.ChecksumIEEE([]byte(e.ID))%20 == 0 {
			return http.StatusInternalServerError // one event in twenty, so that retries are part of the test
		}
		return http.StatusOK
	})
	s.clients = &clients{merchant: lab.Merchant(b, "http://"+free.Addr().String()), refused: map[string]int{}, pace: time.NewTicker(time.Second / time.Duration(*rate))}
	b.Cleanup(s.clients.pace.Stop)
	_, err = s.clients.merchant.CreateWebhook(b.Context(), s.hooks.URL, "")
	must(b, err)
	return s
}

// rage applies load and breaks things, lets the clients finish, and returns the
// faults by kind.
func (s *stack) rage(b *testing.B) map[string]int {
	faults, cancel := context.WithTimeout(b.Context(), *length)
	defer cancel()
	var load, trouble sync.WaitGroup
	for i := range 24 {
		load.Go(func() { s.clients.run(b.Context(), faults, rand.New(rand.NewPCG(*seed, uint64(1000+i)))) })
	}
	killer, dbFaults, rpcFaults := newNemesis(0, s.log), newNemesis(1, s.log), newNemesis(2, s.log)
	var killErr error
	trouble.Go(func() { killErr = killer.kill(b.Context(), faults, s.server) })
	trouble.Go(func() { dbFaults.disturb(faults, s.db) })
	trouble.Go(func() { rpcFaults.disturb(faults, s.rpc) })
	begin := time.Now()
	for lab.Sleep(faults, 10*time.Second); faults.Err() == nil; lab.Sleep(faults, 10*time.Second) {
		say("%3.0f of %.0f s: %d payments asked for, %d requests without an answer", time.Since(begin).Seconds(), length.Seconds(),
			len(s.clients.orders()), s.clients.failures.Load())
	}
	trouble.Wait()
	s.log.Print("nothing goes wrong from here on")
	must(b, killErr)
	load.Wait()
	maps.Copy(dbFaults.faults, rpcFaults.faults)
	return dbFaults.faults
}

// report emits everything that happened.
func (s *stack) report(b *testing.B, faults map[string]int, first, last *audit, drained time.Duration, arrived int) {
	fmt.Printf("seed: %d\nfor: %s\n", *seed, *length)
	count := func(name string, n int) {
		lab.Emit(b, "happened="+name, map[string]float64{"count": float64(n)})
	}
	count("payments asked for", len(s.clients.all))
	count("requests", int(s.clients.requests.Load()))
	count("requests without an answer, or with one to retry", int(s.clients.failures.Load()))
	count("kills of the server (SIGKILL)", len(s.server.kills))
	count("starts that failed because a service was down", s.server.failed)
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		count("faults, "+name, faults[name])
	}
	for _, p := range []*proxy{s.db, s.rpc} {
		count("connections reset, "+p.name, int(p.resets.Load()))
		count("answers lost, "+p.name, int(p.lost.Load()))
	}
	count("events that arrived, repetitions included", arrived)
	both := func(name string, first, last int) {
		lab.Emit(b, "chain="+name, map[string]float64{"faults-over": float64(first), "asked-again": float64(last)})
	}
	for i, name := range []string{"payments mined 0 times", "payments mined once", "payments mined twice or more"} {
		both(name, first.mined[i], last.mined[i])
	}
	both("nonces filled with a no-op", first.noops, last.noops)
	toFirst, toAll := s.recoveries()
	for name, seconds := range map[string][]float64{"1, from serving again after a kill to the first 201": toFirst,
		"2, to the 201 of every payment under way": toAll, "3, from the end of all faults to nothing left to do": {drained.Seconds()}} {
		lab.Emit(b, "recovery="+name, map[string]float64{"median-s": lab.Quantile(seconds, 0.5), "p90-s": lab.Quantile(seconds, 0.9), "worst-s": lab.Quantile(seconds, 1)})
	}
	for _, promise := range promises {
		lab.Emit(b, "broken="+promise, map[string]float64{"count": float64(len(first.broken[promise]) + len(last.broken[promise]))})
	}
}
