package recovery_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"remit/internal/chain"
	"remit/internal/interpose"
	"remit/internal/memory"
	"remit/internal/payment"
	"remit/internal/recovery"
	"remit/internal/settings"
	"remit/internal/settlement"
	"remit/internal/simulation/fakechain"
	"remit/internal/stack"
	"remit/internal/token"
	"remit/internal/wallet"
	"remit/internal/webhook"
)

var coin = token.Token{Symbol: "USDC", Contract: token.Address{0xc0}}

// A loss is a stack whose tables are empty and whose wallet has paid: nonce 0 with a
// payment's id, nonce 1 without, nonce 2 to a recipient that the token refuses. A block
// is made whenever the recovery waits.
type loss struct {
	*recovery.Recovery
	t       *testing.T
	tables  *memory.Payments
	settler *settlement.Settler
	chain   *fakechain.Chain
	keys    *fakechain.Keys
	paid    payment.Payment // by nonce 0
	bare    chain.Hash      // of nonce 1
	said    []string
	now     time.Time
}

// quiet publishes events to nobody.
type quiet struct{}

func (quiet) Publish(_ context.Context, e webhook.Event) error {
	if e.Merchant == "" {
		return errors.New("an event of a payment without a merchant")
	}
	return nil
}

func newLoss(t *testing.T) *loss {
	c := fakechain.New(1, coin.Contract, 1, 2)
	l := &loss{t: t, chain: c, tables: memory.NewPayments(), keys: &fakechain.Keys{},
		now: time.Date(2100, time.January, 1, 0, 0, 0, 0, time.UTC)}
	from := fakechain.Wallet(0)
	l.keys.Add(from)
	c.Fund(from, token.Units(1_000), token.Units(1<<40))
	c.Recipients[fakechain.Payee(2)] = fakechain.Reverts
	id := payment.KeyID("mer_1", "test", "k")
	offer := payment.New(id, payment.Request{To: fakechain.Payee(0), Amount: token.Units(7)}, coin, "net", l.now)
	l.paid, _ = payment.Recovered(chain.MinedTx{From: from, To: coin.Contract, Data: string(offer.CallData(true)), At: time.Unix(4, 0)}, 1,
		coin, "net")
	for nonce, data := range [][]byte{
		l.paid.CallData(true), chain.TransferData(fakechain.Payee(1), token.Units(8)), chain.TransferData(fakechain.Payee(2), token.Units(9)),
	} {
		signed := l.sign(uint64(nonce), data)
		c.MineExactly(signed.Raw)
		l.bare = map[bool]chain.Hash{true: signed.Hash, false: l.bare}[nonce == 1]
	}
	l.paid.TxHash = l.sign(0, l.paid.CallData(true)).Hash
	var mu sync.Mutex // the fake chain takes one request at a time
	inTurn := func(ctx context.Context, _ interpose.Call, apply func(context.Context)) error {
		mu.Lock()
		defer mu.Unlock()
		apply(ctx)
		return nil
	}
	if err := l.tables.SetSettings(t.Context(), settings.Default()); err != nil {
		t.Fatal(err)
	}
	config := stack.Config{ChainID: 1, Token: coin, Network: "net", Own: stack.Own{Window: 4}, BlockTime: time.Minute,
		ConfirmationRule: chain.ConfirmationRule{Depth: 1}}
	nodes := chain.Nodes{interpose.Node{Node: c.Nodes[0], Around: inTurn}, interpose.Node{Node: c.Nodes[1], Around: inTurn}}
	now := func() time.Time { return l.now }
	l.settler = settlement.New(config, settlement.Parts{Store: l.tables, Keys: l.keys, Nodes: nodes, Events: quiet{},
		Log: slog.New(slog.DiscardHandler), Now: now})
	l.Recovery = &recovery.Recovery{
		Config: config, Store: l.tables, Keys: l.keys, Nodes: nodes, Now: now,
		Settle: func(ctx context.Context) error {
			_, err := l.settler.Round(ctx, "recover", true)
			return err
		},
		Wait: func(_ context.Context, d time.Duration) {
			l.now = l.now.Add(d)
			c.Mine(c.Nodes[0])
		},
		Keyed: l.keys.All(), Window: 8,
		Say: func(format string, args ...any) { l.said = append(l.said, fmt.Sprintf(format, args...)) },
	}
	return l
}

