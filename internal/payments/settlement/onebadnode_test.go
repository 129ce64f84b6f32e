package settlement_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/settlement"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/porttest"
	"github.com/remit-payouts/remit/internal/sandbox/interpose"
)

// A bad node gives the answers of another one, changed. Nil changes nothing.
type bad struct {
	chain.Node
	name    string
	head    func(*chain.Head)
	account func(*chain.Account)
	send    func([]byte) chain.Reply
	hangs   bool // at each send
	shown   bool // it shows a transaction at every nonce, signed by the wallet
	receipt func(*chain.Receipt)
	nothing bool // it has no receipt
	deaf    bool // it gives no account
	takes   time.Duration
}

// around has an answer of the node take its time, at most as long as ethrpc waits.
func (b bad) around(ctx context.Context, _ interpose.Call, apply func(context.Context)) error {
	select {
	case <-time.After(min(b.takes, 10*second)):
		if b.takes > 10*second {
			return context.DeadlineExceeded
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	apply(ctx)
	return nil
}

func (b bad) String() string { return b.name }

func (b bad) Head(ctx context.Context, r chain.ConfirmationRule) (chain.Head, error) {
	h, err := b.Node.Head(ctx, r)
	if b.head != nil {
		b.head(&h)
	}
	return h, err
}

func (b bad) Account(ctx context.Context, w, c token.Address, h chain.Head) (chain.Account, error) {
	a, err := b.Node.Account(ctx, w, c, h)
	if b.deaf {
		err = chain.ErrRejected
	}
	if b.account != nil {
		b.account(&a)
	}
	return a, err
}

func (b bad) Send(ctx context.Context, raw []byte) chain.Reply {
	if b.hangs {
		<-ctx.Done()
		return chain.Reply{Class: chain.Ambiguous}
	}
	if b.send != nil {
		return b.send(raw)
	}
	return b.Node.Send(ctx, raw)
}

func (b bad) TxAtNonce(ctx context.Context, w token.Address, nonce, final uint64) (chain.Hash, error) {
	if b.shown {
		return chain.Hash{31: byte(nonce)}, nil
	}
	return b.Node.TxAtNonce(ctx, w, nonce, final)
}

func (b bad) Transactions(ctx context.Context, hashes []chain.Hash) ([]chain.MinedTx, error) {
	if b.shown {
		return []chain.MinedTx{{Hash: hashes[0], From: payer, Nonce: uint64(hashes[0][31]), Signed: true}}, nil
	}
	return b.Node.Transactions(ctx, hashes)
}

func (b bad) Receipts(ctx context.Context, hashes []chain.Hash) ([]chain.Receipt, error) {
	receipts, err := b.Node.Receipts(ctx, hashes)
	for i := range receipts {
		if b.receipt != nil {
			b.receipt(&receipts[i])
		}
	}
	if b.nothing {
		return nil, err
	}
	return receipts, err
}

// three gives the settler two honest nodes with a bad one between them, and returns its log.
func (w *world) three(b bad) *bytes.Buffer {
	if w.peer == nil {
		w.second()
	}
	now, after := w.Now, never
	b.Node, b.name = w.peer, "bad"
	if b.takes > 0 {
		now, after, b.Node = time.Now, time.After, interpose.Node{Node: w.peer, Around: b.around}
	}
	w.settler.Nodes = chain.Nodes{bad{Node: w, name: "a"}, b, bad{Node: w.peer, name: "c"}}.Watch(now, after)
	log := new(bytes.Buffer)
	w.settler.Log = slog.New(slog.NewTextHandler(log, nil))
	return log
}

// never is a clock's after, for nodes that answer at once.
func never(time.Duration) <-chan time.Time { return nil }

// TestOneNodeMisreportsTheBalance: one node of three neither refuses payments nor promises coins.
func TestOneNodeMisreportsTheBalance(t *testing.T) {
	richer := func(a *chain.Account) { a.Balance, a.Gas = token.Units(1<<61), token.Units(1<<61) }
	for name, b := range map[string]bad{
		"too low":                    {account: func(a *chain.Account) { a.Balance, a.Gas = token.Units(1), token.Units(1) }},
		"too high":                   {account: richer},
		"too high, and it is ahead":  {head: func(h *chain.Head) { h.Number = 26 }, account: richer},
		"too high, and it is behind": {head: func(h *chain.Head) { h.Number = 0 }, account: richer},
		"nothing is under way":       {account: func(a *chain.Account) { a.Mined = 1 }},
	} {
		w := newWorld(t, nil)
		w.commit("a", 0)
		log := w.three(b)
		must.Get(w.round())(t)
		if r := w.record(); r.Balance != funds.Balance.Sub(token.Units(100)) || r.Gas != funds.Gas.Sub(token.Units(210)) {
			t.Errorf("%s: the wallet may spend %s and %s wei", name, r.Balance, r.Gas)
		}
		if named := strings.Contains(log.String(), "node=bad"); named != (name == "too low") {
			t.Errorf("%s: the node is named: %t: %s", name, named, log)
		}
	}
}

// TestOneNodeInflatesALimit: the fee limit of the lowest nonce leaves out a node that has not mined the one before.
// That node still has its ether, and would support one that lies.
func TestOneNodeInflatesALimit(t *testing.T) {
	w := newWorld(t, nil)
	w.Must(w.Tables.Advance(t.Context(), id, 1, 0))
	w.mined, w.settled, w.price, w.has.Gas = 1, 1, 30, token.Units(400)
	w.commit("a", time.Hour)
	w.three(bad{account: func(a *chain.Account) { a.Gas = funds.Gas }})
	w.settler.Nodes.(chain.Nodes)[2] = bad{Node: w.peer, name: "c",
		account: func(a *chain.Account) { a.Mined, a.Gas = 0, token.Units(1000) }}
	must.Get(w.round())(t)
	if got := w.pending()[0].Fees.Cap; got != token.Units(40) {
		t.Errorf("10 gas at a cap of %s, of 400 wei", got)
	}
}

// TestOneNodeAnswersAlone: the only one of three nodes that answers may lower what a wallet may spend, and not raise
// that, nor its ceiling, nor have the tables count as compared with the chain.
func TestOneNodeAnswersAlone(t *testing.T) {
	for balance, want := range map[uint64]token.Amount{1 << 61: funds.Balance.Sub(token.Units(100)), 50: token.Units(50)} {
		w := newWorld(t, nil)
		w.commit("a", 0)
		w.three(bad{})
		w.settler.Nodes = chain.Nodes{bad{Node: w, name: "a", deaf: true}, bad{Node: w.peer, name: "c", deaf: true},
			bad{Node: w, name: "bad", account: func(a *chain.Account) {
				a.Mined, a.Balance, a.Gas = 1, token.Units(balance), token.Units(1<<61)
			}}}
		must.Get(w.round())(t)
		if r := w.record(); r.Balance != want || r.Gas != funds.Gas.Sub(token.Units(210)) || r.Ceiling != 64 {
			t.Errorf("%d coins: the wallet may spend %s and %s wei below %d", balance, r.Balance, r.Gas, r.Ceiling)
		}
	}
	for nodes := range 2 {
		w := newWorld(t, nil)
		w.three(bad{})
		w.settler.Nodes = chain.Nodes{bad{Node: w, name: "a", deaf: true},
			bad{Node: w.peer, name: "c", deaf: nodes == 0}, bad{Node: w, name: "b"}}
		_, err := w.settler.Run(t.Context(), "run")
		if known := must.Get(w.Tables.Compared(t.Context(), porttest.Rail.Coin()))(t); err != nil || known.At.IsZero() != (nodes == 0) {
			t.Errorf("%d beside it: the tables were compared at %s, %v", nodes, known.At, err)
		}
	}
}

// TestOneNodeMiscounts: one node of three that counts nonces in flight, or none, neither stops
// resending and raising fees, nor moves the ceiling. It gets the bytes that it lacks.
func TestOneNodeMiscounts(t *testing.T) {
	for name, test := range map[string]struct {
		count  uint64
		resent int
	}{"in flight": {2, 2}, "none": {0, 3}} {
		w := newWorld(t, nil)
		w.paid(w.commit("a", 0), chain.Hash{1})
		w.second()
		w.commit("b", 4*minute)
		w.three(bad{account: func(a *chain.Account) { a.Mined, a.Pending = test.count, test.count },
			send: func([]byte) chain.Reply { return chain.Reply{Class: chain.NonceTooLow} }})
		if got := must.Get(w.round())(t); got.Resent != test.resent || w.record().Ceiling != 65 {
			t.Errorf("%s: %d sent again, ceiling %d", name, got.Resent, w.record().Ceiling)
		}
		w.price, w.peer.price = 21, 21
		if got := must.Get(w.round())(t); got.Bumps != 1 {
			t.Errorf("%s: %d bumps", name, got.Bumps)
		}
		w.Pass(minute)
		if got := must.Get(w.round())(t); got.Resent != test.resent { // one of two attempts may be in a pool
			t.Errorf("%s: %d of both attempts sent again", name, got.Resent)
		}
	}
}

// TestOneNodeCountsMoreThanTheTables: its word alone pauses nothing, and the log names it. While the others are silent
// it may be right, and the wallet waits for them.
func TestOneNodeCountsMoreThanTheTables(t *testing.T) {
	for name, test := range map[string]struct{ shown, silent bool }{"a count": {}, "a transaction": {shown: true},
		"a count, and the others are silent": {silent: true}, "a transaction, and they are": {true, true}} {
		w := newWorld(t, nil)
		p := w.commit("a", minute)
		w.paid(p, p.TxHash)
		w.second()
		log := w.three(bad{account: func(a *chain.Account) { a.Mined = 2 }, shown: test.shown})
		if test.silent {
			nodes := w.settler.Nodes.(chain.Nodes)
			w.settler.Nodes = chain.Nodes{bad{Node: nodes[0], name: "a", deaf: true}, nodes[1], bad{Node: nodes[2], name: "c", deaf: true}}
		}
		got := must.Get(w.round())(t)
		if r := w.record(); r.Paused != "" != test.shown || (got.Suspect > 0) != test.shown || r.Ceiling > 65 {
			t.Errorf("%s: paused for %q, ceiling %d, %+v", name, r.Paused, r.Ceiling, got)
		}
		if strings.Contains(log.String(), `it counts transactions that it does not show" node=bad`) == (test.shown || test.silent) {
			t.Errorf("%s: %s", name, log)
		}
	}
}

// TestTooFewNodesCountMoreThanTheTables: while three nodes of five are silent, the tables do not count as compared.
func TestTooFewNodesCountMoreThanTheTables(t *testing.T) {
	w := newWorld(t, nil)
	w.mined = 2
	all := chain.Nodes{bad{Node: w, name: "a"}, bad{Node: w, name: "b"}}
	for _, name := range []string{"c", "d", "e"} {
		all = append(all, bad{Node: w, name: name, deaf: true})
	}
	w.settler.Nodes = all
	must.Get(w.run(10 * second))(t)
	if known := must.Get(w.Tables.Compared(t.Context(), porttest.Rail.Coin()))(t); !known.At.IsZero() {
		t.Errorf("they were compared at %s", known.At)
	}
}

// A shower shows nonce 1, once another process has given it out.
type shower struct {
	bad
	give func()
}

func (s shower) TxAtNonce(ctx context.Context, w token.Address, nonce, final uint64) (chain.Hash, error) {
	if s.shown = nonce == 1; s.shown {
		s.give()
	}
	return s.bad.TxAtNonce(ctx, w, nonce, final)
}

// TestOneNodeShowsOurOwn: the payment that a node shows for its count was made since the round read the record.
func TestOneNodeShowsOurOwn(t *testing.T) {
	w := newWorld(t, nil)
	w.paid(w.commit("a", minute), chain.Hash{1})
	w.second()
	liar := bad{Node: w.peer, name: "bad", shown: true, account: func(a *chain.Account) { a.Mined = 3 }}
	w.settler.Nodes = chain.Nodes{bad{Node: w, name: "a"}, shower{liar, func() { w.commit("b", minute) }}, bad{Node: w.peer, name: "c"}}
	if got := must.Get(w.round())(t); got.Suspect > 0 || w.record().Paused != "" || w.record().NextNonce != 2 {
		t.Errorf("%+v, %+v", got, w.record())
	}
}

// TestOneNodeCallsTheWalletEmpty: a wallet is paused for lack of gas only if no node has its bytes and enough say so.
func TestOneNodeCallsTheWalletEmpty(t *testing.T) {
	empty := func([]byte) chain.Reply { return chain.Reply{Class: chain.Funds} }
	for name, test := range map[string]struct {
		others chain.Class
		paused string
	}{
		"the others hold the bytes":     {chain.Accepted, ""},
		"the others answer nothing":     {chain.Ambiguous, ""},
		"the others call it empty too":  {chain.Funds, wallet.OutOfGas},
		"the others' pools are full":    {chain.Full, ""},
		"the others have them in pools": {"", ""},
	} {
		w := newWorld(t, nil)
		w.commit("a", minute)
		w.second()
		w.reply, w.peer.reply = test.others, test.others
		if test.others == "" {
			w.pooled, w.peer.pooled = 1, 1
		}
		log := w.three(bad{send: empty, account: func(a *chain.Account) { a.Pending = a.Mined }})
		must.Get(w.round())(t)
		if got := w.record().Paused; got != test.paused || strings.Contains(log.String(), "node=bad") != (test.paused == "") {
			t.Errorf("%s: paused for %q, want %q: %s", name, got, test.paused, log)
		}
	}
}

// TestOneOfTwoNodesCallsTheWalletEmpty, with the other first or last: it pauses the wallet only if
// the other does not hold the bytes.
func TestOneOfTwoNodesCallsTheWalletEmpty(t *testing.T) {
	for _, last := range []bool{false, true} {
		for reply, paused := range map[chain.Class]string{chain.Accepted: "", chain.Full: wallet.OutOfGas, "": ""} {
			w := newWorld(t, nil)
			w.commit("a", minute)
			other, empty := w, w.second()
			if last {
				other, empty = empty, other
			}
			if other.reply, empty.reply = reply, chain.Funds; reply == "" {
				other.pooled = 1
			}
			must.Get(w.round())(t)
			if got := w.record().Paused; got != paused {
				t.Errorf("beside %s, last: %t: paused for %q", reply, last, got)
			}
		}
	}
}

// TestBytesThatNoPoolHas: if no pool counts bytes for as long as an attempt waits, "already known"
// is not believed, and they are bid over.
func TestBytesThatNoPoolHas(t *testing.T) {
	for pooled, bumps := range map[uint64]int{0: 1, 1: 0} {
		w := newWorld(t, nil)
		w.commit("a", 4*minute)
		w.reply, w.pooled = chain.Known, pooled
		if got := must.Get(w.round())(t); got.Bumps != bumps {
			t.Errorf("%d in the pool: %d bumps", pooled, got.Bumps)
		}
	}
}

// TestOneNodeHidesARefusal: if two nodes of three, or both of two, refuse the bytes, another attempt is made.
func TestOneNodeHidesARefusal(t *testing.T) {
	for _, refusal := range []chain.Class{chain.GasTooLow, chain.FeeTooLow, chain.Replacement, chain.Full} {
		for _, c := range []struct {
			says            chain.Class // one node
			nodes, attempts int
		}{{refusal, 3, 2}, {chain.Ambiguous, 3, 2}, {chain.Accepted, 3, 2}, {chain.Accepted, 2, 1}} {
			w := newWorld(t, nil)
			w.reply, w.gas = refusal, 50
			p := w.commit("a", time.Hour)
			w.three(bad{send: func([]byte) chain.Reply { return chain.Reply{Class: c.says} }})
			w.settler.Nodes = w.settler.Nodes.(chain.Nodes)[:c.nodes]
			_, _ = w.round()
			if got := len(w.stored(p).Attempts); got != c.attempts {
				t.Errorf("one of %d nodes says %s, the others %s: %d attempts", c.nodes, c.says, refusal, got)
			}
		}
	}
}

// TestOneNodeMinesTheWrongAttempt: its receipt is under another attempt's hash; enough nodes have the true one.
func TestOneNodeMinesTheWrongAttempt(t *testing.T) {
	w := newWorld(t, nil)
	p := w.commit("a", 4*minute)
	w.price = 21
	must.Get(w.round())(t)
	hashes := w.stored(p).Hashes()
	w.paid(p, hashes[1])
	w.three(bad{receipt: func(r *chain.Receipt) { r.Tx = hashes[0] }})
	for range 3 {
		_, _ = w.run(50 * second)
	}
	if got := w.stored(p).State; got != payment.Confirmed {
		t.Errorf("it is %s", got)
	}
}

// TestOneNodeHangsAtSends: it costs a round a second.
func TestOneNodeHangsAtSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		for _, key := range []string{"a", "b", "c"} {
			w.commit(key, time.Hour)
		}
		w.three(bad{hangs: true, takes: 1, account: func(a *chain.Account) { a.Pending = a.Mined }})
		w.settler.Now = time.Now
		w.pooled, w.peer.pooled = 3, 3
		began := time.Now()
		_, _ = w.round()
		if took := time.Since(began); took > 2*second {
			t.Errorf("a round takes %s", took)
		}
	})
}

