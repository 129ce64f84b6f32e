package wallet_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
	"github.com/remit-payouts/remit/internal/sandbox/interpose"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// A termsTable is a table of keys. The next write of terms is made by next, if there is one; read comes before a read.
type termsTable struct {
	*memory.APIKeys
	next func(apply func() error) error
	read func()
}

func (k *termsTable) Terms(ctx context.Context, merchant string) (apikey.Terms, error) {
	if read := k.read; read != nil {
		k.read = nil
		read()
	}
	return k.APIKeys.Terms(ctx, merchant)
}

func (k *termsTable) SetTerms(ctx context.Context, merchant string, from, to apikey.Terms) error {
	apply := func() error { return k.APIKeys.SetTerms(ctx, merchant, from, to) }
	if next := k.next; next != nil {
		k.next = nil
		return next(apply)
	}
	return apply()
}

// TestAssign gives a wallet to a merchant and takes it back. The command is killed between its writes, or another operator
// comes between: the merchant is never on the common wallets while one is its own, and the next command does the rest.
func TestAssign(t *testing.T) {
	onChain(t, devnet.Config{}, func(t *testing.T, e *embedded) {
		keys := &termsTable{APIKeys: new(memory.APIKeys)}
		e.Tables.Keys = keys
		for i, merchant := range []string{"mer_1", "mer_2"} {
			must.OK(t, keys.Create(t.Context(), apikey.Key{Hash: apikey.Hash{byte(i)}, MerchantID: merchant}))
		}
		must.OK(t, e.settle(t.Context()))
		is := func(why, want string) { // the registration, the record's merchant, and who pays from its own wallets
			t.Helper()
			r, _ := must.Get(e.tables.Wallets(t.Context(), e.Config.Coin()))(t).Find(e.wallets[0])
			got := fmt.Sprintf("%s %s/%s", r.State, r.Merchant, must.Get(e.tables.Wallet(t.Context(), r.ID))(t).Merchant)
			for _, merchant := range []string{"mer_1", "mer_2"} {
				if must.Get(keys.Terms(t.Context(), merchant))(t).Own != "" {
					got += " " + merchant
				}
			}
			if got != want {
				t.Errorf("%s: %s, want %s", why, got, want)
			}
		}
		down := func(func() error) error { return errors.New("keys are down") }
		lost := func(apply func() error) error { return errors.Join(apply(), errors.New("keys are down")) }
		between := func(line, want string) func(func() error) error { // another operator's command
			return func(apply func() error) error {
				e.want("between", line, want)
				return apply()
			}
		}
		const assign, unassign, drain = "wallet assign W --yes --merchant ", "wallet unassign W --yes", "wallet drain W --yes"
		const unstored = "^the wallet is the merchant's, and its terms are not stored: keys are down; run this again"
		drained := func() { e.want("", drain, "done"); time.Sleep(time.Second) }
		beside := func(line string) { // another operator's command, before the wallet is assigned
			e.around = func(ctx context.Context, c interpose.Call, apply func(context.Context)) error {
				if c.Op == "Assign" {
					e.mend()
					e.want("between", line, "done")
				}
				apply(ctx)
				return nil
			}
		}

		e.want("a wallet that pays", assign+"mer_1", "^W is not draining; run remit wallet drain W first")
		e.want("", drain, "done")
		e.want("at once", assign+"mer_1", "requests may pay from W for 1s")
		time.Sleep(time.Second)
		e.want("nobody", assign+"mer_3", "merchant \"mer_3\" has none")
		e.want("a wallet of nobody", unassign, "^wallet W is no merchant's")
		e.fail("Assign", false)
		e.want("killed before it", assign+"mer_1", "^store is down")
		is("nothing is done", "draining /")
		e.fail("Assign", true)
		e.want("killed behind the wallet", assign+"mer_1", "^store is down")
		e.mend()
		is("the wallet pays nobody", "assigned mer_1/mer_1")
		keys.next = down
		e.want("killed again", assign+"mer_1", unstored)
		is("the wallet pays nobody", "assigned mer_1/mer_1")
		keys.next = lost
		e.want("killed behind the terms", assign+"mer_1", unstored)
		e.want("in the end", assign+"mer_1", "done")
		is("it is the merchant's", "assigned mer_1/mer_1 mer_1")

		e.want("of another", assign+"mer_2", "^W is of merchant mer_1; run remit wallet unassign W first")
		e.want("a wallet that pays", unassign, "^W is not draining; run remit wallet drain W first")
		drained()
		e.want("with its merchant's coins", unassign, "^wallet W holds .*USDC.* of its merchant; empty it with remit wallet sweep first")
		e.want("the operator moves them", "wallet sweep W --to O --key s --yes", `USDC to O: confirmed`)
		keys.next = down
		e.want("killed before it", unassign, "^keys are down")
		is("nothing is done", "draining mer_1/mer_1 mer_1")
		e.fail("Assign", false)
		e.want("killed behind the terms", unassign, "^store is down")
		e.mend()
		is("the wallet pays nobody", "draining mer_1/mer_1")

		e.want("the operator thinks again", drain+" --undo", "done")
		is("it pays its merchant", "assigned mer_1/mer_1 mer_1")
		drained()
		keys.next = between(drain+" --undo", "done")
		e.want("another one thinks again", unassign, "^another operator has changed the merchant's terms")
		is("it pays its merchant", "assigned mer_1/mer_1 mer_1")
		drained()
		keys.read = func() { e.want("between", drain+" --undo", "done") }
		e.want("before the terms are read", unassign, "^the wallet was assigned again meanwhile")
		is("it pays its merchant", "assigned mer_1/mer_1 mer_1")
		drained()
		beside(drain + " --undo")
		e.want("behind the terms", unassign, "changed since it was read")
		is("it pays its merchant", "assigned mer_1/mer_1 mer_1")
		drained()
		e.want("in the end", unassign, "done; remit wallet drain --undo W lets it pay for all")
		is("it is nobody's", "draining /")
		time.Sleep(time.Second)
		beside(assign + "mer_2")
		e.want("two operators, two merchants", assign+"mer_1", "changed since it was read")
		is("one has it", "assigned mer_2/mer_2 mer_2")
		e.own(1, wallet.Draining)
		e.want("a wallet that has never paid", "wallet assign U --yes --merchant mer_2", "done")
		if w := must.Get(e.tables.Wallet(t.Context(), e.id(1)))(t); w.Merchant != "mer_2" {
			t.Errorf("its record: %+v", w)
		}
	})
}
