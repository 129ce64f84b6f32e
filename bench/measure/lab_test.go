// Package measure_test holds the benchmarks of Remit: how fast it starts, pays, settles and tells merchants, how much
// it asks of its services meanwhile, and whether it keeps its promises while it is broken. Each is one long measurement
// and runs with -benchtime 1x, as `make bench` does. docs/performance.md explains them. BenchmarkNodes holds the
// promises on nodes of other authors; see docs/chains.md.
package measure_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"
	"golang.org/x/sync/errgroup"

	"github.com/remit-payouts/remit/internal/proof/dynamotest"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/local/localtest"
	sdk "github.com/remit-payouts/remit/sdk/go"
)

const (
	root     = "../.."                                      // of the module
	payee    = "0x2222222222222222222222222222222222222222" // receives every payment; nobody has its key
	stranger = "0x3333333333333333333333333333333333333333" // receives what payments leave
	// The amount of payment 0; payment n asks for base+n, so the chain alone tells which one a transfer is.
	base = 1_000_000

	stride = 100_000 // entry j of batch n asks for base+n+j*stride: there are fewer payments than that
)

type metrics map[string]float64

// emit adds a result to a benchmark. name is "key=value" parts with slashes between them.
func emit(b *testing.B, name string, m metrics) {
	b.Run(strings.ReplaceAll(name, " ", "_"), func(b *testing.B) { report(b, m) })
}

// report sets the metrics of a benchmark, without the time of an iteration.
func report(b *testing.B, m metrics) {
	b.ReportMetric(0, "ns/op")
	for unit, value := range m {
		b.ReportMetric(value, unit)
	}
}