// TestOneNodeStandsStill: a node of three that answers from an old block stops no refill, and none starts one.
func TestOneNodeStandsStill(t *testing.T) {
	old := func(h *chain.Head) { h.Number = 1 }
	for name, test := range map[string]struct {
		low  uint64 // coins
		bad  bad
		want int
	}{
		"it calls the wallet full": {1_000_001, bad{head: old,
			account: func(a *chain.Account) { a.Balance = token.Units(9_000_000) }}, 1},
		"it calls it low too":                {1_000_001, bad{head: old}, 1},
		"it alone calls it low":              {1_000, bad{account: func(a *chain.Account) { a.Balance = token.Units(1) }}, 0},
		"it counts more than the tables had": {1_000_001, bad{account: func(a *chain.Account) { a.Mined = 7 }}, 1},
	} {
		w := newWorld(t, nil)
		w.Must(w.Tables.SetState(t.Context(), id, wallet.Draining, wallet.Active, w.Now()))
		w.Set(func(s *settings.Settings) {
			s.Refills = settings.Refills{Token: settings.Refill{Low: token.Units(test.low), Amount: token.Units(5), Daily: token.Units(50)}}
		})
		w.three(test.bad)
		var asked refiller
		w.settler.Refiller = &asked
		must.Get(w.settler.Refill(t.Context()))(t)
		if len(asked) != test.want || test.want > 0 && asked[0] != "token since 9" {
			t.Errorf("%s: %v", name, asked)
		}
	}
}

