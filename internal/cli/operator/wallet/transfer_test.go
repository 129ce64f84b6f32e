package wallet_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/disburser/install"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/keyring"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/settlement"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/operatortest"
	"github.com/remit-payouts/remit/internal/proof/porttest"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
	"github.com/remit-payouts/remit/internal/sandbox/interpose"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// TestMove moves coins to an address outside the stack. Commands with one key move them once, even after a lost answer.
func TestMove(t *testing.T) {
	was, ahead := wallet.Wallet{Paused: "remit recover has ended (by ada at 2000-01-01T00:00:00Z)"}, wallet.Suspicion
	onChain(t, devnet.Config{}, func(_ *testing.T, e *embedded) {
		e.play(map[string]func(){"O is inside": func() { e.own(2, wallet.Active) },
			"W is suspect": func() { must.OK(e, e.tables.Pause(e.ctx, e.id(0), was.PausedFor(ahead))) },
			"recovered":    func() { ahead += ": remit recover has ended" },
			"a bad URL":    func() { e.Nodes = map[uint64][]string{e.Config.ChainID: {"nodes"}} }}, nil)
	})
}

// TestMoveUnknown has moves end in each way that leaves something open. The same command then moves the rest.
func TestMoveUnknown(t *testing.T) {
	onChain(t, devnet.Config{}, func(t *testing.T, e *embedded) {
		must.OK(t, e.settle(t.Context()))
		e.own(2, wallet.Active)
		deaf := func() { e.Hint = func(context.Context) error { return nil } }
		forget := func(coins, gas uint64) func() { // the wallet's balance, until the next run
			return func() {
				w := must.Get(e.tables.Wallet(t.Context(), e.id(0)))(t)
				deaf()
				must.OK(t, e.tables.Reconcile(t.Context(), w, token.Units(coins), token.Units(gas), nil, nil))
			}
		}
		const moved, again = "^(Already .*:\n)?1 (USDC|ETH) to O: confirmed 0x", `.*run this again with the same --key`
		for i, c := range []struct {
			why     string
			fault   func()
			coin    string
			want    string
			minutes int
		}{
			{"too little, by the tables", forget(0, 1e18), "token", "^payment rail unavailable: wallet has too little of the token" + again, 2},
			{"too little ether", forget(1e9, 0), "ether", "^payment rail unavailable: wallet has too little ether" + again, 2},
			{"unsigned", deaf, "token", "^payment is in progress: check-receipts has not signed it yet;" + again, 2},
			{"no run can be asked for", func() { e.Hint = noRun }, "token", "^no run" + again, 0},
			{"a command that is stopped", func() {
				ctx, cancel := context.WithCancel(t.Context())
				e.ctx, e.Hint = ctx, func(context.Context) error { cancel(); return nil }
			}, "token", "^context canceled" + again, 0},
			{"an answer that is lost", func() { e.fail("Create", true) }, "token", moved, 0},
			{"a nonce that is lost", func() { e.fail("Reserve", true) }, "token", moved, 0},
			{"a store that is down", func() { e.fail("Create", false) }, "token",
				"^payment is in progress: check-receipts has not signed it yet" + again + ".*store is down", 2},
			{"a list that is not read", func() { e.fail("Wallets", true) }, "token", "^store is down", 0},
			{"a refusal", func() { must.OK(t, e.tables.Pause(t.Context(), e.id(0), "theft")) }, "token",
				"^nothing was changed: .*wallet is paused: .*; end its cause .*PausedAlarm.md, .* run this again", 0},
		} {
			line := fmt.Sprintf("wallet move W --to O --yes --key %d --%s 1", i, c.coin)
			c.fault()
			got, took := e.run(line)
			if !regexp.MustCompile("(?s)"+c.want).MatchString(got) || took.Truncate(time.Minute) != time.Duration(c.minutes)*time.Minute {
				t.Errorf("%s: %q after %v, want %q", c.why, got, took, c.want)
			}
			e.mend()
			must.OK(t, e.settle(t.Context()))
			_ = e.tables.Repause(t.Context(), e.id(0), "theft", "")
			e.want(c.why, line, moved)
		}
		e.want("what was refused", "audit-log", "not done  [^\n]+ wallet move W --to O --yes --key 9")
		e.own(1, wallet.Retired)
		e.want("to a retired wallet", "wallet move W --to U --key r --token 1", "^wallet U is retired for good")
		e.want("each key once", "doctor --only "+e.wallets[2].String()[:10], `1000009 USDC, 1001 ether`)
	})
}

