package inspect_test

import (
	"errors"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/evm/ethrpc/inspect"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
)

func TestReadsContractsOfARealNode(t *testing.T) {
	c := must.Get(devnet.Start(t.Context(), devnet.Config{Listen: "127.0.0.1:0", Wallets: 1, Now: time.Now}))(t)
	defer func() { must.OK(t, c.Close()) }()
	own, coin := c.Wallets()[0].Address, c.Token().Contract
	id, asset, err := inspect.Discover(t.Context(), c.URL(), coin)
	if err != nil || id != c.ID() || asset != c.Token() {
		t.Errorf("%d, %+v, %v, want %d, %+v", id, asset, err, c.ID(), c.Token())
	}
	if _, asset, err := inspect.Discover(t.Context(), c.URL(), own); !errors.Is(err, inspect.ErrToken) {
		t.Errorf("an account: %+v, %v, want ErrToken", asset, err)
	}
	node := must.Get(ethrpc.Open(c.URL(), ethrpc.Config{ChainID: id}))(t)
	if allowed, err := inspect.Allowance(t.Context(), node, coin, own, coin); err != nil || !allowed.IsZero() {
		t.Errorf("an allowance that nobody gave: %v, %v", allowed, err)
	}
	if allowed, err := inspect.Allowance(t.Context(), node, own, own, coin); !errors.Is(err, inspect.ErrToken) {
		t.Errorf("an allowance of no token: %v, %v", allowed, err)
	}
}