// TestOneNodeContradicts: what a node of three says about a receipt delays a payment, or a no-op, by a round, if the
// two others moved the amount. It holds up a failure, and a no-op of a recovery, for as long as it contradicts.
func TestOneNodeContradicts(t *testing.T) {
	noLogs := func(w *world, p payment.Payment) { w.mine(chain.Receipt{Tx: p.TxHash, Succeeded: true}) }
	for name, b := range map[string]bad{
		"no logs":                {receipt: func(r *chain.Receipt) { r.Logs = nil }},
		"another status":         {receipt: func(r *chain.Receipt) { r.Succeeded = !r.Succeeded }},
		"blocks and no receipts": {nothing: true},
		"another block":          {receipt: func(r *chain.Receipt) { r.BlockHash = chain.Hash{6} }},
	} {
		for kind, make := range map[string]func(*world, payment.Payment){"paid": func(w *world, p payment.Payment) { w.paid(p, p.TxHash) },
			"failed": noLogs, "no-op": nil, "a recovery's no-op": nil} {
			w := newWorld(t, nil)
			if make == nil {
				w.mine(chain.Receipt{Tx: w.noop(0, 0).Hash(), Succeeded: true})
				below := map[string]uint64{"a recovery's no-op": 1}[kind] // a lost payment may have had the nonce
				w.Must(w.Tables.Advance(t.Context(), id, 1, below))
			} else {
				make(w, w.commit("a", 0))
			}
			log := w.three(b)
			if got := must.Get(w.round())(t); got.Undecided != 1 && name != "no logs" || got.Confirmed > 0 {
				t.Errorf("%s, %s: a round alone: %+v", kind, name, got)
			}
			report := must.Get(w.run(50 * second))(t)
			waits := name != "no logs" && (kind == "failed" || kind == "a recovery's no-op") // their receipts have none
			if ended := len(w.pending()) == 0; ended == waits || (report.Confirmed == 1) != (kind == "paid") ||
				len(w.waits) > 1 && ended {
				t.Errorf("%s, %s: ended %t after %v, %+v", kind, name, ended, w.waits, report)
			}
			if kind == "paid" && !strings.Contains(log.String(), `it contradicts a receipt" node=bad`) {
				t.Errorf("%s: the log does not name the node: %s", name, log)
			}
		}
	}
}

