package operator_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/interpose"
	"github.com/remit-payouts/remit/internal/payments/keyring"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
)

// TestRotateKilledAfterEachStep kills `remit wallet rotate` after each thing that it
// stores, and gives the same command again until it ends: there is one successor, and it
// has been sent each coin twice, by four transfers.
func TestRotateKilledAfterEachStep(t *testing.T) {
	onChain(t, devnet.Config{}, killedAfterEachStep)
}

func killedAfterEachStep(t *testing.T, e *embedded) {
	first := e.wallets[0]
	must.OK(t, e.settle(t.Context()))
	var kill context.CancelFunc
	steps := []string{}
	stored := map[string]bool{}
	after := func(step string) error {
		if stored[step] {
			return nil
		}
		stored[step], steps = true, append(steps, step)
		kill()
		return context.Canceled
	}
	e.around = func(ctx context.Context, c interpose.Call, apply func(context.Context)) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		apply(ctx)
		switch c.Op {
		case "Register", "Open", "Create", "Reserve", "RaiseCeiling", "SetState", "Retire":
			return after(c.Op + " " + c.Args)
		}
		return nil
	}
	put := e.PutKey
	e.PutKey = func(k keyring.Key) { put(k); _ = after("PutKey") }
	var out string
	for before := 0; ; before = len(steps) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		e.ctx, kill = ctx, cancel
		if out, _ = e.run("wallet rotate W --yes"); strings.HasPrefix(out, "W is retired") {
			break
		}
		if len(steps) != before+1 || len(steps) > 13 || !strings.Contains(out, "give the same command again") {
			t.Fatalf("after %q: %s", steps, out)
		}
	}
	t.Logf("killed after %q", steps)
	if len(steps) != 13 { // a key, a registration, a record, four transfers of two writes, two states
		t.Errorf("killed after %d steps: %q", len(steps), steps)
	}
	wallets, err := e.tables.Wallets(t.Context(), e.Config.ChainID)
	if err != nil || len(wallets) != 2 {
		t.Fatalf("%v, %v", wallets, err)
	}
	if r, _ := wallets.Find(first); r.State != wallet.Retired {
		t.Errorf("the wallet is %s", r.State)
	}
	for _, r := range wallets {
		if r.Address != first && (r.State != wallet.Active || r.Replaces != first ||
			!strings.Contains(out, r.Address.String()+" has taken its place")) {
			t.Errorf("its successor: %+v; the command said %s", r, out)
		}
	}
	out, _ = e.run("export --merchant operator --csv")
	if n := strings.Count(out, ",confirmed,"); n != 4 || strings.Count(out, "\n") != 5 {
		t.Errorf("four transfers are to be confirmed: %s", out)
	}
	e.want("the wallet has no tokens", "wallet balance", "W  0 ")
	e.want("once more", "wallet rotate W --yes", "has taken its place")
}

// TestRotate rotates wallets of each kind. None drains before its successor can spend what it has been sent.
func TestRotate(t *testing.T) {
	for _, gas := range []bool{false, true} {
		onChain(t, devnet.Config{TokenGas: gas}, func(t *testing.T, e *embedded) {
			tokens := true
			e.around = func(ctx context.Context, c interpose.Call, apply func(context.Context)) error {
				apply(ctx)
				for _, r := range must.Get(e.tables.Wallets(ctx, e.Config.ChainID))(t) {
					if c.Op != "SetState" || !strings.HasPrefix(c.Args, fmt.Sprintf("%x ", r.Replaces[18:])) {
						continue
					}
					w, err := e.tables.Wallet(ctx, r.ID)
					if err != nil || w.Balance.IsZero() == tokens || w.Gas.IsZero() != gas {
						t.Errorf("%s at %s: its successor has %s and %s wei to spend, %v", c.Args, time.Now(), w.Balance, w.Gas, err)
					}
				}
				return nil
			}
			rotated := func(why, name string, transfers int) {
				t.Helper()
				e.want(why, "wallet rotate --yes "+name, "^"+name+" is retired, and 0x\\S+ has taken its place")
				out, _ := e.run("export --merchant operator --csv")
				if n := strings.Count(out, ",confirmed,"); n != transfers {
					t.Errorf("%s: %d transfers, want %d: %s", why, n, transfers, out)
				}
			}
			must.OK(t, e.settle(t.Context()))
			if gas {
				rotated("tokens that are the gas", "W", 2)
				return
			}
			e.want("tokens", "wallet move W --to O --yes --key m --token all", "^1000000 USDC")
			tokens = false
			rotated("ether alone", "W", 3)
			tokens = true
			e.own(1, wallet.Active)
			e.Hint = e.soon
			rotated("a wallet that has never paid, by runs that end soon", "U", 7)
			e.mend()
			e.wallets[1] = must.Get(token.ParseAddress("0x2c7536E3605D9C16a7a3D7b1898e529396a65c23"))(t)
			e.private[1] = "0x4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318"
			e.own(1, wallet.Active)
			rotated("a wallet that has nothing", "U", 7)
		})
	}
}

// TestRotateFails: an error stops the rotation before the wallet drains, and the same command goes on.
func TestRotateFails(t *testing.T) {
	onChain(t, devnet.Config{}, func(t *testing.T, e *embedded) {
		const rotate = "wallet rotate W --yes"
		must.OK(t, e.settle(t.Context()))
		e.want("no wallet", "wallet rotate O", "^O is not a wallet of the stack")
		once := func(then func(context.Context) error) {
			e.Hint = func(ctx context.Context) error { e.Hint = then; return e.soon(ctx) }
		}
		for _, c := range []struct {
			why   string
			fault func()
			want  string
		}{
			{"no list of wallets", func() { e.fail("Wallets", true) }, "^store is down"},
			{"no list of transfers", func() { e.fail("Payment", true) }, "^store is down"},
			{"no successor", func() { e.fail("Register", true) }, "^registering .*store is down.*\nNothing is lost: give the same command again"},
			{"no record", func() { e.fail("Wallet", true) }, `^moving half to 0x\S+: store is down`},
			{"no transfer", func() { e.fail("Create", false) }, "^moving half to .*: payment is in progress"},
			{"a run that ends", func() { once(noRun) }, "^moving half to .*no run"},
			{"no record of the successor", func() { once(func(context.Context) error { e.fail("Wallet", true); return nil }) },
				"^moving half to 0x[^:]+: store is down"},
			{"half of a transfer that is not read", func() {
				e.fail("Payment "+string(payment.KeyID(payment.Operator, "test", "rotate/"+e.wallets[0].String()+"/fund/ETH")), true)
			}, "^moving half to 0x[^:]+: store is down"},
		} {
			c.fault()
			e.want(c.why, rotate, c.want)
			e.mend()
			if r, _ := must.Get(e.tables.Wallets(t.Context(), e.Config.ChainID))(t).Find(e.wallets[0]); r.State != wallet.Active {
				t.Errorf("%s: the wallet is %s", c.why, r.State)
			}
		}
		e.fail("Retire", false)
		e.want("all but its end", rotate, "^store is down")
		e.mend()
		e.own(2, wallet.Active)
		e.want("tokens that come late", "wallet move O --to W --yes --key m --token 1", "confirmed")
		e.want("are not left behind", rotate, "^wallet W holds 1 USDC, .* ether; move it first")
	})
}
