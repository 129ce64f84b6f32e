package simulation_test

import (
	"context"
	"testing"
	"time"

	"remit/internal/chain"
	"remit/internal/devnet"
	"remit/internal/ethrpc"
	"remit/internal/keyring"
	"remit/internal/simulation/fakechain"
	"remit/internal/token"
	"remit/internal/wallet"
)

// A network is a chain that a deployment can run on: the fake one, or a real EVM.
type network struct {
	id          uint64
	coin        token.Token
	node        chain.Node
	keys        wallet.Keys
	mine        func()
	mineExactly func(raw ...[]byte)
	reorg       func(depth int) // the transactions of the old blocks are pending again
	forget      func()
	feesUp      func() // eightfold
	feesDown    func()
	blacklist   func(token.Address)
	returnFalse func(token.Address)
}

// fakeChain returns a network of so many rich wallets on a fake chain.
func fakeChain(depth uint64, wallets int) (network, *fakechain.Chain) {
	c := fakechain.New(7, token.Address{0xc0}, depth, 1)
	keys := &fakechain.Keys{}
	for i := range wallets {
		keys.Add(fakechain.Wallet(i))
		c.Fund(fakechain.Wallet(i), unit(1e15), unit(1e18))
	}
	return network{
		id: 7, coin: token.Token{Symbol: "USDC", Decimals: 6, Contract: c.Token}, node: c.Nodes[0], keys: keys,
		mine:        func() { c.Mine(c.Nodes[0]) },
		mineExactly: c.MineExactly,
		reorg:       func(depth int) { c.Abandon(uint64(depth)) },
		forget:      c.Nodes[0].Forget,
		feesUp:      func() { c.BaseFee = spike },
		feesDown:    func() { c.BaseFee = quiet },
		blacklist:   func(a token.Address) { c.Recipients[a] = fakechain.Reverts },
		returnFalse: func(a token.Address) { c.Recipients[a] = fakechain.ReturnsFalse },
	}, c
}

func fakeNetwork(*testing.T) network {
	on, _ := fakeChain(2, 1)
	return on
}

func realNetwork(t *testing.T) network {
	t.Helper()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	c, err := devnet.Start(t.Context(), devnet.Config{Listen: "127.0.0.1:0", Wallets: 2, Now: time.Now})
	ok(err)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	node, err := ethrpc.Open(c.URL(), ethrpc.Config{ChainID: c.ID()})
	ok(err)
	key, err := keyring.ParseKey(c.Wallets()[0].PrivateKey())
	ok(err)
	secret := keyring.Encode([]keyring.Entry{{Key: key}})
	before, err := c.BaseFee()
	ok(err)
	return network{
		id: c.ID(), coin: c.Token(), node: node,
		keys:        keyring.New(func(context.Context) ([]byte, error) { return secret, nil }, nil),
		mine:        func() { ok(c.Mine()) },
		mineExactly: func(raw ...[]byte) { ok(c.MineExactly(raw...)) },
		reorg:       func(depth int) { ok(c.Reorg(depth)) },
		forget:      c.DropPending,
		feesUp: func() {
			now, err := c.BaseFee()
			ok(err)
			high, err := now.Times(8)
			ok(err)
			ok(c.RaiseBaseFee(high))
		},
		feesDown: func() {
			for now := token.MaxAmount(); before.Less(now); {
				ok(c.MineExactly())
				now, err = c.BaseFee()
				ok(err)
			}
		},
		blacklist:   func(a token.Address) { ok(c.Blacklist(a)) },
		returnFalse: func(a token.Address) { ok(c.Behave(a, devnet.ReturnFalse)) },
	}
}
