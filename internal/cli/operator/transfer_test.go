package operator_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
)

// TestMove moves coins to an address outside the stack. Under one key, they move once, whatever is not known in between.
func TestMove(t *testing.T) {
	onChain(t, devnet.Config{}, func(t *testing.T, e *embedded) {
		const move = "wallet move W --to O --yes --key "
		e.want("coins that no run has seen yet", move+"a --token 1.5 --ether 0.5", `^1.5 USDC to O: confirmed 0x.{64}\n0.5 ETH to O: confirmed 0x.{64}\n$`)
		e.want("they move once", move+"a --token 1.5 --ether 0.5 --json", `"amount_decimal": "1.5".*"amount_decimal": "0.5"`)
		e.want("and nothing else does under their key", move+"a --token 2", "idempotency key was used for another request")
		e.want("nothing", move+"b", "^nothing to move: add --token AMOUNT, --ether AMOUNT, or both")
		for _, amount := range []string{"0", "1x", "0.0000001"} {
			e.want("an amount that is none", move+"b --token "+amount, "is not an amount; use whole tokens above zero with at most 6 decimals")
		}
		e.want("all ether of a wallet that pays", move+"b --ether all", "drain the wallet and sweep it")
		e.want("no key", move[:len(move)-1]+"= --token 1", "--key is empty")
		e.want("more than there is", move+"b --token 9999999 --ether 0.1", "^insufficient funds")
		e.want("outside the stack", "wallet move W --to O --key b --token 0.000001", `add --yesThis moves 0.000001 USDC from W to O, for a fee of at most `+
			`\S+ ether.\nO is no wallet of stack remit: what is sent to a wrong address is lost.\nNothing more is moved if this is done again with --key b.$`)
		e.own(2, wallet.Active)
		e.want("inside", "wallet move W --to O --key b --token 1", `ether.\nNothing more`)
		e.Nodes = []string{"nodes"}
		e.want("no node", move+"b --token 1", "is not an http or https URL")
	})
}

// TestMoveUnknown has moves end in each way that leaves something open: what they say, and after how long. The same
// command then moves what is left to move.
func TestMoveUnknown(t *testing.T) {
	onChain(t, devnet.Config{}, func(t *testing.T, e *embedded) {
		must.OK(t, e.settle(t.Context()))
		e.own(2, wallet.Active)
		deaf := func() { e.Hint = func(context.Context) error { return nil } }
		forget := func(coins, gas uint64) func() { // what the wallet has, until the next run
			return func() {
				w := must.Get(e.tables.Wallet(t.Context(), e.id(0)))(t)
				deaf()
				must.OK(t, e.tables.Reconcile(t.Context(), w, token.Units(coins), token.Units(gas), nil, nil))
			}
		}
		const moved, again = "^1 (USDC|ETH) to O: confirmed 0x", `.*run the command again with the same --key`
		for i, c := range []struct {
			why     string
			fault   func()
			coin    string
			want    string
			minutes int
		}{
			{"too little, by the tables", forget(0, 1e18), "token", "^payment rail unavailable: wallet has too little of the token" + again, 2},
			{"too little ether", forget(1e9, 0), "ether", "^payment rail unavailable: wallet has too little ether" + again, 2},
			{"no run to sign it", deaf, "token", "^payment is in progress: check-receipts has not signed it yet;" + again, 2},
			{"no run can be asked for", func() { e.Hint = func(context.Context) error { return errors.New("no run") } }, "token", "^no run" + again, 0},
			{"a command that is stopped", func() {
				ctx, cancel := context.WithCancel(t.Context())
				e.ctx, e.Hint = ctx, func(context.Context) error { cancel(); return nil }
			}, "token", "^context canceled" + again, 0},
			{"an answer that is lost", func() { e.fail("Create", 1, true) }, "token", moved, 0},
			{"a nonce that is lost", func() { e.fail("Reserve", 1, true) }, "token", moved, 0},
			{"a store that is down", func() { e.fail("Create", 0, false) }, "token",
				"^payment is in progress: check-receipts has not signed it yet" + again + ".*store is down", 2},
			{"a list that is not read", func() { e.fail("Wallets", 1, false) }, "token", "^store is down", 0},
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
		e.want("each key once", "wallet balance", `O  1000009 USDC, 1001 ether`)
	})
}

// TestSweep sweeps wallets with payments under way, and with no tokens.
func TestSweep(t *testing.T) {
	onChain(t, devnet.Config{}, func(t *testing.T, e *embedded) {
		const sweep = "wallet sweep W --to O --key s --yes"
		must.OK(t, e.settle(t.Context()))
		e.want("a wallet that pays", sweep, "^W is not draining; run remit wallet drain W first")
		e.Hint = func(context.Context) error { return errors.New("no run") }
		e.want("a payment", "wallet move W --to O --key m --yes --token 1", "no run")
		e.want("", "wallet drain W --yes", "done")
		e.want("at once", sweep, "processes may pay from W for 1s more")
		time.Sleep(time.Second)
		e.want("a payment that has a nonce", sweep, "W has 1 payments under way")
		must.OK(t, e.soon(t.Context()))
		e.want("a payment that is sent", sweep, "W has 1 payments under way")
		e.mend()
		must.OK(t, e.settle(t.Context()))
		for _, op := range []string{"Wallets", "Wallet", "PendingTxs"} {
			e.fail(op, 1, false)
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