// TestOneNodeTakesABlockBack: a node of three whose final block goes back and forth is left out of
// the count, and named. If too few remain, the payment waits, and is counted.
func TestOneNodeTakesABlockBack(t *testing.T) {
	for _, nodes := range []int{3, 2, 1} {
		w := newWorld(t, nil)
		p := w.commit("a", 0)
		w.paid(p, p.TxHash)
		asks := 0
		log := w.three(bad{head: func(h *chain.Head) {
			if asks++; asks%2 == 1 {
				h.Final++
			}
		}})
		all := w.settler.Nodes.(chain.Nodes)
		w.settler.Nodes = map[int]chain.Nodes{3: all, 2: all[:2], 1: all[1:2]}[nodes]
		report := must.Get(w.round())(t)
		if confirmed := report.Confirmed == 1; confirmed != (nodes == 3) || (report.Undecided == 1) == confirmed ||
			!strings.Contains(log.String(), `it takes back a final block" node=bad`) {
			t.Errorf("%d nodes: %+v, %s", nodes, report, log)
		}
	}
}

// TestNodesChangeChains: nodes that call less final than when the round began have counted at a block of another chain.
// A nonce that they call final gets no owner then, so next_nonce does not pass it.
func TestNodesChangeChains(t *testing.T) {
	for _, recedes := range []bool{false, true} {
		w := newWorld(t, nil)
		w.mined, w.settled = 2, 2
		asks := 0
		w.settler.Nodes = chain.Nodes{bad{Node: w, name: "a", head: func(h *chain.Head) {
			if asks++; recedes && asks == 1 {
				h.Final++
			}
		}}}
		if _, err := w.round(); (err != nil) != recedes || w.record().NextNonce != map[bool]uint64{false: 2, true: 0}[recedes] {
			t.Errorf("recedes: %t: next nonce %d, %v", recedes, w.record().NextNonce, err)
		}
	}
}

