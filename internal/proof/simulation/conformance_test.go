//go:build !noevm

package simulation_test

import (
	"context"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/keyring"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
)

// run lets a minute elapse, and a round of check-receipts run.
func (d *deployment) run() {
	d.t.Helper()
	d.now = d.now.Add(61 * time.Second)
	d.round()
}

// final makes enough blocks to confirm, and runs.
func (d *deployment) final() {
	d.t.Helper()
	for range 3 {
		d.mine()
	}
	d.run()
}

// stored returns the stored payment of the n-th order.
func (d *deployment) stored(n int) payment.Payment {
	d.t.Helper()
	return must.Get(d.store.Payment(context.Background(), order(n).ID()))(d.t)
}

// An ending is all that the two networks must agree on.
type ending struct {
	state    payment.State
	code     payment.FailureCode
	original bool // the first attempt was mined
	bumped   bool
	next     uint64
	paused   bool
}

func (d *deployment) ending() ending {
	d.t.Helper()
	stored := d.stored(0)
	w := must.Get(d.store.Wallet(context.Background(), wallet.ID{ChainID: d.id, Address: stored.Wallet}))(d.t)
	return ending{stored.State, codeOf(stored), stored.Onchain == stored.TxHash, len(stored.Attempts) > 1, w.NextNonce, w.Paused != ""}
}

// TestConformance runs the same cases on the fake chain and on a real EVM, and wants the same ending, because a
// simulation on the fake chain shows nothing about behaviour that a real chain does not share.
func TestConformance(t *testing.T) {
	confirmed := ending{state: payment.Confirmed, original: true, next: 1}
	for name, c := range map[string]struct {
		run  func(*deployment)
		want ending
	}{
		"a payment is final after two more blocks": {func(d *deployment) {
			d.send(order(0))
			d.mine()
			d.mine()
			d.run()
			is(d.t, "one block too early", d.stored(0).State, payment.Committed)
			d.mine()
			d.run()
		}, confirmed},
		"the pool is forgotten": {func(d *deployment) {
			d.send(order(0))
			d.forget()
			d.run()
			d.final()
		}, confirmed},
		"a reorg before finality": {func(d *deployment) {
			d.send(order(0))
			d.mine()
			d.run()
			d.reorg(1)
			d.run()
			is(d.t, "after the reorg", d.stored(0).State, payment.Committed)
			d.final()
		}, confirmed},
		"re-mined as reverted": {func(d *deployment) {
			d.send(order(0))
			d.mine()
			d.reorg(1)
			d.forget()
			d.blacklist(order(0).To)
			d.run()
			d.final()
		}, ending{state: payment.Failed, code: payment.ExecutionReverted, original: true, next: 1}},
		"the token returns false": {func(d *deployment) {
			d.returnFalse(order(0).To)
			d.send(order(0))
			d.final()
		}, ending{state: payment.Failed, code: payment.TransferMissing, original: true, next: 1}},
		"the price rises eightfold and stays": {func(d *deployment) {
			d.send(order(0))
			d.feesUp()
			d.now = d.now.Add(time.Hour) // a bump waits no longer
			d.run()                      // bumps to the fees of the market
			d.final()
		}, ending{state: payment.Confirmed, bumped: true, next: 1}},
		"the bump is sent and the original mined": {func(d *deployment) {
			sent := d.send(order(0))
			d.feesUp()
			d.now = d.now.Add(time.Hour) // a bump waits no longer
			d.run()
			d.feesDown()
			d.mineExactly(sent.Attempts[0].Raw)
			d.final()
		}, ending{state: payment.Confirmed, original: true, bumped: true, next: 1}},
		"a thief uses the nonce": {func(d *deployment) {
			sent := d.send(order(0))
			signer, err := d.keys.Signer(d.t.Context(), wallet.Registration{ID: wallet.ID{Address: sent.Wallet}, Key: wallet.InSecret})
			must.OK(d.t, err)
			tx := sent.Tx
			tx.Data = chain.TransferData(order(1).To, unit(5))
			foreign := must.Get(signer.Sign(context.Background(), tx, sent.Nonce))(d.t)
			d.forget()
			d.mineExactly(foreign.Raw)
			d.final()
		}, ending{state: payment.Failed, code: payment.NonceConsumed, next: 1, paused: true}},
	} {
		for kind, network := range map[string]func(*testing.T) network{"fake": fakeNetwork, "real": realNetwork} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				d := newDeployment(t, network(t), 2)
				c.run(d)
				if got := d.ending(); got != c.want {
					t.Errorf("ends as %+v, want %+v", got, c.want)
				}
			})
		}
	}
}

func fakeNetwork(*testing.T) network {
	on, _ := fakeChain(2, 1)
	return on
}

func realNetwork(t *testing.T) network {
	t.Helper()
	burner := token.Address{0: 0x7e, 1: 0x57, 19: 0xff} // a call uses up all of its gas
	c := must.Get(devnet.Start(t.Context(), devnet.Config{Listen: "127.0.0.1:0", Wallets: 2, Now: time.Now,
		Contracts: map[token.Address][]byte{burner: {0xfe}}}))(t) // INVALID
	t.Cleanup(func() { must.OK(t, c.Close()) })
	node := must.Get(ethrpc.Open(c.URL(), ethrpc.Config{ChainID: c.ID()}))(t)
	key, rich := must.Get(keyring.ParseKey(c.Wallets()[0].PrivateKey()))(t), must.Get(keyring.ParseKey(c.Wallets()[1].PrivateKey()))(t)
	burn := chain.Tx{ChainID: c.ID(), To: burner, Gas: 1 << 24, Fees: chain.Fees{Tip: token.Units(1), Cap: token.Units(1e12)}}
	burnt := uint64(0)
	before := must.Get(c.BaseFee())(t)
	return network{
		id: c.ID(), coin: c.Token(), node: node,
		wallets: []token.Address{key.Address()},
		keys: keyring.New(func(token.Address) keyring.Read {
			return func(context.Context) (keyring.Key, error) { return key, nil }
		}),
		mine:        func() { must.OK(t, c.Mine()) },
		mineExactly: func(raw ...[]byte) { must.OK(t, c.MineExactly(raw...)) },
		reorg:       func(depth int) { must.OK(t, c.Reorg(depth)) },
		forget:      c.DropPending,
		feesUp: func() {
			for high := must.Get(must.Get(c.BaseFee())(t).Times(8))(t); must.Get(c.BaseFee())(t).Less(high); {
				var raw [][]byte // fills a block of 300 million gas nearly; EIP-1559 then allows 12.5 % more
				for range 17 {
					raw = append(raw, must.Get(rich.Sign(t.Context(), burn, burnt))(t).Raw)
					burnt++
				}
				must.OK(t, c.MineExactly(raw...))
			}
			time.Sleep(time.Second) // while calls share a fee
		},
		feesDown: func() {
			for now := token.MaxAmount(); before.Less(now); {
				must.OK(t, c.MineExactly())
				now = must.Get(c.BaseFee())(t)
			}
		},
		blacklist:   func(a token.Address) { must.OK(t, c.Own("blacklist", a)) },
		returnFalse: func(a token.Address) { must.OK(t, c.Own("setBehaviour", a, devnet.ReturnFalse)) },
	}
}
