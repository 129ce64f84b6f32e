package storetest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// registers checks the registrations of a chain, which may be in any order.
func (c *check) registers(chainID uint64, want wallet.Registry) {
	c.Helper()
	slices.SortFunc(want, func(a, b wallet.Registration) int { return bytes.Compare(a.Address[:], b.Address[:]) })
	got := must.Get(c.Wallets(c.Context(), rail(chainID)))(c)
	c.same("registry", want, got)
}

var walletPromises = []promise[*check]{
	{"a damaged registration hides no other", func(c *check) {
		id := c.walletID()
		id.ChainID = binary.BigEndian.Uint64(id.Address[:]) // the registry is of these two alone
		other := wallet.Registration{ID: wallet.ID{ChainID: id.ChainID, Address: token.Address{0xee}}, Token: usdc.Contract,
			State: wallet.Active, Key: wallet.InSecret, Since: noon}
		damaged := wallet.Registration{ID: id, Token: usdc.Contract, State: wallet.Active, Key: "a key", Since: noon}
		c.ok("registering", errors.Join(c.Register(c.Context(), other), c.Register(c.Context(), damaged)))
		c.SpoilRegistration(id)
		damaged = wallet.Registration{ID: id, Token: usdc.Contract, State: wallet.Damaged, Key: "a key", Opened: true}
		c.registers(id.ChainID, wallet.Registry{other, damaged})
	}},
	{"a damaged record tells its nonces and gives none", func(c *check) {
		w := c.reserved(c.opened(), "pay_a")
		c.SpoilWallet(w.ID)
		got := c.wallet(w.ID)
		if got.Damaged == "" || got.NextNonce != w.NextNonce || got.Balance != w.Balance || !got.Gas.IsZero() {
			c.Errorf("%+v", got)
		}
		c.same("reservations", w.Reservations, got.Reservations)
		need := wallet.Need{Wallet: w.ID, Payment: "pay_b", At: noon}
		if _, err := c.Reserve(c.Context(), need); !errors.Is(err, wallet.ErrPaused) {
			c.Errorf("reserving: %v", err)
		}
		c.ok("reconciling", c.Reconcile(c.Context(), w, token.Units(7), token.Units(8), nil, nil))
		w.Balance, w.Gas = token.Units(7), token.Units(8)
		c.holdsWallet(w)
	}},
	{"a wallet is retired once it is draining, holds no reservation, and has neither given out a nonce nor been paused since", func(c *check) {
		w := c.open(wallet.Wallet{ID: c.walletID(), NextNonce: 5, Ceiling: 9, Balance: token.Units(100),
			Gas: token.Units(100), Reservations: map[payment.ID]wallet.Reservation{}})
		reason := "" // as it was read
		retire := func(next uint64, want error) {
			if err := c.Retire(c.Context(), wallet.Wallet{ID: w.ID, NextNonce: next, Paused: reason}, noon); !errors.Is(err, want) {
				c.Errorf("retiring at %d: %v, want %v", next, err, want)
			}
			c.holdsWallet(w)
		}
		c.ok("undoing", c.SetState(c.Context(), w.ID, wallet.Draining, wallet.Active, noon))
		retire(5, store.ErrChanged)
		c.ok("draining", c.SetState(c.Context(), w.ID, wallet.Active, wallet.Draining, noon))
		w = c.reserved(w, "pay_a")
		retire(5, store.ErrChanged)
		retire(6, store.ErrChanged)
		c.ok("releasing", c.Release(c.Context(), "pay_a", wallet.PendingTx{ID: w.ID, Nonce: 5}))
		w.Reservations = map[payment.ID]wallet.Reservation{}
		retire(5, store.ErrChanged)
		c.ok("pausing", c.Pause(c.Context(), w.ID, "by hand"))
		w.Paused = "by hand"
		retire(6, store.ErrChanged)
		reason, w.Paused = w.Paused, wallet.RetiredReason
		retire(6, nil)
		retire(6, nil) // again: the first answer may have been lost
		c.refused("reserving", must.Err(c.Reserve(c.Context(), need(w, "pay_b"))), wallet.ErrPaused)
		c.refused("draining", c.SetState(c.Context(), w.ID, wallet.Active, wallet.Draining, noon), store.ErrChanged)
		if err := c.Retire(c.Context(), wallet.Wallet{ID: c.walletID()}, noon); !errors.Is(err, wallet.ErrUnknown) {
			c.Errorf("retiring an unknown wallet: %v", err)
		}
	}},
	{"a wallet is assigned and taken back while it is draining, and then pays its merchant's payments alone", func(c *check) {
		id := c.walletID()
		id.ChainID = binary.BigEndian.Uint64([]byte(c.merchant[4:])) // of this check alone
		w := c.open(wallet.Wallet{ID: id, NextNonce: 5, Ceiling: 99, Balance: token.Units(100), Gas: token.Units(100),
			Reservations: map[payment.ID]wallet.Reservation{}})
		r := wallet.Registration{ID: w.ID, Token: usdc.Contract, State: wallet.Draining, Key: wallet.InSecret, Since: noon, Opened: true}
		read := w
		assign := func(to string, want error) {
			c.Helper()
			if err := c.Assign(c.Context(), read, to, noon); !errors.Is(err, want) {
				c.Errorf("assigning to %q: %v, want %v", to, err, want)
			}
		}
		reserve := func(id payment.ID, owner string, want error) {
			c.Helper()
			n := need(w, id)
			n.Owner = owner
			got, err := c.Reserve(c.Context(), n)
			if !errors.Is(err, want) {
				c.Errorf("reserving for %q: %v, want %v", owner, err, want)
			}
			if w = got; want == nil {
				c.ok("releasing", c.Release(c.Context(), id, wallet.PendingTx{ID: w.ID, Nonce: w.Reservations[id].Nonce}))
				w.Reservations = map[payment.ID]wallet.Reservation{}
			}
			c.holdsWallet(w)
		}
		c.ok("undoing", c.SetState(c.Context(), w.ID, wallet.Draining, wallet.Active, noon))
		assign("mer_a", store.ErrChanged)
		c.ok("draining", c.SetState(c.Context(), w.ID, wallet.Active, wallet.Draining, noon))
		c.refused("assigned by its state alone", c.SetState(c.Context(), w.ID, wallet.Draining, wallet.Assigned, noon), store.ErrChanged)
		reserve("pay_a", "mer_a", wallet.ErrOwner)
		reserve("pay_a", "", nil)
		assign("mer_a", store.ErrChanged) // a nonce was given out since
		read = w
		read.Paused = "before"
		assign("mer_a", store.ErrChanged)
		read = w
		assign("mer_a", nil)
		w.Merchant, r.Merchant, r.State = "mer_a", "mer_a", wallet.Assigned
		c.registers(w.ChainID, wallet.Registry{r})
		c.ok("assigning again", c.Assign(c.Context(), read, "mer_a", noon)) // the first answer may have been lost
		c.registers(w.ChainID, wallet.Registry{r})
		reserve("pay_b", "", wallet.ErrOwner)
		reserve("pay_b", "mer_b", wallet.ErrOwner)
		reserve("pay_b", "mer_a", nil)
		reserve("pay_c", wallet.Anyone, nil)
		for _, to := range []wallet.State{wallet.Active, wallet.Funding} {
			c.refused("common by its state alone", c.SetState(c.Context(), w.ID, wallet.Assigned, to, noon), store.ErrChanged)
		}
		read = w
		assign("", store.ErrChanged)
		c.ok("draining", c.SetState(c.Context(), w.ID, wallet.Assigned, wallet.Draining, noon))
		n := need(w, "pay_d")
		n.Owner = "mer_a"
		held := must.Get(c.Reserve(c.Context(), n))(c)
		read = held
		assign("", store.ErrChanged) // it holds a reservation
		c.ok("releasing", c.Release(c.Context(), "pay_d", wallet.PendingTx{ID: w.ID, Nonce: held.Reservations["pay_d"].Nonce}))
		read.Merchant = "mer_b"
		assign("", store.ErrChanged)
		read.Merchant = "mer_a"
		assign("", nil)
		r.Merchant, r.State = "", wallet.Draining
		c.registers(w.ChainID, wallet.Registry{r})
		c.ok("taking back again", c.Assign(c.Context(), read, "", noon))
		w = c.wallet(w.ID)
		reserve("pay_e", "mer_a", wallet.ErrOwner)
		reserve("pay_e", "", nil)

		made := wallet.Registration{ID: wallet.ID{ChainID: w.ChainID, Address: c.walletID().Address}, Token: usdc.Contract,
			State: wallet.Assigned, Key: wallet.InSecret, Since: noon, Merchant: "mer_b"}
		c.ok("registering", c.Register(c.Context(), made))
		c.registers(w.ChainID, wallet.Registry{r, made})
		c.refused("opening as a common wallet", c.Open(c.Context(), wallet.Wallet{ID: made.ID}, usdc.Contract), store.ErrChanged)
		c.noWallet(made.ID)
		c.holdsWallet(c.open(wallet.Wallet{ID: made.ID, Merchant: "mer_b", Reservations: map[payment.ID]wallet.Reservation{}}))
		c.refused("unknown", c.Assign(c.Context(), wallet.Wallet{ID: c.walletID()}, "mer_a", noon), wallet.ErrUnknown)
	}},
	{"a wallet is claimed by one run until its claim ends", func(c *check) {
		w := c.opened()
		for _, row := range []struct {
			what       string
			by         string
			now, until time.Duration
			held       bool
			after      time.Duration
		}{
			{"no run claims it", "one", 0, 5 * time.Second, true, 5 * time.Second},
			{"another run's claim lasts", "two", time.Second, 9 * time.Second, false, 5 * time.Second},
			{"its own claim lasts", "one", 2 * time.Second, 7 * time.Second, true, 7 * time.Second},
			{"another run's claim lasts a nanosecond more", "two", 7*time.Second - 1, 9 * time.Second, false, 7 * time.Second},
			{"another run's claim ends now", "two", 7 * time.Second, 12 * time.Second, true, 12 * time.Second},
			{"it gives its claim up", "two", 8 * time.Second, 8 * time.Second, true, 8 * time.Second},
			{"the claim was given up", "one", 8 * time.Second, 9 * time.Second, true, 9 * time.Second},
		} {
			held, err := c.Claim(c.Context(), w.ID, row.by, noon.Add(row.now), noon.Add(row.until), nil)
			c.ok(row.what, err)
			if held != row.held {
				c.Errorf("%s: held = %v", row.what, held)
			}
			w.ClaimedUntil = noon.Add(row.after)
			c.holdsWallet(w)
		}
	}},
	{"spendable amounts are stored unless a reservation was taken meanwhile", func(c *check) {
		w := c.opened()
		c.ok("reconciling", c.Reconcile(c.Context(), w, token.Units(70), token.Amount{}, nil, nil))
		w.Balance, w.Gas = token.Units(70), token.Amount{}
		c.holdsWallet(w)
		c.ok("reconciling again", c.Reconcile(c.Context(), w, token.Units(80), token.Units(90), nil, nil))
		before := w
		w = c.reserved(w, "pay_a")
		later := w
		later.NextNonce++
		c.refused("reconciling too late", c.Reconcile(c.Context(), before, token.Units(1), token.Units(1), nil, nil), store.ErrChanged)
		c.refused("reconciling too early", c.Reconcile(c.Context(), later, token.Units(1), token.Units(1), nil, nil), store.ErrChanged)
		c.holdsWallet(w)
		for range 2 {
			c.ok("returning", c.Return(c.Context(), need(w, "pay_a"), 5))
			again := c.reserved(w, "pay_a")
			c.refused("reconciling after a return", c.Reconcile(c.Context(), w, token.Units(1), token.Units(1), nil, nil), store.ErrChanged)
			w = again
		}
		w.Balance, w.Gas = token.Units(1), token.Units(2)
		c.ok("reconciling after returns", c.Reconcile(c.Context(), w, w.Balance, w.Gas, nil, nil))
		c.holdsWallet(w)
	}},
	{"a paused wallet gives no reservation until it is resumed", func(c *check) {
		w := c.opened()
		for _, reason := range []string{"low on gas", "low on gas", "foreign transaction"} {
			c.ok("pausing", c.Pause(c.Context(), w.ID, reason))
			w.Paused = reason
			c.holdsWallet(w)
		}
		got, err := c.Reserve(c.Context(), need(w, "pay_a"))
		c.refused("reserving", err, wallet.ErrPaused)
		c.same("paused wallet", w, got)
		w.Paused = ""
		for range 2 { // the second call finds it not paused
			c.ok("resuming", c.Repause(c.Context(), w.ID, "foreign transaction", ""))
			c.holdsWallet(w)
		}
		for _, step := range []struct {
			from, to string
			want     error
		}{
			{"by hand", "", nil}, // it is not paused
			{"", "low on gas", nil},
			{"", "low on gas", nil}, // again: the first answer may have been lost
			{"", "other", store.ErrChanged},
			{"by hand", "", store.ErrChanged}, // an operator's pause is not ended by mistake
			{"low on gas", "by hand", nil},
			{"low on gas", "", store.ErrChanged},
			{"by hand", "", nil},
			{"by hand", "", nil},
		} {
			err := c.Repause(c.Context(), w.ID, step.from, step.to)
			if step.want != nil {
				c.refused("pausing again", err, step.want)
			} else {
				c.ok("pausing again", err)
				w.Paused = step.to
			}
			c.holdsWallet(w)
		}
		c.reserved(w, "pay_a")
		c.ok("pausing without a reason", c.Pause(c.Context(), w.ID, ""))
		c.refused("reserving", must.Err(c.Reserve(c.Context(), need(w, "pay_b"))), wallet.ErrPaused)
	}},
}
