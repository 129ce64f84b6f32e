package wallet_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	onChain(t, devnet.Config{}, func(t *testing.T, e *embedded) {
		const move = "wallet move W --to O --yes --key "
		e.want("coins that no run has seen yet", move+"a --token 1.5 --ether 0.5", `^1.5 USDC to O: confirmed 0x.{64}\n0.5 ETH to O: confirmed 0x.{64}\n$`)
		e.want("they move once", move+"a --token 1.5 --ether 0.5 --json", `"amount_decimal": "1.5".*"amount_decimal": "0.5"`)
		e.want("nothing else does under their key", move+"a --token 2", "idempotency key was used for another request")
		e.want("nothing", move+"b", "^nothing to move: add --token AMOUNT, --ether AMOUNT, or both")
		for _, amount := range []string{"0", "1x", "0.0000001"} {
			e.want("an amount that is none", move+"b --token "+amount,
				"is no amount; use whole tokens, such as 12.5, with at most 6 decimals")
		}
		e.want("all ether of a wallet that pays", move+"b --ether all", "drain the wallet and sweep it")
		e.want("no key", move[:len(move)-1]+"= --token 1", "--key is empty")
		e.want("more than there is", move+"b --token 9999999 --ether 0.1", "^insufficient funds")
		e.want("outside the stack", "wallet move W --to O --key b --token 0.000001", `add --yesThis moves 0.000001 USDC from W to O, for a fee of at most `+
			`\S+ ether.\nO is no wallet of stack remit: what is sent to a wrong address is lost.\nNothing more is done if this is given again with --key b.$`)
		e.own(2, wallet.Active)
		e.want("inside", "wallet move W --to O --key b --token 1", `ether.\nNothing more`)
		e.Nodes = map[uint64][]string{e.Config.ChainID: {"nodes"}}
		e.want("no node", move+"b --token 1", "invalid node URL")
	})
}

// TestMoveUnknown has moves end in each way that leaves something open: with their messages and
// durations. The same command then moves the rest.
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
		const moved, again = "^1 (USDC|ETH) to O: confirmed 0x", `.*run this again with the same --key`
		for i, c := range []struct {
			why     string
			fault   func()
			coin    string
			want    string
			minutes int
		}{
			{"too little, by the tables", forget(0, 1e18), "token", "^payment rail unavailable: wallet has too little of the token" + again, 2},
			{"too little ether", forget(1e9, 0), "ether", "^payment rail unavailable: wallet has too little ether" + again, 2},
			{"no run signs", deaf, "token", "^payment is in progress: check-receipts has not signed it yet;" + again, 2},
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
			{"a refusal", func() { must.OK(t, e.tables.Pause(t.Context(), e.id(0), "theft")) }, "token", "wallet is paused", 0},
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
		e.want("each key once", "doctor --only "+e.wallets[2].String()[:10], `1000009 USDC, 1001 ether`)
	})
}

