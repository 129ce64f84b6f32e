package dispatch_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/porttest"
)

// four returns a process with four wallets, of which the first's transfers all revert.
func four(t *testing.T) *process {
	p := newProcess(t, script{})
	p.keys = append(p.keys, token.Address{3}, token.Address{4})
	p.unable = []token.Address{first}
	return p
}

// TestAWalletThatTheTokenBlocksIsPaused after five minutes, unless it pays in between, and not over another reason.
func TestAWalletThatTheTokenBlocksIsPaused(t *testing.T) {
	for want, third := range map[string]func(p *process){
		"blocked: the token pays nobody from it": func(*process) {},
		"":                                       func(p *process) { p.unable = nil }, // it ends in between
		"by hand":                                func(p *process) { p.Must(pause(first)(p)) },
	} {
		p := four(t)
		p.keys = p.keys[:2]
		p.set(func(s *settings.Settings) { s.Daily = token.Amount{} })
		for minute := range 6 {
			if p.unable = []token.Address{first}; minute == 3 {
				third(p)
			}
			p.ask(fmt.Sprint(minute)).is("minute by minute", nil)
			p.Must(p.Tables.RaiseCeiling(t.Context(), walletOf(second), p.Record(walletOf(second)).NextNonce+4))
			p.Pass(time.Minute)
		}
		if got := p.Record(walletOf(first)).Paused; got != want {
			t.Errorf("paused for %q, want %q", got, want)
		}
	}
}

// TestNoAnswerIsNoReason: a transfer reverts, and the node is silent when it is asked
// why. Neither the wallet nor the recipient is to blame for all that is known.
func TestNoAnswerIsNoReason(t *testing.T) {
	batch, _ := asked.Batch([]payment.Entry{{To: token.Address{8}, Amount: unit(50)}, {To: asked.To, Amount: unit(50)}})
	for _, row := range []struct {
		r    payment.Request
		mute int // the simulated call: after the payment's own, to the wallet itself, and then of a part
		call string
	}{{asked, 2, ""}, {batch, 2, ""}, {batch, 3, ""}, {asked, 0, "Account#1"}} {
		p := four(t)
		p.refuses, p.mute, p.Script = []token.Address{asked.To}, row.mute, breaks(row.call)
		if a := p.request(row.r).is("silent", dispatch.ErrUnavailable); errors.Is(a.err, dispatch.ErrRecipient) {
			t.Errorf("silent at call %d%s: %v", row.mute, row.call, a.err)
		}
	}
}

// TestAPaymentIsSimulatedForTheWalletItMovesTo: it is not given to a wallet from which it would revert.
func TestAPaymentIsSimulatedForTheWalletItMovesTo(t *testing.T) {
	third := token.Address{3}
	for name, change := range map[string]func(p *process){
		"the token pays nobody from the second":   func(p *process) { p.unable = []token.Address{second} },
		"the contract may not spend the second's": func(p *process) { p.unapproved = []token.Address{second} },
		"the second has too little":               func(p *process) { p.poor = second },
		"the second's key is away":                func(p *process) { p.Script = breaks("Ready#3").With("Reserve#1", pause(first)) },
		"the node is silent":                      func(p *process) { p.mute = 2 },
	} {
		p := newProcess(t, script{"Reserve#1": pause(first)})
		p.keys = append(p.keys, third)
		change(p)
		if a := p.request(batchOf(5, 6)); p.mute == 0 {
			a.is(name, nil).by(third)
		} else {
			a.is(name, dispatch.ErrUnavailable).says("moving to")
		}
		if p.asked > 5 {
			t.Errorf("%s: %d simulations", name, p.asked)
		}
	}
}

// TestATokenThatPaysNobody is no reason for a cooldown, and costs a request the
// simulations of four wallets, however many there are, and one without the memo.
func TestATokenThatPaysNobody(t *testing.T) {
	p := newProcess(t, script{})
	for n := range 10 {
		p.keys = append(p.keys, token.Address{3, byte(n)})
	}
	p.unable = slices.Clone(p.keys)
	for n := range 2 {
		if p.ask(fmt.Sprint(n)).is("it pays nobody", dispatch.ErrUnavailable); p.blocked != 5*(n+1) {
			t.Errorf("%d simulations", p.blocked)
		}
	}
	p.unable = nil
	p.ask("k").is("once it pays again", nil).by(first)
}

