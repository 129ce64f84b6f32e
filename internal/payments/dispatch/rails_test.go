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
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/porttest"
)

// euro is a second rail, on another chain.
var euro = settings.Rail{ChainID: 2, Token: token.Token{Contract: token.Address{0xe0}, Symbol: "EURC", Decimals: 6}, Network: "other"}

// Railed are the rails of a process.
type railed struct {
	*dispatch.Rails
	p *process
}

// rails returns the rails of p's store, of which every chain has its node.
func (p *process) rails(parts dispatch.Parts, chains func(context.Context) ([]uint64, error)) *dispatch.Rails {
	parts.Hints = nil
	return dispatch.NewRails(dispatch.Wiring{Chains: chains, Nodes: func(stack.Config) chain.Provider { return p },
		Hints: func(stack.Config) dispatch.Hinter { return p },
		Config: func(r store.Rail) (stack.Config, error) {
			one := p.d.Config
			one.ChainID, one.Token, one.Network = r.Coin.ChainID, r.Token, r.Settings.Network
			return one, nil
		}}, parts)
}

// railsOf returns the rails of a process and euro.
func railsOf(p *process, chains ...uint64) railed {
	s := settings.Default(euro)
	s.At = p.Now().Add(-90 * time.Minute)
	p.Must(p.Tables.SetSettings(p.T.Context(), s))
	return railed{p.rails(p.d.Parts, func(context.Context) ([]uint64, error) { return chains, nil }), p}
}

// ask sends asked, changed, by the rails.
func (r railed) ask(key string, changes ...func(*payment.Request)) answer {
	result, err := r.Send(r.p.T.Context(), askedAs(key, changes...))
	return answer{Result: result, err: err, p: r.p}
}

func inEuro(r *payment.Request) { r.Asset = euro.Coin() }

// cleared stores that a run has just found no payment of euro missing.
func cleared(p *process) {
	p.Must(p.Tables.SetCompared(p.T.Context(), euro.Coin(),
		store.Comparison{Ran: p.Now(), Since: p.Now().Add(-time.Hour), Abreast: p.Now()}))
}

// TestOneKeyTwoRails: a key is one payment, whatever the asset, and no wallet of any rail is paid.
func TestOneKeyTwoRails(t *testing.T) {
	p := newProcess(t, script{})
	p.d.Book = &book{}
	rails := railsOf(p)
	rails.ask("k").is("a rail without wallets may have lost them", dispatch.ErrUnavailable).without("Rules#2").
		says("rail " + euro.Coin().String())
	rails.ask("k", func(r *payment.Request) { r.Asset.ChainID = 9 }).is("no rail", dispatch.ErrUnavailable)
	cleared(p)
	if made := rails.ask("k").is("the first", nil); made.Payment.Token != porttest.Rail.Token {
		t.Errorf("%+v", made.Result)
	}
	rails.ask("k", inEuro).is("the same key on another rail", dispatch.ErrKeyReused)
	rails.ask("b", inEuro, func(r *payment.Request) { r.Key.Book = true }).is("in no book", dispatch.ErrNotInBook)
	p.Must(p.Tables.Register(t.Context(), wallet.Registration{ID: wallet.ID{ChainID: 2, Address: token.Address{7}},
		Token: euro.Token.Contract, State: wallet.Retired, Key: wallet.InSecret})) // since the process read them
	p.Pass(2 * time.Second)
	rails.ask("own", func(r *payment.Request) { r.To = token.Address{7} }).is("another's wallet", dispatch.ErrOwnWallet)
	for asset, of := range map[token.Coin]token.Coin{euro.Coin(): {}, {}: euro.Coin()} {
		p.d = must.Get(rails.Of(t.Context(), of))(t)
		p.ask("astray", func(r *payment.Request) { r.Asset = asset }).is("astray", dispatch.ErrUnavailable).says("another rail")
	}
	rails.Wiring.Chains = func(context.Context) ([]uint64, error) { return []uint64{1, 2, 3}, nil }
	rails.ask("late").is("a chain has nodes and no rail", dispatch.ErrUnavailable).says("of chain [3], of which there is no rail; add")
	p.Must(p.Tables.SetSettings(t.Context(), settings.Default(settings.Rail{ChainID: 3, Token: euro.Token, Network: "new"})))
	rails.ask("late").is("it has got a rail since this process read them", nil)
	p.Set(func(s *settings.Settings) { s.Closed = true })
	p.Pass(settings.MaxAge)
	rails.ask("closed").is("a closed rail", dispatch.ErrAssetClosed)
	rails.ask("k").is("a repetition", nil)
	p.Pass(settings.MaxAge)
	rails.Wiring.Config = func(store.Rail) (stack.Config, error) { return stack.Config{}, porttest.ErrBroken }
	rails.ask("k", func(r *payment.Request) { r.Asset = porttest.Rail.Coin() }).is("of a rail that was known", dispatch.ErrKeyReused)
	p.Script = breaks(fmt.Sprint("Rules#", p.Times["Rules"]+1))
	p.Pass(settings.MaxAge)
	rails.ask("k").is("while the rails cannot be read", nil)
}

