package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/porttest"
)

// euro is a second rail, on another chain.
var euro = settings.Rail{ChainID: 2, Token: token.Token{Contract: token.Address{0xe0}, Symbol: "EURC", Decimals: 6}, Network: "other"}

// nodesOf are the nodes of a chain, or why there are none.
type nodesOf func() (chain.Nodes, error)

func (n nodesOf) Nodes(context.Context) (chain.Nodes, error) { return n() }

// railsOf returns the rails of a process, and the error that the nodes of euro answer with.
func railsOf(p *process, chains ...uint64) (*dispatch.Rails, *error) {
	down := new(error)
	s := settings.Default(euro)
	s.At = p.Now().Add(-90 * time.Minute)
	p.Must(p.Tables.SetSettings(p.T.Context(), s))
	parts := p.d.Parts
	return dispatch.NewRails(dispatch.Wiring{
		Config: func(r store.Rail) (stack.Config, error) {
			return stack.Config{ChainID: r.Coin.ChainID, Token: r.Token, BlockTime: time.Minute}, nil
		},
		Nodes: func(c stack.Config) chain.Provider {
			if c.ChainID == 1 {
				return p
			}
			return nodesOf(func() (chain.Nodes, error) { return chain.Nodes{p}, *down })
		},
		Chains: func(context.Context) ([]uint64, error) { return chains, nil },
	}, parts), down
}

// TestOneKeyTwoRails: a key is one payment, whatever the asset, and no wallet of any rail is paid.
func TestOneKeyTwoRails(t *testing.T) {
	p := newProcess(t, script{})
	rails, _ := railsOf(p)
	p.Must(p.Tables.SetCompared(t.Context(), euro.Coin(), store.Comparison{Ran: p.Now(), Since: p.Now(), Abreast: p.Now()}))
	if r, err := rails.Send(t.Context(), asked); err != nil || r.Payment.Token != porttest.Rail.Token {
		t.Fatalf("%+v, %v", r, err)
	}
	other := asked
	other.Asset = euro.Coin()
	if _, err := rails.Send(t.Context(), other); !errors.Is(err, dispatch.ErrKeyReused) {
		t.Errorf("the same key on another rail: %v", err)
	}
	register(p, token.Address{7}, wallet.Retired) // the process has read that there is none
	p.Pass(2 * time.Second)
	to := asked
	to.IdempotencyKey, to.To = "own", token.Address{7}
	if _, err := rails.Send(t.Context(), to); !errors.Is(err, dispatch.ErrOwnWallet) {
		t.Errorf("a wallet of another rail: %v", err)
	}
	for asset, d := range map[token.Coin]*dispatch.Dispatcher{
		euro.Coin(): must.Get(rails.Of(t.Context(), token.Coin{}))(t),
		{}:          must.Get(rails.Of(t.Context(), euro.Coin()))(t),
	} {
		astray := asked
		astray.IdempotencyKey, astray.Asset = "astray", asset
		if _, err := d.Send(t.Context(), astray); !errors.Is(err, dispatch.ErrUnavailable) {
			t.Errorf("a request for %v at another rail's dispatcher: %v", asset, err)
		}
	}
	late := asked
	late.IdempotencyKey = "late"
	rails.Wiring.Chains = func(context.Context) ([]uint64, error) { return []uint64{1, 2, 3}, nil }
	_, err := rails.Send(t.Context(), late)
	if text := fmt.Sprint(err); !errors.Is(err, dispatch.ErrUnavailable) || !strings.Contains(text, "of chain [3]") ||
		strings.Contains(text, "remove") {
		t.Errorf("a chain has nodes and no rail: %v", err)
	}
	p.Must(p.Tables.SetSettings(t.Context(), settings.Default(settings.Rail{ChainID: 3, Token: euro.Token, Network: "new"})))
	if _, err := rails.Send(t.Context(), late); err != nil {
		t.Errorf("it has got a rail since this process read them: %v", err)
	}
	closed := asked
	closed.IdempotencyKey = "closed"
	p.Set(func(s *settings.Settings) { s.Closed = true })
	p.Pass(settings.MaxAge)
	if _, err := rails.Send(t.Context(), closed); !errors.Is(err, dispatch.ErrAssetClosed) {
		t.Errorf("a closed rail: %v", err)
	}
	if r, err := rails.Send(t.Context(), asked); err != nil || !r.Replayed {
		t.Errorf("a repetition: %+v, %v", r, err)
	}
}

// A silent node answers nothing.
type silent struct{ *process }

func (silent) Account(context.Context, token.Address, token.Address, chain.Head) (chain.Account, error) {
	return chain.Account{}, porttest.ErrBroken
}

// TestADeadRail names itself in its refusal.
func TestADeadRail(t *testing.T) {
	p := newProcess(t, script{})
	rails, _ := railsOf(p)
	nodes := chain.Nodes{silent{p}}.Watch(p.Now, time.After)
	for range 3 {
		_, _ = nodes.Latest(t.Context(), token.Address{}, token.Address{})
	}
	rails.Wiring.Nodes = func(stack.Config) chain.Provider { return nodes }
	other := asked
	other.Asset = euro.Coin()
	if _, err := rails.Send(t.Context(), other); !errors.Is(err, dispatch.ErrUnavailable) ||
		!strings.Contains(err.Error(), "no node of rail "+euro.Coin().String()+" has answered") {
		t.Error(err)
	}
}