// quantile returns the q-quantile of values, q from 0 to 1, and 0 for no values.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	values = slices.Sorted(slices.Values(values))
	return values[int(math.Round(q*float64(len(values)-1)))]
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// pick returns full, or short under -short.
func pick[T any](full, short T) T {
	if testing.Short() {
		return short
	}
	return full
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// each calls do for 0 to n-1, at most width at a time, and returns the first error, after which no call begins.
func each(ctx context.Context, width, n int, do func(ctx context.Context, i int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(width)
	for i := 0; i < n && ctx.Err() == nil; i++ {
		g.Go(func() error { return do(ctx, i) })
	}
	return g.Wait()
}

// start starts a command that ends with ctx at the latest, and waits a minute for the first line of its standard output
// that begins with until; it returns the lines up to that one.
func start(ctx context.Context, stderr io.Writer, until, path string, args ...string) (*localtest.Process, []string, error) {
	p, err := localtest.Launch(ctx, stderr, path, args...)
	if err != nil {
		return nil, nil, err
	}
	lines, err := p.Out.Until(func(line string) bool { return strings.HasPrefix(line, until) })
	if err != nil {
		p.Kill()
	}
	return p, lines, err
}

// ownPort returns a TCP port that belongs to the test until it ends, even while no process listens on it: a killed
// server's clients keep sending requests, and another listener in its place would take them for its own.
func ownPort(t testing.TB) int {
	t.Helper()
	port, mark, err := dynamotest.FreePort()
	must.OK(t, err)
	t.Cleanup(func() { _ = mark.Close() })
	return port
}

// peak returns the most memory that a process has had, in MB, and 0 where the system has no /proc. The peak that
// getrusage(2) tells of a child is at least its parent's, and so says nothing.
func peak(pid int) float64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kB, _ := strconv.ParseFloat(strings.Fields(rest + " 0")[0], 64)
	return kB * 1024 / 1e6
}

// build compiles a package of the module to .cache/bench and returns the path.
func build(b testing.TB, env []string, pkg string) string {
	b.Helper()
	path := must.Get(filepath.Abs(filepath.Join(root, ".cache", "bench", filepath.Base(pkg), "bootstrap")))(b)
	must.OK(b, localtest.Build(path, pkg, env...))
	return path
}

// another returns a client of m's stack with the key of a new merchant.
func another(b testing.TB, m *sdk.Client) *sdk.Client {
	b.Helper()
	return localtest.Join(b, &sdk.Client{URL: m.URL, HTTP: m.HTTP, Once: true}, "Bench")
}

func ask(ctx context.Context, m *sdk.Client, n int) (sdk.Payment, error) {
	return m.Attempt(ctx, fmt.Sprint("order-", n), sdk.Order{To: payee, Amount: sdk.Amount(strconv.Itoa(base + n))})
}

// askBatch asks the API for payment n as a batch of so many entries, of one as itself.
func askBatch(ctx context.Context, m *sdk.Client, n, size int) (sdk.Payment, error) {
	if size == 1 {
		return ask(ctx, m, n)
	}
	var batch sdk.Batch
	for j := range size {
		batch.Payments = append(batch.Payments, sdk.Entry{To: payee, Amount: sdk.Amount(strconv.Itoa(base + n + j*stride))})
	}
	return m.Attempt(ctx, fmt.Sprint("order-", n), batch)
}

// transfers reads every transfer of the token to payee from the chain's own logs, and returns the hashes of their
// transactions by the number of the payment, those of entry j of a batch by that and j*stride.
func transfers(ctx context.Context, node *ethclient.Client, token common.Address) (map[int][]common.Hash, error) {
	logs, err := node.FilterLogs(ctx, ethereum.FilterQuery{FromBlock: new(big.Int), Addresses: []common.Address{token},
		Topics: [][]common.Hash{{crypto.Keccak256Hash([]byte("Transfer(address,address,uint256)"))}, nil, {common.HexToHash(payee)}}})
	found := map[int][]common.Hash{}
	for _, l := range logs {
		n := int(new(big.Int).SetBytes(l.Data).Int64()) - base
		found[n] = append(found[n], l.TxHash)
	}
	return found, err
}

// An event is one event as a receiver got it.
type event struct {
	ID   string      `json:"id"`
	Type string      `json:"type"`
	Data sdk.Payment `json:"data"`

	at    time.Time // of the first arrival
	times int       // arrivals
	body  [sha256.Size]byte
}

// A receiver is a merchant's webhook endpoint on a port of its own. It remembers the event of each payment, and notes
// arrivals that the contract forbids. It refuses the first arrival of one event in twenty.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	events map[string]event // by the payment's hash
	bad    []string
}

// ServeHTTP takes one webhook.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	e := event{at: time.Now(), times: 1}
	body, err := io.ReadAll(req.Body)
	if err != nil || json.Unmarshal(body, &e) != nil {
		return // the sender was killed half-way
	}
	e.body = sha256.Sum256(body)
	if e = r.take(req.Header.Get("Webhook-Id"), e); e.times == 1 && crc32.ChecksumIEEE([]byte(e.ID))%20 == 0 {
		w.WriteHeader(http.StatusInternalServerError)
	}
}

// take notes an arrival and returns the payment's event.
func (r *receiver) take(header string, e event) event {
	r.mu.Lock()
	defer r.mu.Unlock()
	first, seen := r.events[e.Data.TxHash]
	switch {
	case header != e.ID:
		r.bad = append(r.bad, fmt.Sprintf("webhook-id %s carries event %s", header, e.ID))
	case seen && first.ID != e.ID:
		r.bad = append(r.bad, fmt.Sprintf("payment %s has events %s and %s", e.Data.TxHash, first.ID, e.ID))
	case seen && first.body != e.body:
		r.bad = append(r.bad, fmt.Sprintf("event %s came with two bodies", e.ID))
	}
	if seen {
		e = first
		e.times++
	}
	r.events[e.Data.TxHash] = e
	return e
}

// of returns the event of the payment with that hash, a zero event if none came.
func (r *receiver) of(hash string) event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.events[hash]
}
