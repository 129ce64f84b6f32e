package chain

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	// patience is how long a query waits before it queries another node too, and how long a hurried query waits for the
	// other nodes once enough have answered. Healthy nodes answer in a fifth of that. share is how long any other query
	// waits for the other nodes once enough have answered.
	patience, share = 500 * time.Millisecond, time.Second
	// tolerance is how many requests in a row a node may leave unanswered before its circuit
	// breaker opens. cooldown is how long it then stays open.
	tolerance, cooldown = 3, 10 * time.Second
	// probeFor is how long nodes may take to answer Dead's probe.
	probeFor = time.Second
)

// ErrOpen reports a node that was not queried because its circuit breaker is open.
var ErrOpen = errors.New("circuit breaker is open")

// ErrBusy reports a node that was not queried because too many other calls to it are running.
var ErrBusy = errors.New("node takes no more calls now")

// Watch returns nodes that remember how they answered, for as long as the result lives. The node with the longest run
// of answers is queried first, and a second node if the answer takes long. A node that misses several requests in a row
// is skipped for a while, unless all nodes do. The functions are a clock's, as in package time.
func (n Nodes) Watch(now func() time.Time, after func(time.Duration) <-chan time.Time) Nodes {
	watched, known := make(Nodes, len(n)), new(quotes)
	for i, node := range n {
		watched[i] = &breaker{Node: node, now: now, after: after, quotes: known, record: new(record)}
	}
	return watched
}

// Patient returns the nodes for queries that wait for every node, however late it is.
func (n Nodes) Patient() Nodes {
	patient := slices.Clone(n)
	for i, node := range n {
		if b := breakerOf(node); b != nil {
			patient[i] = &breaker{Node: b.Node, now: b.now, quotes: b.quotes, record: b.record}
		}
	}
	return patient
}

// A breaker is a node's circuit breaker. A nil breaker belongs to an unwatched node and is always closed.
type breaker struct {
	Node
	now    func() time.Time
	after  func(time.Duration) <-chan time.Time // nil: it is patient, and never open
	quotes *quotes                              // shared by all nodes
	*record
}

// A record describes a watched node's answers to this process.
type record struct {
	probing sync.Mutex // held by the caller that probes for Dead
	probed  time.Time  // when Dead's probes began; zero: they begin with the next; guarded by probing
	mu      sync.Mutex
	late    bool          // the last miss was an answer later than the other nodes'
	row     int           // unanswered requests in a row
	total   int           // unanswered requests since Health was last called
	slow    time.Duration // the slowest answer since Health was last called
	missed  time.Time     // when a request was last left unanswered
	wrong   bool          // enough nodes have contradicted it since Health was last called
	warned  time.Time     // when Doubt last logged it
}

func breakerOf(node Node) *breaker {
	b, _ := node.(*breaker)
	return b
}

// note records the outcome of a request. A cancelled request, or one that was not made, says nothing about the node.
func (b *breaker) note(err error) {
	if b == nil || errors.Is(err, context.Canceled) || errors.Is(err, ErrBusy) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil || errors.Is(err, ErrReverted) || errors.Is(err, ErrListed) || errors.Is(err, ErrRejected) ||
		errors.Is(err, ErrTooLarge) || errors.Is(err, ErrCode) {
		b.row = 0
		return
	}
	b.late = errors.Is(err, errLate)
	b.row, b.total, b.missed = b.row+1, b.total+1, b.now()
}

// timed calls ask and records how long a good answer took. An answer after the caller's time is late.
func timed[T any](ctx context.Context, node Node, ask func() (T, error)) (T, error) {
	b := breakerOf(node)
	if b == nil {
		return ask()
	}
	began := b.now()
	value, err := ask()
	if err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.slow = max(b.slow, b.now().Sub(began))
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = errLate
		}
	}
	return value, err
}

const doubtEvery = time.Minute

