// Package sandbox is the page of `remit local`: it shows the chain, the wallets and each payment as it moves, breaks
// the stack's surroundings when a person presses a button, and counts on the chain which payments were made. It
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

// nodeCount is how many nodes the stack queries: of three, one may be down or lie, and the
// other two are still a majority.
const nodeCount = 3

// Parts are the parts of the stack that the page reads and changes.
type Parts struct {
	URL     string // of the API
	Chain   *devnet.Chain
	Token   token.Token
	Store   store.Store // the tables themselves
	Rule    chain.ConfirmationRule
	GasUnit chain.GasUnit
	Hint    func(context.Context) error                                // starts a run of check-receipts
	Join    func(context.Context) (merchant, apiKey string, err error) // makes the page's merchant
}

// A Sandbox is the page and its state. It records nothing until a browser first opens the page.
type Sandbox struct {
	Parts
	log   *slog.Logger
	now   func() time.Time
	doors []*door
	watch chain.Node // the chain itself, which no fault stands before
	hooks *fault.Proxy

	merchant string
	api      *remit.Client
	hookID   string
	hookURL  string
	secret   string // with which its webhooks are signed
	opening  sync.Mutex
	opened   atomic.Bool

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

// New returns a sandbox whose nodes are doors to the chain at a URL. It listens for
// them and for webhooks on free ports of loopback, until Close.
func New(chainURL string, chainID uint64, gas chain.GasRule, now func() time.Time, log *slog.Logger) (*Sandbox, error) {
	s := &Sandbox{log: log, now: now, broken: map[string]time.Time{}, view: newView()}
	s.ctx, s.close = context.WithCancel(context.Background())
	var err error
	if s.watch, err = ethrpc.Open(chainURL, ethrpc.Config{ChainID: chainID, Gas: gas, Log: log}); err != nil {
		return nil, err
	}
	for range nodeCount {
		d := &door{next: ethrpc.NewTransport(), chain: chainURL[len("http://"):]}
		d.gateway.Node = chainURL
		at, err := s.listen(&d.gateway)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		node, err := ethrpc.Open(at, ethrpc.Config{ChainID: chainID, Gas: gas, Log: log, Transport: d})
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		d.node = watched{interpose.Node{Node: node, Around: fault.Around}, s}
		s.doors = append(s.doors, d)
	}
	return s, nil
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

// Nodes are the nodes to give to the engines.
func (s *Sandbox) Nodes() (nodes chain.Nodes) {
	for _, d := range s.doors {
		nodes = append(nodes, d.node)
	}
	return nodes
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

// errLost is an engine's error for a write whose answer got lost.
var errLost = errors.New("the answer of the store got lost")

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
		return errors.Join(err, errLost)
	}
	return err
}