// TestOneSlowNode: a node of three that takes as long as it may for each answer delays a payment by
// seconds, and is named. A failure waits for it. It is not silent.
func TestOneSlowNode(t *testing.T) {
	for _, test := range []struct {
		takes  time.Duration
		fails  bool
		within time.Duration
	}{{100 * time.Millisecond, false, second}, {7 * second, false, 8 * second}, {9 * second, false, 8 * second},
		{9 * second, true, 2 * minute}, {11 * second, false, 8 * second}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil)
			p := w.commit("a", 0)
			if test.fails {
				w.mine(chain.Receipt{Tx: p.TxHash, Succeeded: true})
			} else {
				w.paid(p, p.TxHash)
			}
			log := w.three(bad{takes: test.takes})
			w.settler.Now, w.settler.Wait = time.Now, settlement.Sleep
			began := time.Now()
			for minutes := 0; len(w.pending()) > 0 && minutes < 5; minutes++ {
				_, _ = w.run(55 * second) // it may end with its time
			}
			took := time.Since(began)
			if state := w.stored(p).State; !state.Final() || took > test.within {
				t.Errorf("slow by %s, fails %t: %s after %s", test.takes, test.fails, state, took)
			}
			for range 4 {
				_, _ = w.run(55 * second)
				time.Sleep(20 * second)
			}
			if silent := len(must.Get(w.Tables.Compared(t.Context(), porttest.Rail.Coin()))(t).Silent) > 0; silent {
				t.Errorf("slow by %s: silent: %t", test.takes, silent)
			}
			if named := strings.Contains(log.String(), `it answers late" node=bad`); named != (test.takes > second) {
				t.Errorf("slow by %s: named: %t", test.takes, named)
			}
		})
	}
}

