package dispatch_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"remit/internal/chain"
	"remit/internal/dispatch"
	"remit/internal/interpose"
	"remit/internal/memory"
	"remit/internal/payment"
	"remit/internal/stack"
	"remit/internal/token"
	"remit/internal/wallet"
)

// errBroken is the error of a call that a script lets fail.
var errBroken = errors.New("broken")

// A script names calls by their operation and number, "Reserve#1", and says what
// happens before one. An error of it is returned in the call's place.
type script map[string]func(p *process) error

// breaks is a script in which some calls fail and have no effect.
func breaks(calls ...string) script {
	s := script{}
	for _, call := range calls {
		s[call] = func(*process) error { return errBroken }
	}
	return s
}

// with returns a script with one more act.
func (s script) with(call string, act func(p *process) error) script {
	s[call] = act
	return s
}

// A process is a dispatcher every call of which to its ports goes by a script.
// It is also its own keys, hints and node.
type process struct {
	chain.Node
	d      *dispatch.Dispatcher
	t      *testing.T
	tables *memory.Payments
	script script
	now    time.Time
	mined  uint64          // the count of every wallet
	holds  token.Amount    // of the token, of every wallet
	poor   token.Address   // the wallet that has none of it
	reply  chain.Class     // to every broadcast
	keys   []token.Address // of wallets
	sent   [][]byte        // to the node
	draw   func(n int) int // to choose wallets
	calls  []string        // in the order they were made
	mu     sync.Mutex      // guards calls, script and sent
	times  map[string]int  // of each operation
}

// asked is a request that a process can make.
var asked = payment.Request{Merchant: "mer_1", Mode: "test", IdempotencyKey: "k", To: token.Address{9}, Amount: token.Units(100)}

// first and second are the wallets of a process.
var first, second = token.Address{1}, token.Address{2}

// newProcess returns a process with two wallets. Its tables are empty.
func newProcess(t *testing.T, s script, change ...func(*stack.Config)) *process {
	return start(t, memory.NewPayments(), s, change...)
}

// start returns a process with two wallets and with the tables of another.
func start(t *testing.T, tables *memory.Payments, s script, change ...func(*stack.Config)) *process {
	p := &process{
		t: t, tables: tables, script: s, now: time.Date(2100, time.January, 2, 3, 4, 5, 0, time.UTC),
		holds: token.Units(1000), reply: chain.Accepted, keys: []token.Address{first, second},
		draw: func(n int) int { return n - 1 }, times: map[string]int{}, // candidates stay in their order
	}
	config := stack.Config{ChainID: 1, Window: 4, Daily: token.Units(5000), BlockTime: time.Minute}
	for _, c := range change {
		c(&config)
	}
	p.d = dispatch.New(config, dispatch.Parts{
		Store: &interpose.Store{Store: p.tables, Around: p.around}, Keys: p, Nodes: p,
		Hints: p, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return p.now }, Random: rand.Reader,
		Draw: func(n int) int { return p.draw(n) },
	})
	return p
}

func (p *process) around(ctx context.Context, c interpose.Call, apply func(context.Context)) error {
	p.mu.Lock()
	p.times[c.Op]++
	call := fmt.Sprint(c.Op, "#", p.times[c.Op])
	p.calls = append(p.calls, call)
	act := p.script[call]
	delete(p.script, call)
	p.mu.Unlock()
	if act != nil {
		if err := act(p); err != nil {
			return err
		}
	}
	apply(ctx)
	return nil
}

// pay sends asked.
func (p *process) pay() (dispatch.Result, error) { return p.d.Send(p.t.Context(), asked) }

// did reports whether a call was made.
func (p *process) did(call string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(p.calls, call)
}

// stored is the payment that answers asked, as it is stored; zero when none is.
func (p *process) stored() payment.Payment {
	stored, _ := p.tables.Payment(context.Background(), payment.KeyID(asked.Merchant, asked.Mode, asked.IdempotencyKey))
	return stored
}

// holdsNothing reports whether no wallet has a reservation.
func (p *process) holdsNothing() bool {
	for _, a := range p.keys {
		if w, err := p.tables.Wallet(context.Background(), walletOf(a)); err == nil && len(w.Reservations) > 0 {
			return false
		}
	}
	return true
}

// record is a wallet as it is stored.
func (p *process) record(a token.Address) wallet.Wallet {
	w, err := p.tables.Wallet(context.Background(), walletOf(a))
	p.must(err)
	return w
}

func (p *process) must(err error) {
	if err != nil {
		p.t.Error(err)
	}
}

func walletOf(a token.Address) wallet.ID { return wallet.ID{ChainID: 1, Address: a} }

func (p *process) Nodes(ctx context.Context) (chain.Nodes, error) {
	return chain.Nodes{interpose.Node{Node: p, Around: p.around}}, p.around(ctx, interpose.Call{Op: "Nodes"}, func(context.Context) {})
}

func (p *process) Hint(ctx context.Context) error {
	return p.around(ctx, interpose.Call{Op: "Hint"}, func(context.Context) {})
}

func (p *process) All(ctx context.Context) ([]token.Address, error) {
	return p.keys, p.around(ctx, interpose.Call{Op: "All"}, func(context.Context) {})
}

func (p *process) Active(ctx context.Context) ([]token.Address, error) {
	return p.keys, p.around(ctx, interpose.Call{Op: "Active"}, func(context.Context) {})
}

func (p *process) Signer(ctx context.Context, _ token.Address) (wallet.Signer, error) {
	return p, p.around(ctx, interpose.Call{Op: "Signer"}, func(context.Context) {})
}

func (p *process) Sign(tx chain.Tx, nonce uint64) (chain.Signed, error) {
	raw := fmt.Append(nil, tx, nonce)
	return chain.Signed{Nonce: nonce, Hash: sha256.Sum256(raw), Raw: raw}, p.around(context.Background(), interpose.Call{Op: "Sign"}, func(context.Context) {})
}

func (p *process) String() string { return "node" }

func (p *process) Fees(context.Context) (chain.Market, error) {
	return chain.Market{BaseFee: token.Units(10), Tip: token.Units(1)}, nil
}

func (p *process) Estimate(context.Context, chain.Call) (uint64, error) { return 50_000, nil }

func (p *process) Account(_ context.Context, a, _ token.Address, _ chain.ConfirmationRule) (chain.Account, error) {
	holds := p.holds
	if a == p.poor {
		holds = token.Amount{}
	}
	return chain.Account{Head: 9, Final: 9, Mined: p.mined, Pending: p.mined, Balance: holds, Gas: token.Units(1 << 60), Steady: true}, nil
}

func (p *process) Count(context.Context, token.Address, uint64) (uint64, error) { return p.mined, nil }

func (p *process) Send(_ context.Context, raw []byte) chain.Reply {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent = append(p.sent, raw)
	return chain.Reply{Class: p.reply}
}