// TestATokenThatRefusesTheMemo: nothing is stored, no wallet is in cooldown, and the error says
// which setting to change. Without the memo the payment is made.
func TestATokenThatRefusesTheMemo(t *testing.T) {
	p := newProcess(t, script{})
	p.strict = true
	p.ask("k").is("with a memo", dispatch.ErrUnavailable).without("Create#1").says("settings set Memo=off")
	p.set(func(s *settings.Settings) { s.MemoOff = true })
	if p.ask("k").is("with Memo=off", nil).by(first).Payment.Memo() {
		t.Error("it has a memo")
	}
	p.strict = false
	p.set(func(s *settings.Settings) { s.MemoOff = false })
	if data := p.ask("k2").is("with a memo again", nil).Payment.Tx.Data; len(data) != 68+20 ||
		!bytes.HasSuffix(data, payment.KeyID("mer_1", "test", "k2").Memo()) {
		t.Errorf("call data is %x", data)
	}
}

// TestAForeignWalletStopsNoOther: a key that another program uses is left out, and is opened once that has ended.
// Where no wallet has a record, all wait for it: the tables may be lost, and the other program may be this stack.
func TestAForeignWalletStopsNoOther(t *testing.T) {
	p := newProcess(t, script{})
	p.foreign = first
	p.ask("k").is("where the tables know no wallet", wallet.ErrForeign).without("Open#1")
	p.open(second)
	p = start(t, p.Tables, breaks(unreserved...))
	p.foreign = first
	p.ask("left").is("it was given to the foreign one", dispatch.ErrInProgress)
	p.Pass(handlerLife)
	for _, key := range []string{"left", "1", "2"} {
		p.ask(key).is(key, nil).by(second)
	}
	if p.Times["Account"] != 3 { // of the startup check, and before a payment moved to the second wallet
		t.Errorf("%d looks at two wallets within a minute", p.Times["Account"])
	}
	p.foreign = token.Address{}
	p.Pass(time.Minute)
	p.ask("later").is("once it is free", nil).by(first)
}

// TestAWalletIsOpenedOnceThePausesOfOthersAreKnown: it would be paused with them.
func TestAWalletIsOpenedOnceThePausesOfOthersAreKnown(t *testing.T) {
	p := newProcess(t, breaks("Wallets#2", "Wallets#3")) // the lists for the pauses
	p.open(second)
	p.ask("k").is("they are unknown", nil).by(second).without("Open#1")
	suspected, behind := wallet.Suspicion+": restored", wallet.RolledBack+": behind"
	for paused, want := range map[string]string{suspected: suspected, behind: behind, "by hand": ""} {
		p := newProcess(t, nil)
		p.open(second)
		p.Must(p.Tables.Pause(t.Context(), walletOf(second), paused))
		if p.ask("k"); p.Record(walletOf(first)).Paused != want {
			t.Errorf("beside one that is paused for %q, it is for %q", paused, p.Record(walletOf(first)).Paused)
		}
	}
}

// TestAnAssignmentIsFollowed by a process that does not know it yet: it reads the wallets again.
func TestAnAssignmentIsFollowed(t *testing.T) {
	for holds, want := range map[uint64]error{1000: nil, 99: dispatch.ErrInsufficient} {
		p := newProcess(t, nil)
		p.keys = p.keys[:1]
		p.ask("before", of("mer_2", false)).is("before", nil)
		p.Must(p.Tables.SetState(t.Context(), walletOf(first), wallet.Active, wallet.Draining, p.Now()))
		p.Must(p.Tables.Assign(t.Context(), p.Record(walletOf(first)), "mer_1", p.Now()))
		p.keys = []token.Address{second}
		p.open(second)
		p.Must(p.Tables.Reconcile(t.Context(), p.Record(walletOf(second)), unit(holds), unit(1<<60), nil, nil))
		p.Pass(3 * time.Second)
		p.ask("k", of("mer_2", false)).is("the first is another merchant's by now", want)
	}
}

// own is a wallet of mer_1 alone.
var own = token.Address{0x77}

// owning is a registration of own.
func owning(p *process) error {
	return p.Tables.Register(context.Background(), wallet.Registration{ID: walletOf(own),
		Token: porttest.Rail.Token.Contract, State: wallet.Assigned, Key: wallet.InSecret, Merchant: asked.Merchant})
}

