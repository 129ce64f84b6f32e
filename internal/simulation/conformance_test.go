//go:build !noevm

package simulation_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"remit/internal/chain"
	"remit/internal/dispatch"
	"remit/internal/memory"
	"remit/internal/payment"
	"remit/internal/settlement"
	"remit/internal/stack"
	"remit/internal/wallet"
)

// A play is a stack on a ground, without faults of its own.
type play struct {
	ground
	t       *testing.T
	store   *memory.Payments
	pay     *dispatch.Dispatcher
	settler *settlement.Settler
	now     time.Time
}

func newPlay(t *testing.T, g ground) *play {
	p := &play{ground: g, t: t, store: memory.NewPayments(), now: time.Date(2026, time.May, 1, 0, 0, 0, 0, time.UTC)}
	now := func() time.Time { return p.now }
	log := slog.New(slog.DiscardHandler)
	final := chain.ConfirmationRule{Depth: 2}
	p.pay = dispatch.New(stack.Config{
		ChainID: g.id, Token: g.coin, Network: "n", Window: 64, BlockTime: time.Nanosecond, ConfirmationRule: final,
	}, dispatch.Parts{
		Store: p.store, Keys: g.keys, Nodes: chain.Nodes{g.node}, Hints: mute{},
		Log: log, Now: now, Draw: func(int) int { return 0 },
	})
	p.settler = settlement.New(stack.Config{
		ChainID: g.id, Token: g.coin, Window: 64, ConfirmationRule: final, BlockTime: 12 * time.Second, ReservationAge: time.Minute, BumpAfter: time.Hour,
	}, settlement.Parts{
		Store: p.store, Keys: g.keys, Nodes: chain.Nodes{g.node}, Events: mute{}, Log: log, Now: now,
	})
	return p
}

// send pays the n-th order and returns it as stored.
func (p *play) send(n int) payment.Payment {
	p.t.Helper()
	r := order(n)
	result, err := p.pay.Send(p.t.Context(), payment.Request{Merchant: "m", Mode: "test", Key: r.Key, To: r.To, Amount: unit(r.Amount)})
	if err != nil {
		p.t.Fatal(err)
	}
	return result.Payment
}

// late passes more than a bump waits for.
func (p *play) late() { p.now = p.now.Add(time.Hour) }

// round passes a minute, and runs once.
func (p *play) round() {
	p.t.Helper()
	p.now = p.now.Add(61 * time.Second)
	if _, err := p.settler.Round(p.t.Context(), "run", true); err != nil {
		p.t.Fatal(err)
	}
}

// final makes enough blocks, and runs.
func (p *play) final() {
	p.t.Helper()
	for range 3 {
		p.mine()
	}
	p.round()
}

func (p *play) stored(n int) payment.Payment {
	p.t.Helper()
	stored, err := p.store.Payment(context.Background(), payment.KeyID("m", "test", order(n).Key))
	if err != nil {
		p.t.Fatal(err)
	}
	return stored
}

// An ending is all that the two grounds must agree on.
type ending struct {
	state    payment.State
	code     payment.FailureCode
	original bool // the first attempt was mined
	bumped   bool
	next     uint64
	paused   bool
}

func (p *play) ending() ending {
	p.t.Helper()
	stored := p.stored(0)
	w, err := p.store.Wallet(context.Background(), wallet.ID{ChainID: p.id, Address: stored.Wallet})
	if err != nil {
		p.t.Fatal(err)
	}
	return ending{stored.State, codeOf(stored), stored.Onchain == stored.TxHash, len(stored.Attempts) > 1, w.NextNonce, w.Paused != ""}
}

// TestConformance plays what can be played on both grounds, and wants the same
// ending: the fake chain is worth what it has in common with a real one.
func TestConformance(t *testing.T) {
	confirmed := ending{state: payment.Confirmed, original: true, next: 1}
	for name, scene := range map[string]struct {
		play func(*play)
		want ending
	}{
		"a payment is final after two more blocks": {func(p *play) {
			p.send(0)
			p.mine()
			p.mine()
			p.round()
			is(p.t, "one block too early", p.stored(0).State, payment.Committed)
			p.mine()
			p.round()
		}, confirmed},
		"the pool is forgotten": {func(p *play) {
			p.send(0)
			p.forget()
			p.round()
			p.final()
		}, confirmed},
		"a reorg before finality": {func(p *play) {
			p.send(0)
			p.mine()
			p.round()
			p.reorg(1)
			p.round()
			is(p.t, "after the reorg", p.stored(0).State, payment.Committed)
			p.final()
		}, confirmed},
		"a reorg, and forgotten": {func(p *play) {
			p.send(0)
			p.mine()
			p.reorg(1)
			p.forget()
			p.round()
			p.final()
		}, confirmed},
		"re-mined as reverted": {func(p *play) {
			p.send(0)
			p.mine()
			p.reorg(1)
			p.forget()
			p.blacklist(order(0).To)
			p.round()
			p.final()
		}, ending{state: payment.Failed, code: payment.ExecutionReverted, original: true, next: 1}},
		"the token returns false": {func(p *play) {
			p.returnFalse(order(0).To)
			p.send(0)
			p.final()
		}, ending{state: payment.Failed, code: payment.TransferMissing, original: true, next: 1}},
		"the price rises eightfold and stays": {func(p *play) {
			p.send(0)
			p.feesUp()
			p.late()
			p.round() // bumps to what the market asks
			p.final()
		}, ending{state: payment.Confirmed, bumped: true, next: 1}},
		"the bump is sent and the original mined": {func(p *play) {
			sent := p.send(0)
			p.feesUp()
			p.late()
			p.round()
			p.feesDown()
			p.mineExactly(sent.Attempts[0].Raw)
			p.final()
		}, ending{state: payment.Confirmed, original: true, bumped: true, next: 1}},
		"somebody else uses the nonce": {func(p *play) {
			sent := p.send(0)
			signer, err := p.keys.Signer(p.t.Context(), sent.Wallet)
			if err != nil {
				p.t.Fatal(err)
			}
			tx := sent.Tx
			tx.Data = chain.TransferData(order(1).To, unit(5))
			foreign, err := signer.Sign(tx, sent.Nonce)
			if err != nil {
				p.t.Fatal(err)
			}
			p.forget()
			p.mineExactly(foreign.Raw)
			p.final()
		}, ending{state: payment.Failed, code: payment.NonceConsumed, next: 1, paused: true}},
		"three in a row, and the pool is forgotten": {func(p *play) {
			for n := range 3 {
				p.send(n)
			}
			p.forget()
			p.round()
			p.final()
			is(p.t, "the last", p.stored(2).State, payment.Confirmed)
		}, ending{state: payment.Confirmed, original: true, next: 3}},
	} {
		for kind, ground := range map[string]func(*testing.T) ground{"fake": fakeGround, "real": realGround} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				p := newPlay(t, ground(t))
				scene.play(p)
				if got := p.ending(); got != scene.want {
					t.Errorf("ends as %+v, want %+v", got, scene.want)
				}
			})
		}
	}
}