// TestADeadRail names itself in its refusal.
func TestADeadRail(t *testing.T) {
	p := newProcess(t, script{})
	rails, nodes := railsOf(p), chain.Nodes{mute{p, porttest.ErrBroken}}.Watch(p.Now, time.After)
	for range 3 {
		_, _ = nodes.Latest(t.Context(), token.Address{}, token.Address{})
	}
	rails.Wiring.Nodes = func(stack.Config) chain.Provider { return nodes }
	rails.ask("k", inEuro).is("dead", dispatch.ErrUnavailable).without("Create#1").
		says("no node of rail " + euro.Coin().String() + " has answered")
	p = newProcess(t, nil)
	rails = railed{p.rails(p.d.Parts, nil), p}
	rails.Wiring.Nodes = func(stack.Config) chain.Provider { return nodes }
	for range 2 {
		rails.ask("k").is("the only one", dispatch.ErrUnavailable).says("no node answered")
	}
}

// TestALostRail: while a chain has nodes and no rail, no request makes a payment that holds a nonce, which may have
// come with restored tables; nor does one when the rail has been added again, before it is recovered.
func TestALostRail(t *testing.T) {
	crashed := newProcess(t, breaks("Commit#1", "Payment#1"))
	crashed.ask("k").is("crashed", dispatch.ErrInProgress)
	p := start(t, crashed.Tables, script{})
	cleared(p)
	rails := railsOf(p, 1, 2, 3)
	rails.ask("k").is("while it has no rail", dispatch.ErrInProgress)
	p.Must(p.Tables.SetCompared(t.Context(), token.Coin{ChainID: 3}, store.Comparison{Ran: p.Now()}))
	s := settings.Default(settings.Rail{ChainID: 3, Token: euro.Token, Network: "lost"})
	s.At = p.Now()
	p.Must(p.Tables.SetSettings(t.Context(), s))
	p.Pass(settings.MaxAge)
	rails.ask("k").is("before it is recovered", dispatch.ErrInProgress)
}

// TestUnusableSettings: nothing new begins without usable settings. Requests for made payments are answered.
func TestUnusableSettings(t *testing.T) {
	bounds := func(s *settings.Settings) { s.Minimum, s.Maximum = unit(1), unit(1000) }
	spoiled := func(err error) func(p *process) {
		return func(p *process) { p.Tables.SpoilSettings(porttest.Rail.Coin(), err) }
	}
	for name, test := range map[string]struct {
		spoil func(p *process)
		log   string
	}{
		"damaged":                 {spoiled(settings.ErrDamaged), "damaged"},
		"missing":                 {spoiled(settings.ErrMissing), "remit rails add"},
		"of newer code":           {func(p *process) { p.Set(func(s *settings.Settings) { s.Needs = settings.Code + 1 }) }, "newer code"},
		"unreadable":              {func(p *process) { p.Script = down("Rules") }, porttest.ErrBroken.Error()},
		"a live stack's, unset":   {func(p *process) { p.d.Live = true }, "AmountMinimum, AmountMaximum"},
		"a restored live stack's": {func(p *process) { p.d.Live = true; p.Set(bounds) }, "not confirmed"},
	} {
		p := newProcess(t, script{})
		if name != "damaged" { // which a dispatcher without rails reads
			p.d = must.Get(p.rails(p.d.Parts, nil).Of(t.Context(), token.Coin{}))(t)
		}
		paid := p.ask("k").is("paid", nil).Payment
		if log := p.log.String(); strings.Contains(log, "settings unusable") || strings.Contains(log, "rail=") {
			t.Error(log)
		}
		test.spoil(p)
		p.Pass(settings.MaxAge)
		p.ask("new").is(name, dispatch.ErrUnavailable).without("Create#2")
		if !strings.Contains(p.log.String(), "settings unusable") || !strings.Contains(p.log.String(), test.log) {
			t.Errorf("%s: logged %s, want %q", name, &p.log, test.log)
		}
		if again := p.ask("k").is(name+", a repetition", nil); !again.Replayed || again.Payment.TxHash != paid.TxHash {
			t.Errorf("%s: %+v", name, again.Result)
		}
		p.move(nil).is(name+", a transfer", dispatch.ErrUnavailable)
		if err := p.d.Refill(t.Context(), second, true, 1); !errors.Is(err, dispatch.ErrUnavailable) {
			t.Errorf("%s: a refill: %v", name, err)
		}
		p.Script = nil
		p.Set(func(s *settings.Settings) {
			if bounds(s); s.Needs != settings.Code {
				s.Needs, s.MerchantCap = settings.Code, 100
			}
			s.Daily, s.Confirmed = unit(5000), true
		})
		p.ask("new").is(name+", once they are set", nil)
	}
}