// of makes a request a merchant's, with wallets of its own or without.
func of(merchant string, own bool) func(*payment.Request) {
	return func(r *payment.Request) { r.Merchant, r.Key.OwnWallets = merchant, own }
}

// TestOwnWallets: a merchant with own wallets spends those alone, and no other merchant does. An assignment holds at
// once for its merchant, also in a process whose registry is from before.
func TestOwnWallets(t *testing.T) {
	for name, test := range map[string]struct {
		before   func(p *process) error
		merchant string
		own      bool
		want     token.Address // zero: refused
		err      error
	}{
		"its own":          {nil, "mer_1", true, own, nil},
		"another's common": {nil, "mer_2", false, second, nil},
		"no own wallet is left": {func(p *process) error {
			return cmp.Or(p.Tables.SetState(context.Background(), walletOf(own), wallet.Assigned, wallet.Draining, p.Now()),
				p.Tables.Assign(context.Background(), p.Record(walletOf(own)), "", p.Now()))
		}, "mer_1", true, token.Address{}, dispatch.ErrUnavailable},
		"it is empty":  {func(p *process) error { p.poor = own; return nil }, "mer_1", true, token.Address{}, dispatch.ErrInsufficient},
		"it is paused": {pause(own), "mer_1", true, token.Address{}, dispatch.ErrUnavailable},
		"over the merchant's cap": {func(p *process) error {
			p.set(func(s *settings.Settings) { s.MerchantCap = 1 })
			return nil
		}, "mer_1", true, own, nil},
	} {
		p := newProcess(t, script{})
		p.ask("before", of("mer_2", false)).is("before", nil)
		p.Must(owning(p))
		p.Pass(3 * time.Second)
		p.ask("first", of("mer_1", true)).is("at once", nil).by(own)
		if p.Pass(time.Hour); test.before != nil {
			p.Must(cmp.Or(p.Tables.RaiseCeiling(t.Context(), walletOf(own), 9), test.before(p)))
		}
		a := p.ask("k", of(test.merchant, test.own)).is(name, test.err).by(test.want)
		if a.Payment.WalletOf != map[bool]string{true: test.merchant}[test.want == own] || errors.Is(a.err, dispatch.ErrTooMany) {
			t.Errorf("%s: of %q, %v", name, a.Payment.WalletOf, a.err)
		}
	}
}

// TestAnAssignmentSinceTheRegistryWasRead: a common payment takes no coin of the wallet, and finds another one.
func TestAnAssignmentSinceTheRegistryWasRead(t *testing.T) {
	p := newProcess(t, script{})
	p.keys = p.keys[:1]
	p.ask("before", of("mer_2", false)).is("before", nil).by(first)
	p.Must(p.Tables.SetState(t.Context(), walletOf(first), wallet.Active, wallet.Draining, p.Now()))
	p.Must(p.Tables.Assign(t.Context(), p.Record(walletOf(first)), asked.Merchant, p.Now()))
	p.keys = []token.Address{second}
	p.Pass(3 * time.Second)
	p.ask("k", of("mer_2", false)).is("common", nil).by(second)
	p.ask("own", of(asked.Merchant, true)).is("the owner's", nil).by(first)
}

// A badNode gives the answers of a process's node, but for an account's.
type badNode struct {
	chain.Node
	more  uint64 // that it counts as mined
	pool  uint64 // that its pool holds besides
	alone bool   // the others give no account
	shown bool   // it shows a signed transaction at every nonce
}

func (b badNode) Account(ctx context.Context, w, c token.Address, h chain.Head) (chain.Account, error) {
	a, err := b.Node.Account(ctx, w, c, h)
	a.Mined += b.more
	a.Pending += b.more + b.pool
	return a, err
}

func (b badNode) TxAtNonce(_ context.Context, w token.Address, nonce, _ uint64) (chain.Hash, error) {
	return chain.Hash{0: w[0], 31: byte(nonce)}, nil
}

func (b badNode) Transactions(_ context.Context, hashes []chain.Hash) ([]chain.MinedTx, error) {
	return []chain.MinedTx{{From: token.Address{hashes[0][0]}, Nonce: uint64(hashes[0][31]), Signed: b.shown}}, nil
}

