// Package torture_test counts how often a payout service pays for one Idempotency-Key while it is killed, answers and
// requests are lost, held and repeated, and its database is taken back to a copy. The chain is the judge.
package torture_test

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
	"github.com/remit-payouts/remit/internal/sandbox/local/localtest"
)

var seed = flag.Uint64("seed", 1, "the seed of the faults")

func TestMain(m *testing.M) { os.Exit(localtest.Main(m, &remitPath)) }

// A fate is one way in which a gateway treats a request.
type fate int

const (
	carried fate = iota
	requestLost
	answerLost
	held  // the client's connection is reset, and the request arrives seconds later
	twice // at once
	refused
)

var fates = [...]string{"carried", "requests lost", "answers lost", "requests held", "requests sent twice", "answered 502"}

// A gateway stands before a service.
type gateway struct {
	percent [len(fates)]int // of requests, by fate; the rest is carried
	mu      sync.Mutex
	draw    *rand.Rand
	service string // its address as it runs now
	met     [len(fates)]int
	holds   sync.WaitGroup
}

// loses sets the percentage of answers that are lost.
func (g *gateway) loses(percent int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.percent[answerLost] = percent
}

// meets draws the fate of a request and returns it with a time that holds it.
func (g *gateway) meets() (f fate, hold time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for n, i := g.draw.IntN(100), 1; i < len(fates) && f == carried; i++ {
		if n -= g.percent[i]; n < 0 {
			f = fate(i)
		}
	}
	g.met[f]++
	return f, time.Duration(1000+g.draw.IntN(9000)) * time.Millisecond
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	carry := func() (*http.Response, error) {
		g.mu.Lock()
		url := g.service + r.URL.Path
		g.mu.Unlock()
		q, err := http.NewRequest(r.Method, url, bytes.NewReader(body)) // the client's end is not the request's
		if err != nil {
			return nil, err
		}
		q.Header = r.Header.Clone()
		return http.DefaultClient.Do(q)
	}
	met, hold := g.meets()
	switch met {
	case requestLost:
		panic(http.ErrAbortHandler)
	case refused:
		http.Error(w, "bad gateway", http.StatusBadGateway)
		return
	case held:
		g.holds.Go(func() {
			time.Sleep(hold)
			for answer, err := carry(); ; answer, err = carry() { // until a service runs
				if err == nil {
					_ = answer.Body.Close()
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
		panic(http.ErrAbortHandler)
	case twice:
		g.holds.Go(func() {
			if answer, err := carry(); err == nil {
				_ = answer.Body.Close()
			}
		})
	}
	answer, err := carry()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = answer.Body.Close() }()
	if met == answerLost {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, answer.Body)
}

// A torment is one system, its gateway and its clients.
type torment struct {
	System
	front    string
	gateway  *gateway
	node     *gateway // of the chain
	payments int
	answered atomic.Int64
	kill     func()
	kills    int
}

func recipient(i int) string { return fmt.Sprintf("0x%040x", 0x70000000+i) }

// asks makes every request until it is answered below 300, eight at a time.
func (o *torment) asks(b *testing.B) {
	var clients sync.WaitGroup
	next := make(chan int)
	for range 8 {
		clients.Go(func() {
			patient := &http.Client{Timeout: 5 * time.Second}
			for i := range next {
				for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
					answer, err := patient.Do(o.Ask(o.front, fmt.Sprint("order-", i), recipient(i), 1000+i))
					if err != nil {
						continue
					}
					if _ = answer.Body.Close(); answer.StatusCode < 300 {
						o.answered.Add(1)
						break
					}
				}
			}
		})
	}
	for i := range o.payments {
		next <- i
	}
	close(next)
	clients.Wait()
}

// restart kills the service, and starts it again after the acts. The node loses no answer while it starts.
func (o *torment) restart(acts ...func()) {
	o.kill()
	o.kills++
	for _, do := range acts {
		do()
	}
	o.node.loses(0)
	var url string
	url, o.kill = o.Start()
	o.gateway.mu.Lock()
	o.gateway.service = url
	o.gateway.mu.Unlock()
	o.node.loses(1)
	fmt.Printf("  %s: %d requests were taken on, it runs for the time %d\n", o.Name, o.answered.Load(), o.kills)
}

// restoreTakes is the age of the copy when the service uses it again. DynamoDB restores a table as it was five minutes
// ago or earlier (PointInTimeRecoveryDescription, LatestRestorableDateTime), and takes minutes. Remit trusts a
// comparison with the chain for 90 seconds.
const restoreTakes = 100 * time.Second

// paid counts the transfers to each recipient, once all have one or two minutes have passed, and none comes.
func paid(on *devnet.Chain, payments int) (found map[string]int) {
	end := time.Now().Add(2 * time.Minute)
	for calm, last := 0, -1; calm < 50 || len(found) < payments && time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		found = map[string]int{}
		sum := 0
		for _, block := range on.Since(func(chain.Block) bool { return false }) {
			sum += len(block.Transfers)
			for _, transfer := range block.Transfers {
				found[fmt.Sprintf("%#x", transfer.To[:])]++
			}
		}
		if calm++; sum != last {
			calm, last = 0, sum
		}
	}
	return found
}

// BenchmarkTorture reports, for each system, how many of its payments the chain has once, more than once and never.
// Remit's must all be there once; the service without a table must pay some twice, or the bench sees nothing.
func BenchmarkTorture(b *testing.B) {
	payments := 240
	if testing.Short() {
		payments = 60
	}
	for i := range 3 {
		on := must.Get(devnet.Start(b.Context(), devnet.Config{Listen: "127.0.0.1:0", BlockTime: 250 * time.Millisecond, Now: time.Now}))(b)
		node := &gateway{draw: rand.New(rand.NewPCG(*seed, 1)), service: on.URL()}
		rpc := httptest.NewServer(node)
		system := []System{plain(b, on, rpc.URL, "no"), plain(b, on, rpc.URL, "yes"), remit(b, on, rpc.URL)}[i]
		b.Run(system.Name, func(b *testing.B) { torture(b, system, on, node, payments) })
		rpc.Close()
		must.OK(b, on.Close())
	}
}

func torture(b *testing.B, s System, on *devnet.Chain, node *gateway, payments int) {
	draw := rand.New(rand.NewPCG(*seed, 0))
	g := &gateway{draw: rand.New(rand.NewPCG(*seed, 2)), percent: [...]int{requestLost: 5, answerLost: 10, held: 5, twice: 10, refused: 5}}
	front := httptest.NewServer(g)
	defer front.Close()
	o := &torment{System: s, front: front.URL, gateway: g, node: node, payments: payments, kill: func() {}}
	o.restart()
	done := make(chan struct{})
	go func() {
		o.asks(b)
		o.asks(b) // a queue that delivers everything again
		close(done)
	}()
	saved, restored := time.Time{}, false
	pause := func() time.Time { return time.Now().Add(time.Duration(1000+draw.IntN(2000)) * time.Millisecond) }
	for asking, next := true, pause(); asking; {
		select {
		case <-done:
			asking = false
		case <-time.After(20 * time.Millisecond):
			switch answered := int(o.answered.Load()); {
			case saved.IsZero() && answered > payments/3:
				o.restart(s.Save)
				saved = time.Now()
			case !restored && answered > payments*2/3:
				o.restart(func() { time.Sleep(time.Until(saved.Add(restoreTakes))) }, s.Restore)
				if restored = true; s.Recover != nil {
					s.Recover(g.service)
				}
			case o.kills < 12 && time.Now().After(next):
				o.restart()
			default:
				continue
			}
			next = pause()
		}
	}
	g.holds.Wait()
	once, more, never := 0, 0, 0
	found := paid(on, payments)
	for i := range payments {
		switch n := found[recipient(i)]; {
		case n == 1:
			once++
		case n > 1:
			more++
		default:
			never++
		}
	}
	o.kill()
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(payments), "payments")
	b.ReportMetric(float64(once), "paid-once")
	b.ReportMetric(float64(more), "paid-more-than-once")
	b.ReportMetric(float64(never), "never-paid")
	b.ReportMetric(float64(o.kills), "kills")
	for f := requestLost; int(f) < len(fates); f++ {
		b.Logf("%s: %d", fates[f], g.met[f])
	}
	if !restored {
		b.Error("its database was never taken back")
	}
	if s.Recover != nil && once < payments {
		b.Errorf("%d of %d payments are on the chain once", once, payments)
	}
}
