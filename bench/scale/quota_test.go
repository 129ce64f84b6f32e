package scale_test

import (
	"context"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"remit/internal/interpose"
	"remit/internal/memory"
	"remit/internal/payment"
	"remit/internal/plan"
	"remit/internal/store"
)

// A bucket is a token bucket: so many tokens a second, and those of so many seconds at
// once.
type bucket struct {
	rate, left, seconds float64
	at                  time.Time
}

func newBucket(rate, seconds float64) *bucket {
	return &bucket{rate, rate * seconds, seconds, time.Now()}
}

func (b *bucket) fill() {
	now := time.Now()
	b.left = min(b.rate*b.seconds, b.left+b.rate*now.Sub(b.at).Seconds())
	b.at = now
}

// owe takes tokens whether they are there or not, and returns how long they take to come.
func (b *bucket) owe(n float64) time.Duration {
	b.fill()
	b.left -= n
	return time.Duration(max(0, -b.left/b.rate) * float64(time.Second))
}

// units are what one call of the store takes: of the payment's own partitions, of its
// wallet's, and of its merchant's list.
type units struct {
	own, wallet, list, reads float64
	transaction              bool
	look                     bool // of a round, whatever it finds, rather than of a payment
}

// costs are the units of each call, as BenchmarkStore counts them for a payment: an item
// of a kilobyte is one, twice that in a transaction, and two where the item has its event.
// Calls that are not here are of none that a payment makes.
var costs = map[string]units{
	"Create": {own: 1}, "Reserve": {wallet: 1}, "Release": {wallet: 1}, "Commit": {own: 4, wallet: 2, list: 1, transaction: true},
	"Payment": {reads: 1}, "Finish": {own: 2, list: 1}, "DeletePendingTx": {wallet: 1},
	"PendingTx": {reads: 1}, "PendingTxs": {}, "Compared": {reads: 1, look: true}, "Rules": {reads: 0.5, look: true}, "Open": {own: 4, look: true},
	"Wallet": {reads: 1, look: true}, "Wallets": {reads: 1, look: true}, "Claim": {wallet: 1, look: true},
	"RaiseCeiling": {wallet: 1, look: true}, "Reconcile": {wallet: 1, look: true}, "SetCompared": {own: 1, look: true},
}

// tables are the stores under DynamoDB's limits. A call that meets one is repeated as the
// SDK does, and then is an error.
type tables struct {
	store.Store
	limits  limits
	buckets int // of a merchant's list

	mu            sync.Mutex
	rng           *rand.Rand
	partitions    map[string]*bucket
	writes, reads *bucket                    // of the table
	peaks         [2]float64                 // write units in a second of this half hour, and of those before
	second, half  time.Time                  // when this second and this half hour began
	taken         float64                    // write units in this second
	used, looks   units                      // in all: of payments, and of rounds
	pending       map[string]map[uint64]bool // nonces of pending transactions by wallet
	throttled     map[string]int             // calls by the wall that they met
}

func newTables(l limits, buckets int, s store.Store) *tables {
	if s == nil {
		s = memory.NewPayments()
	}
	return &tables{
		Store: s, limits: l, buckets: buckets, rng: rand.New(rand.NewPCG(1, 2)), partitions: map[string]*bucket{},
		writes: newBucket(l.writes, tableSeconds), reads: newBucket(l.reads, tableSeconds), pending: map[string]map[uint64]bool{}, throttled: map[string]int{}, half: time.Now(),
	}
}

// tableSeconds are the seconds of which a table keeps what was not used: DynamoDB says up
// to 300 (developer guide, "DynamoDB burst and adaptive capacity"), and does not promise it.
const tableSeconds = 5

// place parses a wallet and a nonce as package interpose names them.
func place(args string) (wallet string, nonce uint64) {
	wallet, text, _ := strings.Cut(args, "#")
	nonce, _ = strconv.ParseUint(text, 10, 64)
	return wallet, nonce
}

// pendingFrom returns how many pending transactions a query reads.
func (t *tables) pendingFrom(args string) (n float64) {
	wallet, from := place(args)
	t.mu.Lock()
	defer t.mu.Unlock()
	for nonce := range t.pending[wallet] {
		if nonce >= from {
			n++
		}
	}
	return n
}