// TestSweep sweeps wallets with payments under way, and with no tokens.
func TestSweep(t *testing.T) {
	onChain(t, devnet.Config{}, func(t *testing.T, e *embedded) {
		const sweep = "wallet sweep W --to O --key s --yes"
		must.OK(t, e.settle(t.Context()))
		e.want("a wallet that pays", sweep, "^W is not draining; run remit wallet drain W first")
		e.Hint = noRun
		e.want("a payment", "wallet move W --to O --key m --yes --token 1", "no run")
		e.want("", "wallet drain W --yes", "done")
		e.want("at once", sweep, "requests may pay from W for 1s")
		time.Sleep(time.Second)
		e.want("a payment that has a nonce", sweep, "W has 1 payments under way")
		must.OK(t, e.soon(t.Context()))
		e.want("a payment that is sent", sweep, "W has 1 payments under way")
		e.mend()
		must.OK(t, e.settle(t.Context()))
		for _, op := range []string{"Wallets", "Wallet", "PendingTxs"} {
			e.fail(op, true)
			e.want(op, sweep, "^store is down")
			e.mend()
		}
		e.want("to itself", "wallet sweep W --to W --key s --yes", "can only lose")
		const all = `^999999 USDC to O: %[1]s 0x\S+\n999.99\d+ ETH to O: %[1]s 0x\S+\n$`
		e.Hint = e.soon
		e.want("all", sweep, fmt.Sprintf(all, "pending"))
		e.want("while it is under way", sweep, fmt.Sprintf(all, "pending"))
		must.OK(t, e.settle(t.Context()))
		e.want("once", sweep, fmt.Sprintf(all, "confirmed"))
		e.mend()
		e.want("a wallet without tokens", "wallet sweep W --to O --key t", `--yesInsufficient funds: W has nothing to spend.\nThis moves \S+ ETH`)
		e.want("moves ether alone", "wallet sweep W --to O --key t --yes", `^0.0000\d+ ETH to O: confirmed \S+\n$`)
		e.want("what there is not, by itself", "wallet move W --to O --key u --token all", "^insufficient funds: W has nothing to spend")
		e.own(1, wallet.Draining)
		e.want("a wallet that has never paid", "wallet sweep U --to O --key u", "This moves 1000000 USDC from U to O")
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

// TestAllowanceIsForTheContractAlone: none is given unless each node has the contract's
// code. An allowance is ended all the same.
func TestAllowanceIsForTheContractAlone(t *testing.T) {
	own, wallet := install.Address().String(), "0x1111111111111111111111111111111111111111"
	deployer := fmt.Sprintf(`"result":"0x%x"`, install.DeployerCode())
	has := func(code string) operatortest.Node {
		return operatortest.Node{"eth_getCode " + own: code, "eth_call 0xdd62ed3e": operatortest.Word(5)}
	}
	nodes := map[string]operatortest.Node{"ours": has(fmt.Sprintf(`"result":"0x%x"`, disburser.Code())), "other": has(`"result":"0x6001"`),
		"none": has(`"result":"0x"`), "silent": has(`"error":{"code":-32000,"message":"missing trie node"}`),
		"blind":          {"eth_call": `"error":{"code":-32000,"message":"header not found"}`},
		"other deployer": {"eth_getCode": `"result":"0x6001"`, "eth_getCode " + own: `"result":"0x"`},
		"deployer":       {"eth_getCode": deployer, "eth_getCode " + own: `"result":"0x"`}}
	words := map[string]string{"own": own, "approve": "batch approve --yes --key a " + wallet + " --amount",
		"deploy": "batch deploy --yes --key a " + wallet, "passed": "no key for wallet " + wallet}
	tabletest.Run(t, words, func(t *testing.T, c tabletest.Case) {
		one, two := httptest.NewServer(operatortest.WellNode(nodes[c.In[1]])), httptest.NewServer(operatortest.WellNode(nodes[c.In[2]]))
		defer one.Close()
		defer two.Close()
		config := stack.Config{ChainID: 8453, Token: token.Token{Symbol: "USDC", Decimals: 6}}
		out, err := operatortest.Local(t.Context(), operatortest.Empty(t, config, one.URL, two.URL), strings.Fields(c.In[0])...)
		if !strings.Contains(fmt.Sprint(out, err), c.Want) {
			t.Errorf("%s, %v, want %q", out, err, c.Want)
		}
	})
}

// TestBatchCall gives an allowance, and reads the text before it and after each end of it.
func TestBatchCall(t *testing.T) {
	onChain(t, devnet.Config{}, func(t *testing.T, e *embedded) {
		const approve = "batch approve W --amount 5 --yes --key "
		must.OK(t, e.settle(t.Context()))
		e.want("the contract is there", "batch deploy W --key a", "The contract is there, on every node")
		e.want("no key", approve[:len(approve)-1]+"=", "^--key is empty")
		e.want("no such wallet", "batch approve O --amount 5 --key a", "^payment rail unavailable: no key for wallet O")
		e.fail("Rules", true)
		e.want("no rules", approve+"a", "^reading the rails: store is down")
		e.mend()
		e.want("what it means", "batch approve W --amount unlimited --key a", `add --yesThis lets \S+ take any amount of USDC from W, when this wallet `+
			`asks it to. Now it may take any amount of USDC.\nW pays a fee of at most \S+ ether.\nNothing more is done if this is given again with --key a.$`)
		e.Hint = noRun
		e.want("no end", approve+"a", `^no run \(run this again with the same --key to see the outcome\)`)
		e.mend()
		for range 2 {
			e.want("an end", approve+"a", `^confirmed 0x\S+\nremit doctor shows what the chain has.\n$`)
		}
		e.want("was done", "batch approve W --amount 6 --key b", "Now it may take 5 USDC")

		e.Hint = e.soon
		e.want("no receipt yet", approve+"f", "^pending 0x")
		p := must.Get(e.tables.Payment(t.Context(), payment.KeyID(payment.Operator, "test", "f")))(t)
		must.OK(t, e.tables.Finish(t.Context(), must.Get(p.Fail(payment.ExecutionReverted, chain.Receipt{Tx: p.TxHash}, time.Now()))(t)))
		e.want("a failure", approve+"f", `^failed 0x\S+: [^\n]+\nTry again with another --key.\n$`)

		e.asked = func() { e.Nodes = nil }
		e.want("no nodes any more", "batch approve W --amount 0 --key g", "^no nodes are stored for chain")
	})
}
