package httpapi_test

import (
	"cmp"
	"errors"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// TestWallets: GET /wallets shows the wallets of the asking merchant alone, with what is promised of their balance.
func TestWallets(t *testing.T) {
	a := newAPI(t)
	get := func(want string) { t.Helper(); a.get("/wallets").want(t, 200, "="+want) }
	id := wallet.ID{ChainID: 84532, Address: token.Address{0x77}}
	row := func(amounts, status string) string {
		return `{"data":[{"address":"` + id.Address.String() + `","asset":"` + a.assets[0].Coin().String() + `",` + amounts +
			`,"status":"` + status + `"}]}`
	}
	full := `"balance":2500000,"balance_text":"2500000","spendable":2500000,"spendable_text":"2500000"`
	of := func(r wallet.ID, merchant string, state wallet.State) error {
		return a.payments.Register(t.Context(), wallet.Registration{ID: r, Token: asset.Contract, State: state,
			Key: wallet.InSecret, Merchant: merchant})
	}
	must.OK(t, of(wallet.ID{ChainID: 84532, Address: token.Address{1}}, "", wallet.Active))
	must.OK(t, of(wallet.ID{ChainID: 84532, Address: token.Address{2}}, "mer_other", wallet.Assigned))
	get(`{"data":[]}`)
	must.OK(t, of(id, a.merchant, wallet.Assigned))
	get(row(full, "active"))
	must.OK(t, a.payments.Open(t.Context(), wallet.Wallet{ID: id, Merchant: a.merchant, NextNonce: 1, Ceiling: 9, Balance: token.Units(9),
		Reservations: map[payment.ID]wallet.Reservation{}}, asset.Contract))
	a.node.account.Mined = 1
	of5 := payment.Request{Merchant: a.merchant, Mode: "test", To: token.Address{9}, Amount: token.Units(5)}
	p := payment.New("pay_a", of5, asset, "n", a.now).AssignedTo(id.Address, chain.Tx{ChainID: 84532})
	_, _, err := a.payments.Create(t.Context(), p)
	need := store.NeedOf(p, a.now)
	need.Owner = a.merchant
	must.OK(t, cmp.Or(err, must.Err(a.payments.Reserve(t.Context(), need))))
	get(row(strings.ReplaceAll(full, `"spendable":2500000,"spendable_text":"2500000"`, `"spendable":2499995,"spendable_text":"2499995"`), "active"))
	a.node.account.Mined = 2
	get(row(full, "active"))
	must.OK(t, a.payments.Pause(t.Context(), id, "audit"))
	get(row(full, "paused"))
	must.OK(t, a.payments.Repause(t.Context(), id, "audit", ""))
	must.OK(t, a.payments.SetState(t.Context(), id, wallet.Assigned, wallet.Draining, a.now))
	a.node.err = errors.New("silent")
	get(row(`"balance":null,"balance_text":null,"spendable":null,"spendable_text":null`, "paused"))
}