// around is an interpose.Around.
func (t *tables) around(ctx context.Context, call interpose.Call, apply func(context.Context)) error {
	cost, fields := costs[call.Op], strings.Fields(call.Args)
	last := ""
	if len(fields) > 0 {
		last, _ = place(fields[len(fields)-1])
	}
	if call.Op == "PendingTxs" {
		cost.reads = max(1, t.pendingFrom(call.Args)*plan.Measured.PendingReads)
	}
	list := ""
	if cost.list > 0 {
		p, _ := t.Store.Payment(ctx, payment.ID(fields[0]))
		list = fmt.Sprint("list ", p.Merchant, " ", crc32.ChecksumIEEE([]byte(p.ID))%uint32(t.buckets))
	}
	return t.call(call.Op, cost, func() (wall string) { return t.take(cost, "wallet "+last, list) }, func() {
		apply(ctx)
		t.mu.Lock()
		defer t.mu.Unlock()
		if call.Op == "Commit" || call.Op == "DeletePendingTx" {
			_, nonce := place(fields[len(fields)-1])
			if t.pending[last] == nil {
				t.pending[last] = map[uint64]bool{}
			}
			if delete(t.pending[last], nonce); call.Op == "Commit" {
				t.pending[last][nonce] = true
			}
		}
	})
}

// call makes a call that may be throttled as often as the SDK does: a transaction six
// times, 10 ms after the first and twice as long after each (package dynamo), another
// call three times, up to a second after the first and two after the second (AWS SDK for
// Go v2, aws/retry, ExponentialJitterBackoff).
func (t *tables) call(op string, cost units, take func() string, apply func()) error {
	tries := 3
	if cost.transaction {
		tries = 6
	}
	for try := range tries {
		t.mu.Lock()
		away, jitter := 3*time.Millisecond+time.Duration(t.rng.ExpFloat64()*float64(time.Millisecond)), t.rng.Float64()
		t.mu.Unlock()
		time.Sleep(away) // the four milliseconds that the benchmarks inject, spread
		wall := take()
		if wall == "" {
			apply()
			return nil
		}
		t.mu.Lock()
		t.throttled[wall]++
		t.mu.Unlock()
		wait := time.Duration(jitter * float64(time.Second<<try))
		if cost.transaction {
			wait = 10 * time.Millisecond << try
		}
		time.Sleep(wait)
	}
	message := aws.String("The level of configured provisioned throughput for the table was exceeded")
	if cost.transaction {
		return fmt.Errorf("%s: %w", op, &types.TransactionCanceledException{Message: message, CancellationReasons: []types.CancellationReason{{Code: aws.String("ThrottlingError")}}})
	}
	return fmt.Errorf("%s: %w", op, &types.ProvisionedThroughputExceededException{Message: message})
}

// take takes the units of a call, or none, and then returns the wall that it met. An index
// that is full is one for the table behind it (DynamoDB developer guide, "Using global
// secondary indexes", back-pressure).
func (t *tables) take(c units, wallet, list string) (wall string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	writes := c.own + c.wallet + c.list
	for _, of := range []struct {
		*bucket
		n    float64
		name string
	}{
		{t.partition(list, t.limits.list), c.list, "one merchant's list"},
		{t.partition(wallet, t.limits.wallet), c.wallet, "the wallets' partitions"},
		{t.writes, writes, "write units of a table"}, {t.reads, c.reads, "read units of a table"},
	} {
		if of.fill(); of.n > 0 && of.left < min(of.n, of.rate) {
			return of.name
		}
	}
	t.partition(list, t.limits.list).left -= c.list
	t.partition(wallet, t.limits.wallet).left -= c.wallet
	t.writes.left, t.reads.left = t.writes.left-writes, t.reads.left-c.reads
	used := &t.used
	if c.look {
		used = &t.looks
	}
	used.own, used.reads = used.own+writes, used.reads+c.reads
	if now := time.Now(); t.limits.fresh > 0 { // a new table takes twice what it took before this half hour
		if now.Sub(t.second) >= time.Second {
			t.second, t.taken = now, 0
		}
		t.taken += writes
		t.peaks[0] = max(t.peaks[0], t.taken)
		if now.Sub(t.half) >= 30*time.Minute {
			t.half, t.peaks[1] = now, max(t.peaks[0], t.peaks[1])
		}
		t.writes.rate = min(t.limits.writes, max(t.limits.fresh, 2*t.peaks[1]))
	}
	return ""
}

func (t *tables) partition(key string, rate float64) *bucket {
	if t.partitions[key] == nil {
		t.partitions[key] = newBucket(rate, 1)
	}
	return t.partitions[key]
}