// A mute node gives an error for an account.
type mute struct {
	chain.Node
	err error
}

func (m mute) Account(context.Context, token.Address, token.Address, chain.Head) (chain.Account, error) {
	return chain.Account{}, m.err
}

// TestOneNodeCountsMore: its word alone neither stops a new stack, nor a process that starts, nor raises a ceiling, nor
// opens a wallet: it could promise coins. A transaction that it shows does stop them.
func TestOneNodeCountsMore(t *testing.T) {
	for name, b := range map[string]badNode{"mined": {more: 3}, "pool": {pool: 3}, "shown": {more: 3, shown: true}} {
		for _, begun := range []bool{false, true} {
			p := newProcess(t, script{})
			if begun {
				p.ask("earlier").is("earlier", nil)
				p = start(t, p.Tables, script{})
			}
			b.Node = p
			p.keys, p.bad = p.keys[:1], b
			p.ask("k").is(name, map[bool]error{true: dispatch.ErrUnavailable}[b.shown])
		}
	}
	p := newProcess(t, script{})
	p.keys, p.bad = p.keys[:1], badNode{Node: p, alone: true}
	if p.ask("k").is("alone", dispatch.ErrUnavailable).without("Reserve#1"); p.Times["Open"] > 0 {
		t.Errorf("alone, it opens a wallet: %v", p.Calls)
	}
	p.bad.alone, p.bad.more = false, 3
	for n := range 4 { // as many as the window has
		p.ask(fmt.Sprint(n)).is("within the window", nil)
	}
	for _, p.bad.alone = range []bool{false, true} {
		p.ask("beyond").is("beyond the ceiling", dispatch.ErrUnavailable)
		if w := p.Record(walletOf(first)); w.Ceiling != 4 {
			t.Errorf("alone, %t, it raises the ceiling to %d", p.bad.alone, w.Ceiling)
		}
	}
	p = start(t, p.Tables, script{})
	p.keys, p.bad = p.keys[:1], badNode{Node: p, alone: true}
	p.ask("after a start").is("alone, it compares nothing", dispatch.ErrUnavailable).without("Reserve#1")
}

// TestColdProcess: where a run of check-receipts has compared 500 wallets lately, the first payment of a process
// takes four round trips to the store in sequence and two to the nodes, and asks no node for a wallet.
func TestColdProcess(t *testing.T) {
	const read = time.Second + 2*time.Millisecond - 1 // after the start of the request the comparison is
	for _, test := range []struct {
		age      time.Duration
		believed bool
	}{{-5*time.Second - 1, false}, {-5 * time.Second, true}, {90*time.Second - 1, true}, {90 * time.Second, false}} {
		synctest.Test(t, func(t *testing.T) {
			p := newProcess(t, script{})
			p.keys = nil
			for n := range 500 {
				a := token.Address{3, byte(n >> 8), byte(n)}
				p.keys = append(p.keys, a)
				p.open(a)
			}
			p.set(func(s *settings.Settings) { s.Daily = token.Amount{} })
			p.Must(p.Tables.SetCompared(t.Context(), porttest.Rail.Coin(), store.Comparison{At: p.Now().Add(read - test.age)}))
			p.Delays = map[string]time.Duration{}
			for _, op := range []string{"Estimate", "Fees", "Account", "Head", "Count", "Send"} {
				p.Delays[op] = time.Second
			}
			for _, op := range []string{"Wallets", "Compared", "Wallet", "Open", "Create", "Payment", "Reserve", "Reassign", "Commit", "Release"} {
				p.Delays[op] = time.Millisecond
			}
			p.Delays["Wallets"]--
			began := time.Now()
			p.d.Now = func() time.Time { return p.Now().Add(time.Since(began)) }
			p.ask("k").is("cold", nil)
			if phases := "ms.simulate=1000 ms.store=1 ms.reserve=1 ms.commit=1 ms.broadcast=1000"; test.believed &&
				!strings.Contains(p.log.String(), phases) {
				t.Errorf("logged %s, want %s", &p.log, phases)
			}
			if took := time.Since(began); (took == 2*time.Second+4*time.Millisecond-1) != test.believed ||
				p.Did("Account#1") == test.believed {
				t.Errorf("compared %v ago: took %v", test.age, took)
			}
		})
	}
}