// sign signs a call of the token by the wallet.
func (l *loss) sign(nonce uint64, data []byte) chain.Signed {
	return fakechain.Tx{From: fakechain.Wallet(0), Nonce: nonce, Tx: chain.Tx{
		ChainID: 1, To: coin.Contract, Data: data, Gas: 100_000, Fees: chain.Fees{Tip: token.Units(10), Cap: token.Units(1_000)},
	}}.Sign()
}

// run holds and runs, in an hour at most by the recovery's clock.
func (l *loss) run() (recovery.Report, []wallet.ID, error) {
	l.t.Helper()
	ids, err := l.Hold(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	done, err := l.Run(l.t.Context(), ids)
	return done, ids, err
}

func (l *loss) stored() payment.Payment {
	p, _ := l.tables.Payment(context.Background(), l.paid.ID)
	return p
}

func (l *loss) wallet(n int) wallet.Wallet {
	w, _ := l.tables.Wallet(context.Background(), wallet.ID{ChainID: 1, Address: fakechain.Wallet(n)})
	return w
}

// TestRecover: a dry run says what a run then does. The payment is confirmed with the
// values of the chain; the transfer that reverted leaves none; the one without an id is
// listed. Nonce 2 is not final yet, so it gets a no-op too.
func TestRecover(t *testing.T) {
	l := newLoss(t)
	want := recovery.Report{Noops: 9, Stored: 1, Sum: token.Units(7), Foreign: []chain.Hash{l.bare}}
	l.DryRun = true
	done, _, err := l.run()
	if diff := cmp.Diff(want, done, exact); err != nil || diff != "" || l.wallet(0).Paused != "" || l.stored().ID != "" {
		t.Errorf("dry run: %v, wallet %+v (-want +got):\n%s", err, l.wallet(0), diff)
	}
	l.DryRun = false
	done, ids, err := l.run()
	if diff := cmp.Diff(want, done, exact); err != nil || diff != "" || !l.wallet(0).Suspect() || l.wallet(0).NextNonce != 11 ||
		l.wallet(0).NoopsBelow != 11+8 {
		t.Errorf("%v, wallet %+v (-want +got):\n%s", err, l.wallet(0), diff)
	}
	p := l.stored()
	if receipt, _ := l.chain.Receipt(p.Onchain); p.Fee == nil || *p.Fee != *receipt.Fee {
		t.Errorf("network fee %v of %s", p.Fee, receipt)
	}
	if p.State != payment.Confirmed || p.TxHash != l.paid.TxHash || p.Onchain != p.TxHash || p.Amount != l.paid.Amount ||
		p.To != l.paid.To || p.Block == 0 || p.Merchant != "" || !p.CreatedAt.Equal(time.Unix(int64(p.Block), 0)) {
		t.Errorf("%+v", p)
	}
	if err := l.Resume(t.Context(), ids); err != nil || l.wallet(0).Paused != "" || l.wallet(0).Balance != token.Units(1_000-7-8) {
		t.Errorf("%v, %+v", err, l.wallet(0))
	}
	again, _, err := l.run()
	if err != nil || again.Stored != 0 || again.Known != 1 || l.stored().Version != p.Version {
		t.Errorf("again: %+v, %v", again, err)
	}
}

// exact compares amounts.
var exact = cmp.Comparer(func(a, b token.Amount) bool { return a == b })

// TestRecoverKeepsPauses: a wallet that was paused before stays so, for its reason.
func TestRecoverKeepsPauses(t *testing.T) {
	l := newLoss(t)
	id := wallet.ID{ChainID: 1, Address: fakechain.Wallet(0)}
	for _, err := range []error{
		l.tables.Open(t.Context(), wallet.Wallet{ID: id, NextNonce: 3, Ceiling: 7, Reservations: map[payment.ID]wallet.Reservation{}}),
		l.tables.Pause(t.Context(), id, "audit"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	_, ids, err := l.run()
	if err != nil || !l.wallet(0).Suspect() {
		t.Errorf("%v, %+v", err, l.wallet(0))
	}
	if err := l.Resume(t.Context(), ids); err != nil || l.wallet(0).Paused != "audit" {
		t.Errorf("%v, paused %q", err, l.wallet(0).Paused)
	}
}

// TestRecoverARetiredWallet: a wallet without a key has nothing under way, or nothing
// is recovered. Its payments are found when it is named.
func TestRecoverARetiredWallet(t *testing.T) {
	l := newLoss(t)
	l.Wallets = []token.Address{fakechain.Wallet(0)}
	other := &fakechain.Keys{}
	other.Add(fakechain.Wallet(1))
	l.chain.Fund(fakechain.Wallet(1), token.Amount{}, token.Units(1<<40))
	l.Keys, l.Keyed = other, other.All()
	if done, _, err := l.run(); err != nil || done.Stored != 1 || done.Noops != 8 || l.stored().State != payment.Confirmed {
		t.Errorf("%+v, %v", done, err)
	}
	l = newLoss(t)
	l.Keys, l.Keyed = &fakechain.Keys{}, nil
	id := wallet.ID{ChainID: 1, Address: fakechain.Wallet(0)}
	if err := l.tables.Open(t.Context(), wallet.Wallet{ID: id, NextNonce: 4, Ceiling: 7,
		Reservations: map[payment.ID]wallet.Reservation{}}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.run(); !errors.Is(err, wallet.ErrNoKey) || !strings.Contains(fmt.Sprint(err), "remit wallet import") {
		t.Errorf("a nonce under way without its key: %v", err)
	}
}

// TestRecoverAnEmptyWallet: a wallet without ether is named, with what it needs, and
// when it has that, nothing more is missing.
func TestRecoverAnEmptyWallet(t *testing.T) {
	l := newLoss(t)
	l.keys.Add(fakechain.Wallet(1))
	l.Keyed = l.keys.All()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := 0
	l.Say = func(format string, args ...any) {
		said := fmt.Sprintf(format, args...)
		if l.said = append(l.said, said); len(l.said) > 100 {
			cancel()
		}
		var wei string
		if n, _ := fmt.Sscanf(said, "waiting for ether: send %s ether to "+fakechain.Wallet(1).String()+",", &wei); n == 1 {
			asked++
			amount, err := token.ParseTokens(wei, 18)
			if err != nil {
				t.Fatal(err)
			}
			l.chain.Fund(fakechain.Wallet(1), token.Amount{}, amount)
		}
	}
	ids, err := l.Hold(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if done, err := l.Run(ctx, ids); err != nil || done.Noops != 9+8 || asked != 1 {
		t.Errorf("%+v, %v, asked %d times: %q", done, err, asked, l.said)
	}
}

// TestRecoverAgainstTheTables: a payment that the tables know otherwise than the chain
// is reported, and stays. One that is prepared for another recipient was discarded since.
func TestRecoverAgainstTheTables(t *testing.T) {
	l := newLoss(t)
	other := l.paid.AssignedTo(fakechain.Wallet(0), chain.Tx{ChainID: 1, To: coin.Contract, Data: l.paid.CallData(true)})
	_, _, err := l.tables.Create(t.Context(), other)
	committed, err2 := other.Commit(chain.Signed{Nonce: 0, Hash: chain.Hash{1}, Raw: []byte{1}}, l.now)
	failed, err3 := committed.Fail(payment.NonceConsumed, chain.Receipt{}, l.now)
	err = errors.Join(err, err2, err3, l.tables.Commit(t.Context(), committed), l.tables.Finish(t.Context(), failed),
		l.tables.DeletePendingTx(t.Context(), wallet.ID{ChainID: 1, Address: fakechain.Wallet(0)}, 0))
	if err != nil {
		t.Fatal(err)
	}
	if done, _, err := l.run(); err != nil || !slices.Equal(done.Differ, []payment.ID{l.paid.ID}) || l.stored().State != payment.Failed {
		t.Errorf("%+v, %v", done, err)
	}
	l = newLoss(t)
	discarded := payment.New(l.paid.ID, payment.Request{Merchant: "mer_1", Mode: "test", IdempotencyKey: "k", To: fakechain.Payee(9),
		Amount: token.Units(7)}, coin, "net", l.now)
	if _, _, err := l.tables.Create(t.Context(), discarded.AssignedTo(fakechain.Wallet(0), other.Tx)); err != nil {
		t.Fatal(err)
	}
	if done, _, err := l.run(); err != nil || done.Stored != 1 || l.stored().To != l.paid.To {
		t.Errorf("%+v, %v, stored is %+v", done, err, l.stored())
	}
}

// TestRecoverFromNodesFarApart: a node that is far ahead of another, or far behind,
// decides nothing.
func TestRecoverFromNodesFarApart(t *testing.T) {
	l := newLoss(t)
	l.Window = 2
	l.chain.Nodes[1].Lag = 100
	l.chain.Nodes[1].Follow()
	if _, _, err := l.run(); err == nil || !strings.Contains(err.Error(), "node1 has 0 of its transactions and node0 3") {
		t.Error(err)
	}
}

// TestRecoverOnTheChainThatWasAccepted: nonce 3 was used on a chain that is gone, and a payment
// with nonce 4 waits for it for ever. A recovery uses the nonce up; the payment is made, and
// the wallet resumed.
func TestRecoverOnTheChainThatWasAccepted(t *testing.T) {
	l := newLoss(t)
	id := wallet.ID{ChainID: 1, Address: fakechain.Wallet(0)}
	p := payment.New(payment.KeyID("mer_1", "test", "gap"),
		payment.Request{Merchant: "mer_1", Mode: "test", To: fakechain.Payee(3), Amount: token.Units(5)}, coin, "net", l.now)
	signed := l.sign(4, p.CallData(true))
	prepared := p.AssignedTo(id.Address, chain.Tx{ChainID: 1, To: coin.Contract, Data: p.CallData(true), Gas: 100_000})
	_, _, err := l.tables.Create(t.Context(), prepared)
	committed, err2 := prepared.Commit(signed, l.now)
	if err = errors.Join(err, err2, l.tables.Commit(t.Context(), committed), l.tables.Open(t.Context(), wallet.Wallet{
		ID: id, NextNonce: 5, Ceiling: 9, Paused: wallet.RolledBack, Reservations: map[payment.ID]wallet.Reservation{},
	}), l.tables.Register(t.Context(), wallet.Registration{ID: id, State: wallet.Active, Key: wallet.InSecret})); err != nil {
		t.Fatal(err)
	}
	rounds := func(want payment.State, paused string) {
		t.Helper()
		for range 5 {
			if _, err := l.settler.Round(t.Context(), "run", true); err != nil {
				t.Error(err)
			}
			l.Wait(t.Context(), time.Minute)
		}
		if stored, err := l.tables.Payment(t.Context(), p.ID); err != nil || stored.State != want || l.wallet(0).Paused != paused {
			t.Errorf("%s, wallet paused for %q, want %s, %q: %v", stored.State, l.wallet(0).Paused, want, paused, err)
		}
	}
	rounds(payment.Committed, wallet.RolledBack)
	_, ids, err := l.run()
	if err = errors.Join(err, l.Resume(t.Context(), ids)); err != nil {
		t.Error(err)
	}
	rounds(payment.Confirmed, "")
}
