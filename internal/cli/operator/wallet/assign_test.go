package wallet_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

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

// TestAssign: a command is killed between its writes, or another operator comes between: the merchant is never on the
// common wallets while one is its own, and the next command does the rest.
func TestAssign(t *testing.T) {
	onChain(t, devnet.Config{}, func(t *testing.T, e *embedded) {
		keys := &termsTable{APIKeys: new(memory.APIKeys)}
		e.Tables.Keys = keys
		for i, merchant := range []string{"mer_1", "mer_2"} {
			must.OK(t, keys.Create(t.Context(), apikey.Key{Hash: apikey.Hash{byte(i)}, MerchantID: merchant}))
		}
		must.OK(t, e.settle(t.Context()))
		is := func() string { // the registration, the record's merchant, and who pays from its own wallets
			r, _ := must.Get(e.tables.Wallets(t.Context(), e.Config.Coin()))(t).Find(e.wallets[0])
			got := fmt.Sprintf("%s %s/%s", r.State, r.Merchant, must.Get(e.tables.Wallet(e.ctx, r.ID))(t).Merchant)
			for _, merchant := range []string{"mer_1", "mer_2"} {
				if must.Get(keys.Terms(t.Context(), merchant))(t).Own != "" {
					got += " " + merchant
				}
			}
			return got
		}
		between := func(line string) { e.want("another operator", line, "done") }
		const assign, undo = "wallet assign W --yes --merchant mer_2", "wallet drain W --yes --undo"
		beside := func(line string) func() { // before the wallet is assigned
			return func() {
				e.around = func(ctx context.Context, c interpose.Call, apply func(context.Context)) error {
					if c.Op == "Assign" {
						e.mend()
						between(line)
					}
					apply(ctx)
					return nil
				}
			}
		}
		down := errors.New("keys are down")
		e.play(map[string]func(){
			"keys are down":       func() { keys.next = func(func() error) error { return down } },
			"keys lose an answer": func() { keys.next = func(apply func() error) error { return errors.Join(apply(), down) } },
			"undone before the terms are set": func() {
				keys.next = func(apply func() error) error { between(undo); return apply() }
			},
			"undone before the terms are read": func() { keys.read = func() { between(undo) } },
			"undone behind the terms":          beside(undo),
			"given to mer_2":                   beside(assign),
			"U drains":                         func() { e.own(1, wallet.Draining) },
		}, is)
		if w := must.Get(e.tables.Wallet(t.Context(), e.id(1)))(t); w.Merchant != "mer_2" {
			t.Errorf("its record: %+v", w)
		}
	})
}
