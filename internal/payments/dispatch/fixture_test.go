package dispatch_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/porttest"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/sandbox/interpose"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

type script = porttest.Script[*process]

// breaks is a script in which some calls fail and have no effect.
func breaks(calls ...string) script { return porttest.Breaks[*process](calls...) }

// A process is a dispatcher every call of which to its ports goes by a script. It is also its own hints and node.
type process struct {
	chain.Node
	*porttest.Recorder[*process]
	d     *dispatch.Dispatcher
	mined uint64          // the count of every wallet
	holds token.Amount    // of the token, of every wallet
	poor  token.Address   // the wallet that has none of it
	reply chain.Class     // to every broadcast
	keys  []token.Address // of wallets
	sent  [][]byte        // to the node

	draining   []token.Address          // of keys
	refuses    []token.Address          // recipients that the token refuses
	unable     []token.Address          // wallets from which the token pays nobody
	mute       int                      // the simulated call that the node does not answer, counted from 1; 0: none
	asked      int                      // simulated calls
	listed     []token.Address          // that the sanctions list has
	unapproved []token.Address          // wallets whose coins the batch contract may not spend
	fit        int                      // the most entries that fit into a transaction; 0: any
	tells      bool                     // the node gives the batch contract's reason
	lies       int                      // how far it is from the truth
	strict     bool                     // the token refuses call data of another length than a transfer's
	blocked    int                      // simulated transfers from those to others
	idle       token.Address            // the wallet of which none is mined
	foreign    token.Address            // the wallet of which the node's pool holds a transaction
	costs      map[token.Address]uint64 // gas of a transfer to an address, if not 50,000
	executed   []string                 // transfers that are ByCall, with the gas that they had
	bad        badNode                  // the middle one of three nodes; zero: there is one
	log        bytes.Buffer
}

func unit(n uint64) token.Amount { return token.Units(n) }

// asked is a request that a process can make.
var asked = payment.Request{Merchant: "mer_1", Mode: "test", IdempotencyKey: "k", To: token.Address{9}, Amount: unit(100)}

// first and second are the wallets of a process.
var first, second = token.Address{1}, token.Address{2}

// newProcess returns a process with two wallets. Its tables are empty.
func newProcess(t *testing.T, s script) *process { return start(t, memory.NewPayments(), s) }

// start returns a process with two wallets and with the tables of another.
func start(t *testing.T, tables *memory.Payments, s script) *process {
	p := &process{
		holds: unit(1000), reply: chain.Accepted, keys: []token.Address{first, second},
	}
	p.Recorder = porttest.New(t, tables, s, p)
	p.d = dispatch.New(stack.Config{ChainID: 1, Token: porttest.Rail.Token, BlockTime: time.Minute}, dispatch.Parts{
		Store: registering{&interpose.Store{Store: p.Tables, Around: p.Around}, p}, Keys: p, Nodes: p,
		Hints: p, Log: slog.New(slog.NewTextHandler(&p.log, nil)), Now: p.Now, Random: rand.Reader,
		Draw: func(n int) int { return n - 1 }, // candidates stay in their order
		After: func(d time.Duration) <-chan time.Time {
			p.Must(p.Call("After " + d.String()))
			return time.After(0)
		},
	})
	p.set(func(s *settings.Settings) {
		s.BatchContract, s.NonceWindow, s.Daily, s.MerchantCap = fakechain.Batcher, 4, unit(5000), 100
	})
	return p
}

// set changes the settings as an operator does, and lets the process read them again.
func (p *process) set(change func(*settings.Settings)) {
	p.T.Helper()
	p.Set(change)
	p.d.Forget()
}

// An answer is a process's answer to a request.
type answer struct {
	dispatch.Result
	err  error
	p    *process
	what string
}

// askedAs is asked, changed, under a key.
func askedAs(key string, changes ...func(*payment.Request)) payment.Request {
	r := asked
	r.IdempotencyKey = key
	for _, change := range changes {
		change(&r)
	}
	return r
}

// ask sends asked, changed, under a key.
func (p *process) ask(key string, changes ...func(*payment.Request)) answer {
	return p.request(askedAs(key, changes...))
}

func (p *process) request(r payment.Request) answer {
	result, err := p.d.Send(p.T.Context(), r)
	return answer{Result: result, err: err, p: p}
}

// move gives an operator's order, which moves 50 tokens of the first wallet unless it says otherwise.
func (p *process) move(change func(*dispatch.Transfer)) answer {
	t := dispatch.Transfer{Key: "move", Mode: "test", From: first, To: asked.To, Amount: unit(50)}
	if change != nil {
		change(&t)
	}
	made, err := p.d.Move(p.T.Context(), t)
	return answer{Result: dispatch.Result{Payment: made}, err: err, p: p}
}

// is fails the test unless the answer is a payment, or the error want and none.
func (a answer) is(what string, want error) answer {
	a.p.T.Helper()
	if a.what = what; !errors.Is(a.err, want) || (a.err == nil) != (a.Payment.ID != "") ||
		want == dispatch.ErrUnavailable && errors.Is(a.err, dispatch.ErrInProgress) {
		a.p.T.Errorf("%s: answered %q, %v, want %v, after %v", what, a.Payment.State, a.err, want, a.p.Calls)
	}
	return a
}

// says fails the test unless the error has a text.
func (a answer) says(text string) {
	a.p.T.Helper()
	if !strings.Contains(fmt.Sprint(a.err), text) {
		a.p.T.Errorf("%s: answered %v, want %q", a.what, a.err, text)
	}
}

// by fails the test unless a wallet pays.
func (a answer) by(wallet token.Address) answer {
	a.p.T.Helper()
	if a.Payment.Wallet != wallet {
		a.p.T.Errorf("%s: paid by %s, want %s, after %v", a.what, a.Payment.Wallet, wallet, a.p.Calls)
	}
	return a
}

