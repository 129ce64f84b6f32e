package ethrpc

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
)

const (
	// maxBatch is the initial limit of calls in one request, which most nodes accept (geth 1000, Nethermind 1024,
	// Infura and QuickNode about 100 by plan). Others accept fewer: Base's public one 10, Moralis 20, ApeChain 3.
	maxBatch = 100
	// patience bounds all waits of one exchange for a node that limits its rate. Calls that yield wait twice as long.
	patience = 5 * time.Second
	// regrow is how long a smaller size lasts before a request of twice the size is tried.
	regrow = 5 * time.Minute
	// firstWait is the first wait after such a refusal, unless the node names a time. Each later wait doubles.
	firstWait = 200 * time.Millisecond
)

// exchange makes calls in requests of the size that the node accepts. It halves a batch that the
// node refuses for its size, down to single calls, and remembers the accepted size as long as the
// process lives. It repeats calls beyond the node's rate until patience runs out. An error means
// that no call has an answer; otherwise each has its result or an Error.
func (n *Node) exchange(ctx context.Context, calls []query) error {
	waiting := make([]*query, len(calls))
	for i := range calls {
		waiting[i] = &calls[i]
	}
	n.grow(len(calls))
	size, smaller := int(n.size.Load()), false
	wait, left, yields := firstWait, patience, chain.Yields(ctx)
	if yields {
		left *= 2
	}
	var refused error // of the last request, if it exceeded the rate
	for len(waiting) > 0 {
		size = n.pace.most(min(len(waiting), size))
		began := n.config.Now()
		turn, ok := n.pace.turn(size, left, yields)
		if left -= turn; !ok || turn > 0 && n.config.Wait(ctx, turn) != nil {
			if n.pace.answers() {
				refused = chain.ErrBusy
			}
			return n.end(refused, calls, waiting)
		}
		if chain.Waited(ctx, turn); yields && turn > 0 {
			continue
		}
		part := waiting[:size]
		after, err := n.post(ctx, part)
		limit := limitOf(err)
		var again []*query
		if err == nil {
			limit, again = refusedOf(part)
			n.pace.note(began, size-len(again), false, 0)
			if waiting = slices.Concat(again, waiting[size:]); limit == none {
				if smaller {
					n.shrink(ctx, size)
					smaller = false
				}
				continue
			}
		}
		if limit == none || limit == ofSize && size == 1 {
			return n.end(err, calls, waiting)
		}
		smaller = limit == ofSize
		size = max(1, size/2)
		if refused = nil; limit == ofRate {
			refused = err
			if after == 0 {
				after, wait = wait, 2*wait
				if yields { // payments need not wait, too
					left, after = left-after, 0
					_ = n.config.Wait(ctx, wait/2) // if ctx ends, the next request fails
				}
			}
			n.pace.note(began, 0, true, after)
		}
	}
	return n.end(nil, calls, nil)
}

// refusedOf returns the calls of an answered request to make again, and why.
func refusedOf(part []*query) (limit limit, again []*query) {
	for _, c := range part {
		if l := limitOf(c.Error); l == ofRate || l == ofSize && len(part) > 1 {
			limit, again = max(limit, l), append(again, c)
		}
	}
	return limit, again
}

// end ends an exchange. Calls that still wait get err; answered calls keep their answers.
func (n *Node) end(err error, calls []query, waiting []*query) error {
	if err != nil && len(waiting) == len(calls) {
		return n.unanswered(err)
	}
	for _, c := range waiting {
		if c.Error == nil {
			c.Error = n.unanswered(cmp.Or(err, errRate))
		}
	}
	for i := range calls {
		calls[i].Error = n.rejection(calls[i].Error)
	}
	return nil
}

var errRate = errors.New("node limits its rate")

// grow doubles the number of calls of one request if more are waiting and it is long since it was
// lowered: what the node refused may have been their rate.
func (n *Node) grow(calls int) {
	size, shrunk := n.size.Load(), n.shrunk.Load()
	if int64(calls) > size && size < maxBatch && n.config.Now().UnixNano()-shrunk > int64(regrow) &&
		n.shrunk.CompareAndSwap(shrunk, n.config.Now().UnixNano()) {
		n.size.Store(min(maxBatch, 2*size))
	}
}

func (n *Node) shrink(ctx context.Context, size int) {
	n.shrunk.Store(n.config.Now().UnixNano())
	for old := n.size.Load(); int64(size) < old; old = n.size.Load() {
		if n.size.CompareAndSwap(old, int64(size)) {
			n.config.Log.InfoContext(ctx, "node takes smaller batches", "node", n.host, "calls", size)
		}
	}
}

// A limit is the reason why a node does not answer a call now.
type limit int

const (
	none   limit = iota // answered, or failed for another reason
	ofSize              // of a request
	ofRate              // of calls in a time
)

func limitOf(err error) limit {
	if err == nil {
		return none
	}
	if status, ok := errors.AsType[*httpError](err); ok {
		switch code := status.Status; {
		case code == http.StatusTooManyRequests, code/100 == 4 && has(string(status.Body), rateWords):
			return ofRate
		case code >= 400 && code < 500 && code != http.StatusUnauthorized, code == http.StatusInternalServerError,
			code == http.StatusNotImplemented:
			return ofSize // 413 of OP Mainnet, 400, 403, 405, 422 and 500 of gateways that take no batch
		}
		return none
	}
	answer, ok := errors.AsType[*rpcError](err)
	batch, whole := errors.AsType[*batchError](err)
	if whole {
		answer, ok = batch.told, true
	}
	switch {
	case ok && (answer.Code == http.StatusTooManyRequests || has(answer.Message, rateWords)):
		return ofRate
	case whole, errors.Is(err, errUnanswered): // Base's public endpoint; geth answers a batch beyond its limit with one element
		return ofSize
	case ok && has(answer.Message, sizeWords):
		return ofSize
	}
	return none
}

// rateWords and sizeWords occur, in lower case, in nodes' messages about limits: Base "over rate limit", Infura
// "daily request count exceeded, request rate limited", Alchemy "exceeded its compute units per second capacity",
// QuickNode "30/second request limit reached", Chainstack "exceeded the RPS limit"; geth "batch too large" and
// "response too large", Base "maximum 10 calls in 1 batch".
var (
	rateWords = []string{"rate limit", "too many requests", "compute units per second", "request rate", "throughput",
		"request limit", "rps limit"}
	sizeWords = []string{"batch", "response too large", "response size"}
)

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
	return ctx.Err()
}
