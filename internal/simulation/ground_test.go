//go:build !noevm

package simulation_test

import (
	"context"
	"testing"
	"time"

	"remit/internal/chain"
	"remit/internal/devnet"
	"remit/internal/ethrpc"
	"remit/internal/keyring"
	st "remit/internal/simulation"
	"remit/internal/token"
	"remit/internal/wallet"
)

// A ground is a chain that a scenario can be played on: the fake one, or a real
// EVM.
type ground struct {
	id          uint64
	coin        token.Token
	node        chain.Node
	keys        wallet.Keys
	mine        func()
	mineExactly func(raw ...[]byte)
	reorg       func(depth int) // what was mined is pending again
	forget      func()
	feesUp      func() // eightfold
	feesDown    func()
	blacklist   func(token.Address)
	returnFalse func(token.Address)
}

func fakeGround(*testing.T) ground {
	c := st.NewChain(7, token.Address{0xc0}, 2, 1)
	keys := &st.Keys{}
	keys.Add(st.Wallet(0))
	c.Fund(st.Wallet(0), unit(1e12), unit(1e18))
	return ground{
		id: 7, coin: token.Token{Symbol: "USDC", Decimals: 6, Contract: c.Token}, node: c.Nodes[0], keys: keys,
		mine:        func() { c.Mine(c.Nodes[0]) },
		mineExactly: c.MineExactly,
		reorg:       func(depth int) { c.Abandon(uint64(depth)) },
		forget:      c.Nodes[0].Forget,
		feesUp:      func() { c.BaseFee = spike },
		feesDown:    func() { c.BaseFee = quiet },
		blacklist:   func(a token.Address) { c.Recipients[a] = st.Reverts },
		returnFalse: func(a token.Address) { c.Recipients[a] = st.ReturnsFalse },
	}
}

func realGround(t *testing.T) ground {
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
	return ground{
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
