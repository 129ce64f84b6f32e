// Package sandbox is the page of `remit local`: it shows the chains, the wallets and each payment as it moves, breaks
// the stack's surroundings when a person presses a button, and counts on the chains which payments were made. It
// stands at the ports of the engines and changes none of their decisions; all state of the page is here.
package sandbox

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
	"github.com/remit-payouts/remit/internal/sandbox/fault"
	"github.com/remit-payouts/remit/internal/sandbox/interpose"
	remit "github.com/remit-payouts/remit/sdk/go"
)

// nodeCount is how many nodes the stack queries on each chain: of three, one may be down or lie, and the
// other two are still a majority.
const nodeCount = 3

// Parts are the parts of the stack that the page reads and changes.
type Parts struct {
	URL   string                                                     // of the API
	Store store.Store                                                // the tables themselves
	Hint  func(context.Context) error                                // starts a run of check-receipts
	Join  func(context.Context) (merchant, apiKey string, err error) // makes the page's merchant
}

// A Sandbox is the page and its state. It records nothing until a browser first opens the page.
type Sandbox struct {
	Parts
	log   *slog.Logger
	now   func() time.Time
	rails []*rail // the first is the default
	hooks *fault.Proxy

	merchant string
	api      *remit.Client
	approver *remit.Client // with another key, which can approve
	hookID   string
	hookURL  string
	secret   string // with which its webhooks are signed
	opening  sync.Mutex
	opened   atomic.Bool
	openedAt time.Time // its steps are known since then

	ctx       context.Context // of everything that runs beside requests
	close     context.CancelFunc
	running   sync.WaitGroup
	listeners []net.Listener

	lose   atomic.Bool // the next answer of a store gets lost
	acting sync.Mutex  // held while a fault begins or ends

	mu     sync.Mutex
	cut    fault.Cut // for the next request
	broken map[string]time.Time
	view
}

// New returns a sandbox without rails. It listens on free ports of loopback until Close.
func New(now func() time.Time, log *slog.Logger) *Sandbox {
	s := &Sandbox{log: log, now: now, broken: map[string]time.Time{}, view: newView()}
	s.ctx, s.close = context.WithCancel(context.Background())
	return s
}

// A rail is an asset of the page, on a chain that has nodes of its own.
type rail struct {
	stack.Config
	on    *devnet.Chain
	doors []*door
	watch chain.Node // the chain itself, which no fault stands before

	chainView // it and what follows have the sandbox's lock
	hashes    map[uint64]chain.Hash
	transfers map[uint64][]payment.ID // by block; "" for one without an id
}

// Add adds the rail that a config pays on a chain, and returns the nodes to give to its engines: doors to the chain.
func (s *Sandbox) Add(on *devnet.Chain, config stack.Config) (nodes chain.Nodes, err error) {
	r := &rail{Config: config, on: on, chainView: chainView{Asset: config.Coin().String(), BaseFee: "0"},
		hashes: map[uint64]chain.Hash{}, transfers: map[uint64][]payment.ID{}}
	own := ethrpc.Config{ChainID: on.ID(), Gas: config.Gas, Log: s.log}
	if r.watch, err = ethrpc.Open(on.URL(), own); err != nil {
		return nil, err
	}
	for range nodeCount {
		d := &door{next: ethrpc.NewTransport(), chain: on.URL()[len("http://"):]}
		d.gateway.Node = on.URL()
		at, err := s.listen(&d.gateway)
		own.Transport = d
		node, openErr := ethrpc.Open(at, own)
		if err = errors.Join(err, openErr); err != nil {
			return nil, err
		}
		d.node = watched{interpose.Node{Node: node, Around: fault.Around}, s}
		r.doors, nodes = append(r.doors, d), append(nodes, d.node)
	}
	s.rails = append(s.rails, r)
	return nodes, nil
}

func (s *Sandbox) listen(h http.Handler) (string, error) {
	listener, err := new(net.ListenConfig).Listen(s.ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	s.listeners = append(s.listeners, listener)
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)}
	s.running.Go(func() { _ = server.Serve(listener) })
	return "http://" + listener.Addr().String(), nil
}

// Stop ends streams of events, and soon after the background work.
func (s *Sandbox) Stop() { s.close() }

// Close ends everything that runs beside requests.
func (s *Sandbox) Close() (err error) {
	s.close()
	s.opening.Lock()
	defer s.opening.Unlock()
	for _, l := range s.listeners {
		err = errors.Join(err, l.Close())
	}
	if s.hooks != nil {
		s.hooks.Close()
	}
	s.running.Wait()
	return err
}

// A door is one node: the chain behind a gateway. Without a habit, requests bypass the gateway.
type door struct {
	gateway fault.Gateway
	next    http.RoundTripper
	chain   string // host and port
	node    chain.Node
}

func (d *door) RoundTrip(r *http.Request) (*http.Response, error) {
	if d.gateway.Habit.Load() == nil {
		r = r.Clone(r.Context())
		r.URL.Host, r.Host = d.chain, d.chain
	}
	return d.next.RoundTrip(r)
}

// watched is a node whose broadcasts the page shows.
type watched struct {
	interpose.Node
	page *Sandbox
}

// The selectors of ERC-20's transfer and of a batch, with which the call data of every payment begins.
var (
	transfer = chain.TransferData(token.Address{}, token.Amount{})[:4]
	batch    = disburser.Calldata(token.Address{}, nil, nil)[:4]
)

// Send implements chain.Node. The payment's id stands in the bytes that are sent.
func (n watched) Send(ctx context.Context, raw []byte) chain.Reply {
	reply := n.Node.Send(ctx, raw)
	if reply.Class.Held() && n.page.opened.Load() {
		_, rest, ok := chain.ParseTransfer(raw[max(bytes.Index(raw, transfer), 0):])
		if !ok {
			_, _, rest, ok = disburser.Parse(raw[max(bytes.Index(raw, batch), 0):])
		}
		if ok && len(rest) >= 20 {
			n.page.reached(payment.MemoID(rest[:20]), Sent)
		}
	}
	return reply
}

// Interposed is the store to give to the engines.
func (s *Sandbox) Interposed(to store.Store) store.Store {
	return &interpose.Store{Store: to, Around: s.around}
}

// reaches are the writes after which a payment has reached a step.
var reaches = map[string]Step{"Create": Prepared, "Commit": Committed, "Finish": Final, "Discard": -1, "Reserve": -1,
	"AddAttempt": -1}

// around makes a call of a store, unless the process that calls has ended.
func (s *Sandbox) around(ctx context.Context, c interpose.Call, apply func(context.Context)) error {
	at, write := reaches[c.Op]
	lost, applied := write && s.lose.CompareAndSwap(true, false), false
	err := fault.Around(ctx, c, func(ctx context.Context) { apply(ctx); applied = true })
	if write && applied && s.opened.Load() {
		id, _, _ := strings.Cut(c.Args, " ") // of all of these, the payment's
		s.reached(payment.ID(id), at)
	}
	if lost {
		s.over("lose", "The store did "+c.Op+", and its answer got lost. Unknown is not taken for not done.")
		return errors.Join(err, errors.New("the page lost the answer of the store"))
	}
	return err
}