// TestSweep sweeps wallets with payments under way, and with no tokens.
func TestSweep(t *testing.T) {
	poor := httptest.NewServer(operatortest.WellNode(operatortest.Node{"eth_call": operatortest.Word(0), "eth_chainId": `"result":"0x539"`}))
	defer poor.Close()
	onChain(t, devnet.Config{}, func(_ *testing.T, e *embedded) {
		must.OK(e, e.settle(e.T.Context()))
		own := e.Nodes[e.Config.ChainID]
		e.play(map[string]func(){"a run begins": func() { must.OK(e, e.soon(e.T.Context())) },
			"a node without its coins": func() { e.Nodes[e.Config.ChainID] = []string{own[0], poor.URL} },
			"that is gone":             func() { e.Nodes[e.Config.ChainID] = own },
			"U drains":                 func() { e.own(1, wallet.Draining) }}, nil)
	})
}

// An embedded is a stack in this process, on its own chain and by the clock of synctest. The first of its three wallets
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
	mine, mined := make(chan struct{}), make(chan error) // the chain's channels are not of the bubble
	t.Cleanup(func() { close(mine); _ = c.Close() })
	go func() {
		for range mine {
			mined <- c.Mine()
		}
	}()
	synctest.Test(t, func(t *testing.T) {
		e := &embedded{T: t, tables: memory.NewPayments(), keys: map[token.Address]keyring.Key{}}
		own := stack.Config{ChainID: c.ID(), Token: c.Token(), Network: "devnet", BlockTime: time.Second,
			RegistryAge: time.Second, Own: stack.Own{Window: 64, FeeLimit: token.Units(200_000_000_000)},
			ConfirmationRule: chain.ConfirmationRule{Depth: 2}, ReservationAge: time.Second}
		if config.TokenGas {
			own.Gas, own.ConfirmationRule = devnet.GasRule(c.Token().Contract), chain.ConfirmationRule{Tag: "finalized"}
			own.GasUnit = own.Gas.Unit(c.Token())
		}
		node := must.Get(ethrpc.Open(c.URL(), ethrpc.Config{ChainID: c.ID(), Gas: own.Gas, Transport: e}))(t)
		must.OK(t, e.tables.SetSettings(t.Context(), settings.Default(settings.Rail{ChainID: c.ID(), Token: c.Token(), Network: "devnet"})))
		ring := keyring.New(func(a token.Address) keyring.Read {
			return func(context.Context) (keyring.Key, error) { return e.keys[a], nil }
		})
		block := func() error { mine <- struct{}{}; return <-mined }
		settler := settlement.New(own, settlement.Parts{Store: e.tables, Keys: ring, Nodes: chain.Nodes{node}, Events: porttest.Unheard{},
			Log: slog.New(slog.DiscardHandler), Now: time.Now, Wait: func(_ context.Context, d time.Duration) {
				if e.cut != nil {
					e.cut()
					return
				}
				time.Sleep(d)
				must.OK(t, block())
			}})
		e.settle = func(ctx context.Context) error {
			return errors.Join(block(), must.Err(settler.Run(ctx, "run")))
		}
		payments := &interpose.Store{Store: e.tables, Around: func(ctx context.Context, c interpose.Call, apply func(context.Context)) error {
			return e.around(ctx, c, apply)
		}}
		e.Local = &deployed.Local{Tables: deployed.Tables{Payments: payments, AuditLog: e.tables},
			Nodes: map[uint64][]string{c.ID(): {c.URL()}}, Config: own,
			Transport: e, PutKey: func(k keyring.Key, _ token.Coin) { e.keys[k.Address()] = k },
			Keyed: func() map[token.Address]token.Coin {
				keyed := map[token.Address]token.Coin{}
				for a := range e.keys {
					keyed[a] = own.Coin()
				}
				return keyed
			}}
		for _, w := range c.Wallets() {
			e.wallets, e.private = append(e.wallets, w.Address), append(e.private, w.PrivateKey())
		}
		e.own(0, wallet.Active)
		must.OK(t, e.tables.Open(t.Context(), wallet.Wallet{ID: e.id(0), Ceiling: 64}, c.Token().Contract))
		e.mend()
		test(t, e)
	})
}

// own registers a wallet that has a key, and no record.
func (e *embedded) own(i int, state wallet.State) {
	e.Helper()
	e.PutKey(must.Get(keyring.ParseKey(e.private[i]))(e), e.Config.Coin())
	must.OK(e, e.tables.Register(e.T.Context(),
		wallet.Registration{ID: e.id(i), Token: e.Config.Token.Contract, State: state, Key: wallet.InSecret}))
}

func noRun(context.Context) error { return errors.New("no run") }

// soon is a run that ends when it would wait for its own transactions.
func (e *embedded) soon(ctx context.Context) error {
	ctx, e.cut = context.WithCancel(ctx)
	_ = e.settle(ctx)
	e.cut = nil
	return nil
}

func (e *embedded) id(i int) wallet.ID {
	return wallet.ID{ChainID: e.Config.ChainID, Address: e.wallets[i]}
}

// fail has each call of an operation from now on fail; or if once, the next one lose its answer.
func (e *embedded) fail(op string, once bool) {
	e.around = func(ctx context.Context, c interpose.Call, apply func(context.Context)) error {
		if op != c.Op && op != c.Op+" "+c.Args {
			apply(ctx)
			return nil
		}
		if once {
			apply(ctx)
			op = ""
		}
		return errors.New("store is down")
	}
}