// An otherNode is of euro's chain.
type otherNode struct {
	*process
	paid token.Address // has a transaction
}

func (n otherNode) Account(_ context.Context, a, _ token.Address, head chain.Head) (chain.Account, error) {
	account := chain.Account{Head: head, Gas: token.Units(1 << 60)}
	if a == n.paid {
		account.Mined, account.Pending = 1, 1
	}
	return account, nil
}

// TestOthersCleared: a process pays on a rail only once the other one lacks no payment in these tables.
func TestOthersCleared(t *testing.T) {
	const ago = 30 * time.Second
	seven, eight := token.Address{7}, token.Address{8}
	ahead := func(_ *process, c *store.Comparison) { c.Since = c.Ran }
	for name, c := range map[string]struct {
		before  func(p *process, known *store.Comparison) // has changed what a run knows of euro
		chains  []uint64
		down    bool
		wallets []token.Address // registered, the first has a record
		paid    token.Address
		pays    bool
		alone   bool // the tables end with the process
	}{
		"cleared, and down now": {nil, nil, true, []token.Address{seven}, seven, true, false},
		"not in this series":    {ahead, nil, true, []token.Address{seven}, token.Address{}, false, false},
		"but its nodes answer":  {ahead, nil, false, []token.Address{seven, eight}, token.Address{}, true, false},
		"it is ahead":           {ahead, nil, false, []token.Address{seven, eight}, seven, false, false},
		"a wallet is suspected": {func(p *process, c *store.Comparison) { ahead(p, c); suspect(p) }, nil, false,
			[]token.Address{seven}, token.Address{}, false, false},
		"its wallets are unknown":             {ahead, nil, false, nil, token.Address{}, false, false},
		"a wallet has paid, by no record":     {ahead, nil, false, []token.Address{seven, eight}, eight, false, false},
		"another chain has nodes and no rail": {nil, []uint64{1, 2, 3}, false, []token.Address{seven}, token.Address{}, false, false},
		"ahead, tables of this process alone": {ahead, nil, false, []token.Address{seven, eight}, seven, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProcess(t, script{})
			rails, down := railsOf(p, c.chains...)
			nodes, config := rails.Wiring.Nodes, rails.Config
			rails.Config = func(r store.Rail) (stack.Config, error) {
				made, err := config(r)
				made.Ephemeral = c.alone
				return made, err
			}
			rails.Wiring.Nodes = func(of stack.Config) chain.Provider {
				if of.ChainID == 1 || c.down {
					return nodes(of)
				}
				return chain.Nodes{otherNode{p, c.paid}}
			}
			for i, a := range c.wallets {
				if register(p, a, wallet.Active); i == 0 {
					p.Must(p.Tables.Open(t.Context(), wallet.Wallet{ID: wallet.ID{ChainID: 2, Address: a}, Ceiling: 4}, euro.Token.Contract))
				}
			}
			known := store.Comparison{Ran: p.Now().Add(-ago), Since: p.Now().Add(-time.Hour), Abreast: p.Now().Add(-2 * ago)}
			if c.before != nil {
				c.before(p, &known)
			}
			p.Must(p.Tables.SetCompared(t.Context(), euro.Coin(), known))
			if c.down {
				*down = chain.ErrNoNodes
			}
			if _, err := rails.Send(t.Context(), asked); (err == nil) != c.pays || err != nil && !errors.Is(err, dispatch.ErrUnavailable) {
				t.Errorf("%v, want a payment: %t", err, c.pays)
			}
		})
	}
}

func register(p *process, a token.Address, s wallet.State) {
	p.Must(p.Tables.Register(context.Background(), wallet.Registration{ID: wallet.ID{ChainID: 2, Address: a}, Token: euro.Token.Contract,
		State: s, Key: wallet.InSecret}))
}

func suspect(p *process) {
	p.Must(p.Tables.Pause(context.Background(), wallet.ID{ChainID: 2, Address: token.Address{7}}, wallet.Suspicion+": test"))
}

// TestALostRail: while a chain has nodes and no rail, no request makes a payment that holds a nonce, which may have come
// with restored tables; nor does one when the rail has been added again, before it is recovered.
func TestALostRail(t *testing.T) {
	crashed := newProcess(t, breaks("Commit#1", "Payment#1"))
	if _, err := crashed.pay(); !errors.Is(err, dispatch.ErrInProgress) {
		t.Fatal(err)
	}
	p := start(t, crashed.Tables, script{})
	rails, _ := railsOf(p, 1, 2)
	p.Must(p.Tables.SetCompared(t.Context(), euro.Coin(),
		store.Comparison{Ran: p.Now(), Since: p.Now().Add(-time.Hour), Abreast: p.Now()}))
	for _, lost := range []settings.Rail{{ChainID: 3, Token: euro.Token, Network: "lost"}, {}} {
		rails.Wiring.Chains = func(context.Context) ([]uint64, error) { return []uint64{1, 2, 3}, nil }
		if _, err := rails.Send(t.Context(), asked); !errors.Is(err, dispatch.ErrInProgress) {
			t.Errorf("%v, and the payment is %s", err, p.stored().State)
		}
		if lost != (settings.Rail{}) {
			p.Must(p.Tables.SetCompared(t.Context(), token.Coin{ChainID: 3}, store.Comparison{Ran: p.Now()}))
			s := settings.Default(lost)
			s.At = p.Now()
			p.Must(p.Tables.SetSettings(t.Context(), s))
			p.Pass(settings.MaxAge)
		}
	}
}