// TestOneNodeContradictsBesideASlowOne: one node of three contradicts the receipt, or has another final block, and an
// honest one is rate limited. The payment is confirmed by the slow node's word, which two rounds wait for.
func TestOneNodeContradictsBesideASlowOne(t *testing.T) {
	for name, liar := range map[string]func(chain.Node) chain.Node{
		"no receipt":          func(n chain.Node) chain.Node { return bad{Node: n, name: "bad", nothing: true} },
		"another final block": func(n chain.Node) chain.Node { return forked{bad{Node: n, name: "bad"}} },
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, nil)
			p := w.commit("a", 0)
			w.paid(p, p.TxHash)
			w.second()
			slow := interpose.Node{Node: w.peer, Around: bad{takes: 1500 * time.Millisecond}.around}
			w.settler.Nodes = chain.Nodes{bad{Node: w, name: "a"}, liar(w.peer), bad{Node: slow, name: "c"}}.Watch(time.Now, time.After)
			w.settler.Now, w.settler.Wait = time.Now, settlement.Sleep
			began := time.Now()
			for range 3 {
				_, _ = w.run(55 * second)
			}
			if state := w.stored(p).State; state != payment.Confirmed {
				t.Errorf("%s: %s after %s", name, state, time.Since(began))
			}
		})
	}
}

// forked has other blocks.
type forked struct{ bad }

func (f forked) BlockHashes(ctx context.Context, numbers []uint64) ([]chain.Hash, error) {
	hashes, err := f.bad.BlockHashes(ctx, numbers)
	for i := range hashes {
		hashes[i] = chain.Hash{6, 31: byte(i)}
	}
	return hashes, err
}