// Doubt logs that Remit does not believe the view's node, at most once a minute, and counts the node as silent in its
// Health, which fires the alarm.
func (v View) Doubt(ctx context.Context, log *slog.Logger, why string, attributes ...any) {
	if b := breakerOf(v.Node); b != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.wrong = true
		if b.now().Sub(b.warned) < doubtEvery {
			return
		}
		b.warned = b.now()
	}
	log.WarnContext(ctx, "node is not believed: "+why, append([]any{"node", v.Name()}, attributes...)...)
}

// errLate reports an answer that came long after enough others, or after its caller's deadline.
var errLate = errors.New("answer came too late")

// open reports whether to skip the node. After the cooldown, requests go to it until it misses one.
func (b *breaker) open() bool {
	if b == nil || b.after == nil {
		return false
	}
	row, last := b.misses()
	return row >= tolerance && b.now().Sub(last) < cooldown
}

// Dead reports whether every node has missed several requests in a row. A second after the last miss, one caller probes
// them, for at most probeFor: a longer probe would stall a process that serves one request at a time. Once cooldown has
// passed since the first probe, even of an earlier outage, one caller gets false: nodes may answer after probeFor.
func (n Nodes) Dead(ctx context.Context) bool {
	alive := func(node Node) bool { row, _ := breakerOf(node).misses(); return row < tolerance }
	if len(n) == 0 || slices.ContainsFunc(n, alive) {
		return false
	}
	b := breakerOf(n[0])
	if !b.probing.TryLock() {
		return true
	}
	defer b.probing.Unlock()
	if _, last := b.misses(); b.now().Sub(last).Abs() < time.Second {
		return true
	}
	if b.probed.IsZero() {
		b.probed = b.now()
	} else if b.now().Sub(b.probed) >= cooldown {
		b.probed = time.Time{}
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, probeFor)
	defer cancel()
	_, _ = n.Fees(ctx) // the breakers remember who answers
	return !slices.ContainsFunc(n, alive)
}

// misses returns how many requests in a row the node left unanswered, and when it last left one unanswered.
func (b *breaker) misses() (row int, last time.Time) {
	if b == nil {
		return 0, time.Time{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.row, b.missed
}

// late returns a channel that receives after a duration if the nodes are watched, else nil.
func (n Nodes) late(after time.Duration) <-chan time.Time {
	if len(n) == 0 || breakerOf(n[0]) == nil || breakerOf(n[0]).after == nil {
		return nil
	}
	return breakerOf(n[0]).after(after)
}

// closed reports which nodes' breakers are closed. If all are open, it reports all as closed: a
// breaker protects nothing if there is no other node.
func (n Nodes) closed() []bool {
	closed := make([]bool, len(n))
	for i, node := range n {
		closed[i] = !breakerOf(node).open()
	}
	if !slices.Contains(closed, true) {
		return slices.Repeat([]bool{true}, len(n))
	}
	return closed
}

// inOrder returns the nodes with closed breakers, the oldest miss first. Nodes without any come first, in their order.
func (n Nodes) inOrder() Nodes {
	var order Nodes
	for i, closed := range n.closed() {
		if closed {
			order = append(order, n[i])
		}
	}
	slices.SortStableFunc(order, func(a, b Node) int {
		_, of := breakerOf(a).misses()
		_, than := breakerOf(b).misses()
		return of.Compare(than)
	})
	return order
}

// A Health describes how a watched node has answered this process.
type Health struct {
	Node   string
	Missed int  // unanswered requests since Health was last called
	Silent bool // it left the last request unanswered, or View.Doubt named it since Health was last called
	// Slowest is the duration of its slowest good answer since Health was last called; zero: none.
	Slowest time.Duration
}

// Health returns the health of each watched node.
func (n Nodes) Health() []Health {
	var all []Health
	for _, node := range n {
		if b := breakerOf(node); b != nil {
			b.mu.Lock()
			all = append(all, Health{Node: b.String(), Missed: b.total, Silent: b.row > 0 || b.wrong, Slowest: b.slow})
			b.total, b.slow, b.wrong = 0, 0, false
			b.mu.Unlock()
		}
	}
	return all
}
