package operator_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/evm/settings"
	"github.com/remit-payouts/remit/internal/evm/stack"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/interpose"
	"github.com/remit-payouts/remit/internal/payments/keyring"
	"github.com/remit-payouts/remit/internal/payments/settlement"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/operatortest"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// An embedded is a stack in this process, on a chain of its own and by the clock of synctest. The first of its three wallets
// is registered, and its record shows no coins. When a command hints, a block is mined, and check-receipts runs.
type embedded struct {
	*deployed.Local
	*testing.T
	tables  *memory.Payments
	wallets []token.Address
	private []string // their keys
	keys    map[token.Address]keyring.Key
	settle  func(ctx context.Context) error // mines a block, and runs check-receipts, which mines while it waits
	around  interpose.Around                // makes the calls of commands' store
	cut     func()                          // ends the run, in place of a wait; nil: it waits
	ctx     context.Context                 // of commands
	asked   func()                          // before each request to the node, if not nil
}

// RoundTrip implements http.RoundTripper. A connection that is kept would hold the clock.
func (e *embedded) RoundTrip(r *http.Request) (*http.Response, error) {
	if e.asked != nil {
		e.asked()
	}
	return (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
}

func onChain(t *testing.T, config devnet.Config, test func(*testing.T, *embedded)) {
	t.Helper()
	config.Listen, config.Wallets, config.Now = "127.0.0.1:0", 3, func() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }
	c := must.Get(devnet.Start(t.Context(), config))(t)
	t.Cleanup(func() { _ = c.Close() })
	mine, mined := make(chan struct{}), make(chan error) // the chain's channels are not of the bubble
	go func() {
		for range mine {
			mined <- c.Mine()
		}
	}()
	t.Cleanup(func() { close(mine) })
	synctest.Test(t, func(t *testing.T) {
		e := &embedded{T: t, tables: memory.NewPayments(), keys: map[token.Address]keyring.Key{}}
		own := stack.Config{ChainID: c.ID(), Token: c.Token(), Network: "devnet", BlockTime: time.Second, RegistryAge: time.Second,
			Own:              stack.Own{Window: 64, FeeLimit: token.Units(200_000_000_000)},
			ConfirmationRule: chain.ConfirmationRule{Depth: 2}, ReservationAge: time.Second}
		if config.TokenGas {
			own.Gas, own.ConfirmationRule = devnet.GasRule(c.Token().Contract, false), chain.ConfirmationRule{Tag: "finalized"}
			own.GasUnit = own.Gas.Unit(c.Token())
		}
		node := must.Get(ethrpc.Open(c.URL(), ethrpc.Config{ChainID: c.ID(), Gas: own.Gas, Transport: e}))(t)
		must.OK(t, e.tables.SetSettings(t.Context(), settings.Default()))
		ring := keyring.New(func(a token.Address) keyring.Read {
			return func(context.Context) (keyring.Key, error) { return e.keys[a], nil }
		})
		block := func() error { mine <- struct{}{}; return <-mined }
		settler := settlement.New(own, settlement.Parts{Store: e.tables, Keys: ring, Nodes: chain.Nodes{node}, Events: unheard{},
			Log: slog.New(slog.DiscardHandler), Now: time.Now, Wait: func(_ context.Context, d time.Duration) {
				if e.cut != nil {
					e.cut()
					return
				}
				time.Sleep(d)
				must.OK(t, block())
			}})
		e.settle = func(ctx context.Context) error {
			_, err := settler.Run(ctx, "run")
			return errors.Join(block(), err)
		}
		payments := &interpose.Store{Store: e.tables, Around: func(ctx context.Context, c interpose.Call, apply func(context.Context)) error {
			return e.around(ctx, c, apply)
		}}
		e.Local = &deployed.Local{Tables: deployed.Tables{Payments: payments, AuditLog: e.tables}, Nodes: []string{c.URL()}, Config: own,
			Transport: e, PutKey: func(k keyring.Key) { e.keys[k.Address()] = k },
			Keyed: func() (all []token.Address) {
				for a := range e.keys {
					all = append(all, a)
				}
				return all
			}}
		for _, w := range c.Wallets() {
			e.wallets, e.private = append(e.wallets, w.Address), append(e.private, w.PrivateKey())
		}
		e.own(0, wallet.Active)
		must.OK(t, e.tables.Open(t.Context(), wallet.Wallet{ID: e.id(0), Ceiling: 64}))
		e.mend()
		test(t, e)
	})
}

// own registers a wallet that has a key, and no record.
func (e *embedded) own(i int, state wallet.State) {
	e.Helper()
	e.PutKey(must.Get(keyring.ParseKey(e.private[i]))(e))
	must.OK(e, e.tables.Register(e.T.Context(), wallet.Registration{ID: e.id(i), State: state, Key: wallet.InSecret}))
}

// soon is a run that ends when it would wait for what it has sent.
func (e *embedded) soon(ctx context.Context) error {
	ctx, e.cut = context.WithCancel(ctx)
	_ = e.settle(ctx)
	e.cut = nil
	return nil
}

func (e *embedded) id(i int) wallet.ID {
	return wallet.ID{ChainID: e.Config.ChainID, Address: e.wallets[i]}
}

// fail has the nth call of an operation from now on fail, or each if n is 0. If late, the call has its effect.
func (e *embedded) fail(op string, n int, late bool) {
	calls := 0
	e.around = func(ctx context.Context, c interpose.Call, apply func(context.Context)) error {
		fails := false
		if op == c.Op || op == c.Op+" "+c.Args {
			calls++
			fails = n == 0 || n == calls
		}
		if !fails || late {
			apply(ctx)
		}
		if fails {
			return errors.New("store is down")
		}
		return nil
	}
}

// mend ends what fail, and a test, has done to the stack.
func (e *embedded) mend() {
	e.ctx, e.Hint = e.T.Context(), e.settle
	e.around = func(ctx context.Context, _ interpose.Call, apply func(context.Context)) error { apply(ctx); return nil }
}

// run gives a command, in which W, U and O are the three wallets, and returns its answer and error,
// in which they are too, and how long it took.
func (e *embedded) run(line string) (string, time.Duration) {
	var in, out []string
	for name, i := range map[string]int{"W": 0, "U": 1, "O": 2} {
		in, out = append(in, " "+name, " "+e.wallets[i].String()), append(out, e.wallets[i].String(), name)
	}
	began := time.Now()
	answer, err := operatortest.Local(e.ctx, e.Local, strings.Fields(strings.NewReplacer(in...).Replace(line))...)
	said := strings.NewReplacer(out...).Replace(fmt.Sprint(answer, err))
	return strings.TrimSuffix(said, "<nil>"), time.Since(began)
}

// want gives a command, whose answer or error matches a pattern.
func (e *embedded) want(why, line, pattern string) {
	e.Helper()
	if got, _ := e.run(line); !regexp.MustCompile("(?s)" + pattern).MatchString(got) {
		e.Errorf("%s: %s: %s\nwant %s", why, line, got, pattern)
	}
}

// unheard publishes nothing: operators' transfers have no events.
type unheard struct{}

// Publish implements settlement.Events.
func (unheard) Named(context.Context, webhook.Owner, string) (bool, error) { return false, nil }
func (unheard) Publish(context.Context, webhook.Event) error               { return nil }
