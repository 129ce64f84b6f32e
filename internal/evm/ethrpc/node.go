// Package ethrpc speaks to Ethereum nodes: it implements chain.Node with JSON-RPC over HTTP, in batches. It knows the
// node clients' error messages and quirks, but no payments. Package chain compares the answers of several nodes.
package ethrpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/remit-payouts/remit/internal/evm/chain"
)

// ErrURL reports text that is not the URL of a JSON-RPC endpoint.
var ErrURL = errors.New("invalid node URL")

// A Config holds the settings that all nodes of a chain share.
type Config struct {
	ChainID   uint64
	L1Fee     bool              // it charges an L1 fee and an operator fee besides gas, as chains of the OP stack do
	Gas       chain.GasRule     // how gas is paid
	Timeout   time.Duration     // of each HTTP request including its body; zero: 10 seconds
	Transport http.RoundTripper // nil: a new one of NewTransport; nodes may share one
	Log       *slog.Logger      // nil: slog's default
	// Wait sleeps while the node limits its rate, or returns early with the context's error. Nil: by the clock.
	Wait func(ctx context.Context, d time.Duration) error
	Now  func() time.Time // for learning the rate; nil: time.Now
}

// A Node is one JSON-RPC endpoint. It is safe for many goroutines, and opens no connection before the first request.
//
// Its first request also queries the chain id. If it is another chain's, every later call returns chain.ErrWrongChain,
// as long as the process lives. Errors do not name the node: callers of several nodes add String.
type Node struct {
	config  Config // with its defaults
	host    string
	client  *http.Client
	url     string
	secrets secrets
	pace    pace
	size    atomic.Int64          // the most calls of one request
	shrunk  atomic.Int64          // when it last changed, in nanoseconds since 1970
	warned  sync.Map              // when each warning was last logged
	span    atomic.Uint64         // the most blocks of which one request asks for logs
	right   atomic.Bool           // the node has answered with chainID
	wrong   atomic.Pointer[error] // the node has answered with another chain id

	market   singleflight.Group     // questions for fees
	kept     atomic.Pointer[quoted] // the last answer
	searched sync.Map               // by the length of a batch's call data
	limits   atomic.Bool            // it refuses a call with too little gas, unlike Besu (hyperledger/besu#6978)
}

var _ chain.Node = (*Node)(nil)

// Open returns the node at an http or https URL. It makes no request. An error matches ErrURL and quotes no URL.
func Open(rawURL string, config Config) (*Node, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("%w: want http:// or https:// and a host", ErrURL)
	}
	if config.ChainID == 0 {
		return nil, fmt.Errorf("opening node %s: no chain id", u.Host)
	}
	if config.Transport == nil {
		config.Transport = NewTransport()
	}
	if config.Wait == nil {
		config.Wait = sleep
	}
	if config.Now == nil {
		config.Now = time.Now //nolint:forbidigo // a command without a clock has its own machine's
	}
	config.Timeout, config.Log = cmp.Or(config.Timeout, 10*time.Second), cmp.Or(config.Log, slog.Default())
	n := &Node{config: config, host: u.Host, url: rawURL, secrets: secretsOf(u), pace: pace{now: config.Now}}
	n.client = &http.Client{
		Transport: repeating{config.Transport},
		// A redirect would hand signed bytes to another host.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	n.size.Store(maxBatch)
	n.span.Store(maxSpan)
	return n, nil
}

// String implements chain.Node: host and port.
func (n *Node) String() string { return n.host }

// batch makes calls, in one request if the node accepts so many. An error means that no call has an
// answer; otherwise each has its result or an Error, which is a *Rejection if the node sent it.
func (n *Node) batch(ctx context.Context, calls ...query) ([]query, error) {
	if err := n.wrong.Load(); err != nil {
		return nil, *err
	}
	if n.right.Load() {
		return calls, n.exchange(ctx, calls)
	}
	var id quantity
	all := append([]query{call("eth_chainId", &id)}, calls...)
	if err := n.exchange(ctx, all); err != nil {
		return nil, err
	}
	if err := n.admit(id, all[0].Error); err != nil {
		return nil, err
	}
	return all[1:], nil
}

// each is batch, and returns the first error of any call.
func (n *Node) each(ctx context.Context, calls ...query) error {
	calls, err := n.batch(ctx, calls...)
	if err == nil {
		err = firstError(calls)
	}
	return err
}

// Query makes a call that no method of chain.Node makes; result is a pointer.
func (n *Node) Query(ctx context.Context, result any, method string, args ...any) error {
	return n.each(ctx, call(method, result, args...))
}

// ChainOf returns the chain id of the node at rawURL.
func ChainOf(ctx context.Context, rawURL string) (uint64, error) {
	node, err := Open(rawURL, Config{ChainID: 1})
	if err != nil {
		return 0, err
	}
	var id count
	calls := []query{call("eth_chainId", &id)}
	if err := errors.Join(node.exchange(ctx, calls), firstError(calls)); err != nil {
		return 0, fmt.Errorf("asking %s: %w", node, err)
	}
	return uint64(id), nil
}

func (n *Node) admit(id quantity, err error) error {
	if err != nil {
		return fmt.Errorf("eth_chainId: %w", err)
	}
	if got, ok := id.Uint64(); ok && got == n.config.ChainID {
		n.right.Store(true)
		return nil
	}
	err = fmt.Errorf("%w: %v, not %d", chain.ErrWrongChain, id.Amount, n.config.ChainID)
	n.wrong.Store(&err)
	return err
}

// warn logs a message about the node, at most once a minute.
func (n *Node) warn(ctx context.Context, message string, args ...any) {
	now := n.config.Now()
	if last, ok := n.warned.Swap(message, now); !ok || now.Sub(last.(time.Time)) >= time.Minute {
		n.config.Log.WarnContext(ctx, message, append([]any{"node", n.host}, args...)...)
	} else {
		n.warned.Store(message, last)
	}
}

func call(method string, result any, args ...any) query {
	return query{Method: method, Args: args, Result: result}
}

func firstError(calls []query) error {
	for _, c := range calls {
		if c.Error != nil {
			return fmt.Errorf("%s: %w", c.Method, c.Error)
		}
	}
	return nil
}