// mend undoes the damage of fail and of a test.
func (e *embedded) mend() {
	e.ctx, e.Hint = e.T.Context(), e.settle
	e.around = func(ctx context.Context, _ interpose.Call, apply func(context.Context)) error { apply(ctx); return nil }
}

// run gives a command, in which W, U and O are wallets, as in its answer and error, and returns how long it took.
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

// play gives the commands of the test's table. A row has its reason, events before the command, the command, and a
// pattern that its answer or error matches; or, in place of a command, "is" and the state that is shows.
func (e *embedded) play(events map[string]func(), is func() string) {
	maps.Copy(events, map[string]func(){"": func() {}, "mend": e.mend, "a second": func() { time.Sleep(time.Second) },
		"a run": func() { must.OK(e, e.settle(e.T.Context())) }, "no run": func() { e.Hint = noRun }, "runs are cut": func() { e.Hint = e.soon }})
	for _, c := range tabletest.Read(e.T, nil) {
		for event := range strings.SplitSeq(c.In[0], "; ") {
			if op, fails := strings.CutPrefix(event, "fails: "); fails {
				e.fail(op, false)
			} else if op, lost := strings.CutPrefix(event, "loses its answer: "); lost {
				e.fail(op, true)
			} else {
				events[event]()
			}
		}
		if c.In[1] != "is" {
			e.want(c.Name, c.In[1], c.Want)
		} else if got := is(); got != c.Want {
			e.Errorf("%s: %s, want %s", c.Name, got, c.Want)
		}
	}
}

// TestAllowanceIsForTheContractAlone: each node must have its code, to begin one; and a node a list that is set.
func TestAllowanceIsForTheContractAlone(t *testing.T) {
	own, from := install.Address().String(), "0x"+strings.Repeat("11", 20)
	deployer := fmt.Sprintf(`"result":"0x%x"`, install.DeployerCode())
	has := func(code string) operatortest.Node {
		return operatortest.Node{"eth_getCode": code, "eth_call 0xdd62ed3e": operatortest.Word(5)}
	}
	nodes := map[string]operatortest.Node{"lists": {"eth_call": operatortest.Word(0)}, "other": has(`"result":"0x60"`),
		"ours": has(fmt.Sprintf(`"result":"0x%x"`, disburser.Code())), "account": {"eth_call": `"result":"0x"`},
		"none": has(`"result":"0x"`), "silent": has(`"error":{"code":-32000,"message":"missing trie node"}`),
		"blind":          {"eth_call": `"error":{"code":-32000,"message":"header not found"}`},
		"other deployer": {"eth_getCode": `"result":"0x6001"`, "eth_getCode " + own: `"result":"0x"`},
		"deployer":       {"eth_getCode": deployer, "eth_getCode " + own: `"result":"0x"`}}
	words := map[string]string{"own": own, "passed": "wallet " + from + " is retired for good",
		"list": "settings set --yes SanctionsList=" + from, "contract": "settings set --yes BatchContract=" + from,
		"deploy": "batch deploy --yes --key a " + from, "approve": "batch approve --yes --key a " + from + " --amount"}
	tabletest.Run(t, words, func(t *testing.T, c tabletest.Case) {
		one, two := httptest.NewServer(operatortest.WellNode(nodes[c.In[1]])), httptest.NewServer(operatortest.WellNode(nodes[c.In[2]]))
		defer one.Close()
		defer two.Close()
		config := stack.Config{ChainID: 8453, Token: token.Token{Symbol: "USDC", Decimals: 6}}
		local := operatortest.Empty(t, config, one.URL, two.URL)
		must.OK(t, local.Payments.Register(t.Context(), wallet.Registration{ID: wallet.ID{ChainID: 8453,
			Address: must.Get(token.ParseAddress(from))(t)}, Token: local.Config.Token.Contract, State: wallet.Retired}))
		out, err := operatortest.Local(t.Context(), local, strings.Fields(c.In[0])...)
		if !strings.Contains(fmt.Sprint(out, err), c.Want) {
			t.Errorf("%s, %v, want %q", out, err, c.Want)
		}
	})
}

// TestBatchCall gives an allowance, and reads the text before it and after each end of it.
func TestBatchCall(t *testing.T) {
	onChain(t, devnet.Config{}, func(_ *testing.T, e *embedded) {
		must.OK(e, e.settle(e.T.Context()))
		e.play(map[string]func(){"it reverts": func() {
			p := must.Get(e.tables.Payment(e.T.Context(), payment.KeyID(payment.Operator, "test", "f")))(e)
			reverted := must.Get(p.Fail(payment.ExecutionReverted, chain.Receipt{Tx: p.TxHash}, time.Now()))(e)
			must.OK(e, e.tables.Finish(e.T.Context(), reverted))
		}, "no nodes": func() { e.asked = func() { e.Nodes = nil } }}, nil)
	})
}