// without fails the test if a call was made.
func (a answer) without(calls ...string) answer {
	a.p.T.Helper()
	for _, call := range calls {
		if a.p.Did(call) {
			a.p.T.Errorf("%s: %s was called: %v", a.what, call, a.p.Calls)
		}
	}
	return a
}

// open opens a wallet that can pay.
func (p *process) open(a token.Address) {
	p.Must(p.Tables.Open(context.Background(),
		wallet.Wallet{ID: walletOf(a), Ceiling: 4, Balance: unit(1000), Gas: unit(1 << 60)}, porttest.Rail.Token.Contract))
}

// stored is the payment that answers asked, as it is stored; zero when none is.
func (p *process) stored() payment.Payment {
	stored, _ := p.Tables.Payment(context.Background(), payment.KeyID(asked.Merchant, asked.Mode, asked.IdempotencyKey))
	return stored
}

func walletOf(a token.Address) wallet.ID { return wallet.ID{ChainID: 1, Address: a} }

func (p *process) Nodes(context.Context) (chain.Nodes, error) {
	if err := p.Call("Nodes"); err != nil {
		return nil, err
	}
	if p.bad.alone {
		return chain.Nodes{mute{p, chain.ErrRejected}, p.bad, mute{p, chain.ErrRejected}}, nil
	}
	if p.bad != (badNode{}) {
		return chain.Nodes{p, p.bad, p}, nil
	}
	return chain.Nodes{interpose.Node{Node: p, Around: p.Around}}, nil
}

func (p *process) Hint(context.Context) error { return p.Call("Hint") }

// A registering store has the wallets of a process in its registry.
type registering struct {
	*interpose.Store
	p *process
}

func (r registering) Wallets(ctx context.Context, rail token.Coin) (wallet.Registry, error) {
	for _, a := range r.p.keys {
		from, to := wallet.Draining, wallet.Active
		switch {
		case slices.Contains(r.p.draining, a):
			from, to = to, from
		case a == funding:
			to = wallet.Funding
		}
		r.p.Must(r.p.Tables.Register(context.Background(),
			wallet.Registration{ID: walletOf(a), Token: porttest.Rail.Token.Contract, State: to, Key: wallet.InSecret}))
		r.p.Must(r.p.Tables.SetState(context.Background(), walletOf(a), from, to, r.p.Now()))
	}
	return r.Store.Wallets(ctx, rail)
}

func (p *process) String() string { return "node" }

func (p *process) Fees(context.Context) (chain.Market, error) {
	return chain.Market{BaseFee: unit(10), Tip: unit(1), L1Fee: unit(1000)}, nil
}

// balance is the amount of the token that a wallet has.
func (p *process) balance(a token.Address) token.Amount {
	if a == p.poor {
		return token.Amount{}
	}
	return p.holds
}

func (p *process) Estimate(_ context.Context, c chain.Call) (uint64, error) {
	if i := slices.IndexFunc(c.Recipients, func(a token.Address) bool { return slices.Contains(p.listed, a) }); i >= 0 && !c.List.IsZero() {
		return 0, &chain.EntryError{Index: i, Err: chain.ErrListed}
	}
	p.Mu.Lock()
	p.asked++
	silent := p.asked == p.mute
	outputs := fakechain.Outputs(chain.Tx{To: c.To, Data: c.Data})
	if c.ByCall {
		p.executed = append(p.executed, fmt.Sprintf("%x %d", outputs[0].To[:1], c.Within))
	}
	p.Mu.Unlock()
	if silent {
		return 0, errors.New("connection reset")
	}
	if slices.Contains(p.unable, c.From) {
		if outputs[0].To != c.From {
			p.blocked++
		}
		return 0, chain.ErrReverted
	}
	switch batch := c.To == fakechain.Batcher; {
	case batch && c.Batch && p.fit > 0 && len(outputs) > p.fit:
		return 0, chain.ErrTooLarge
	case len(c.Data) == 0 && c.Value.IsZero() && c.To != c.From: // a contract may refuse to be sent nothing
		return 0, chain.ErrReverted
	case batch && slices.Contains(p.unapproved, c.From), p.strict && len(c.Data) != 4+32+32:
		return 0, chain.ErrReverted
	}
	var sum token.Amount
	for i, e := range outputs {
		sum, _ = sum.Add(e.Amount)
		switch refused := slices.Contains(p.refuses, e.To) || p.balance(c.From).Less(sum); {
		case refused && p.tells:
			return 0, &chain.EntryError{Index: i + p.lies, Err: chain.ErrReverted}
		case refused:
			return 0, chain.ErrReverted
		}
	}
	gas := cmp.Or(p.costs[outputs[0].To], 50_000)
	if gas <= c.Within {
		return c.Within, nil
	}
	return gas, nil
}

func (p *process) Head(context.Context, chain.ConfirmationRule) (chain.Head, error) {
	return chain.Head{Number: 9, Final: 9}, nil
}

func (p *process) Account(_ context.Context, a, _ token.Address, head chain.Head) (chain.Account, error) {
	mined := p.mined
	if a == p.idle {
		mined = 0
	}
	pending := mined
	if a == p.foreign {
		pending++
	}
	return chain.Account{Head: head, Mined: mined, Pending: pending, Balance: p.balance(a), Gas: unit(1 << 60)}, nil
}

func (p *process) Count(_ context.Context, _ token.Address, block uint64) (uint64, error) {
	if block != 9 {
		return 0, nil
	}
	return p.mined, nil
}

func (p *process) Send(_ context.Context, raw []byte) chain.Reply {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	p.sent = append(p.sent, raw)
	return chain.Reply{Class: p.reply}
}
