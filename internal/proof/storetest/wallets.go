package storetest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
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
	{"an opened wallet is found as it was stored", func(c *check) {
		c.holdsWallet(c.open(wallet.Wallet{
			ID: c.walletID(), NextNonce: 1 << 62, Ceiling: 1<<62 + 64,
			Reservations: map[payment.ID]wallet.Reservation{"pay_a": {Nonce: 3, At: noon}},
			Balance:      token.Units(7), Gas: token.Amount{}, Paused: "foreign transaction", ClaimedUntil: noon.Add(time.Second),
		}))
	}},
	{"a wallet is opened once", func(c *check) {
		w := c.reserved(c.opened(), "pay_a")
		other := c.open(wallet.Wallet{ID: w.ID, NextNonce: 99, Ceiling: 100, Balance: token.Units(1)})
		c.holdsWallet(w)
		c.race(8, func(ctx context.Context, _ int) {
			if err := c.Open(ctx, other, usdc.Contract); err != nil {
				c.Errorf("opening: %v", err)
			}
		})
		c.holdsWallet(w)
	}},
	{"spendable amounts are held to 38 digits", func(c *check) {
		w := c.open(wallet.Wallet{
			ID: c.walletID(), NextNonce: 5, Ceiling: 9, Balance: token.MaxAmount(), Gas: token.MaxAmount(),
			Reservations: map[payment.ID]wallet.Reservation{},
		})
		most := must.Get(token.ParseAmount("99999999999999999999999999999999999999"))(c)
		w.Balance, w.Gas = most, most
		c.holdsWallet(w)
		c.reserved(w, "pay_a")
		c.ok("reconciling", c.Reconcile(c.Context(), wallet.Wallet{ID: w.ID, NextNonce: 6}, token.MaxAmount(), token.MaxAmount(), nil, nil))
		if stored := c.wallet(w.ID); stored.Balance != most || stored.Gas != most {
			c.Errorf("token %s, gas %s", stored.Balance, stored.Gas)
		}
	}},
	{"what a round saw of a wallet comes with its claim or its balances, and stays until a round has seen more", func(c *check) {
		w := c.opened()
		claim := func(by string, after time.Duration, held bool, seen *wallet.Progress) {
			c.Helper()
			got, err := c.Claim(c.Context(), w.ID, by, noon.Add(after), noon.Add(after+time.Second), seen)
			if c.ok("claiming", err); got != held {
				c.Errorf("%s holds the claim: %t", by, got)
			}
			if held {
				w.ClaimedUntil = noon.Add(after + time.Second)
			}
			c.holdsWallet(w)
		}
		first := wallet.Progress{Mined: 7, Paid: []uint64{3, 5}, Sent: 8, Waits: payment.WaitingForFees}
		claim("a", 0, true, nil)
		w.Progress = first
		claim("a", 0, true, &first)
		claim("b", 0, false, &wallet.Progress{Sent: 99})
		claim("b", time.Minute, true, nil)
		c.ok("reconciling", c.Reconcile(c.Context(), w, w.Balance, w.Gas, nil, nil))
		c.holdsWallet(w)
		w.Progress = wallet.Progress{Mined: 6}
		c.ok("reconciling", c.Reconcile(c.Context(), w, w.Balance, w.Gas, map[string]uint64{"mer_a": 1}, &w.Progress))
		w.PerMerchant = map[string]uint64{"mer_a": 1}
		c.holdsWallet(w)
		c.refused("reconciling too late", c.Reconcile(c.Context(), wallet.Wallet{ID: w.ID}, w.Balance, w.Gas, nil, &first), store.ErrChanged)
		w = c.reserved(w, "pay_a")
		c.holdsWallet(w)
		w.Progress = wallet.Progress{}
		claim("b", time.Minute, true, &wallet.Progress{})
	}},
	{"an unknown wallet is not found, changed or made", func(c *check) {
		id := c.walletID()
		for name, err := range map[string]error{
			"RaiseCeiling": c.RaiseCeiling(c.Context(), id, 5),
			"LowerCeiling": c.LowerCeiling(c.Context(), id, 5),
			"Return":       c.Return(c.Context(), wallet.Need{Wallet: id, Payment: "pay_a"}, 0),
			"Orphan":       c.Orphan(c.Context(), id, "pay_a", 0),
			"Reconcile":    c.Reconcile(c.Context(), wallet.Wallet{ID: id}, token.Units(1), token.Units(1), nil, nil),
			"Advance":      c.Advance(c.Context(), id, 5, 6),
			"Pause":        c.Pause(c.Context(), id, "because"),
			"Repause":      c.Repause(c.Context(), id, "", "because"),
		} {
			c.refused(name, err, wallet.ErrUnknown)
		}
		held, err := c.Claim(c.Context(), id, "run", noon, noon.Add(time.Second), nil)
		c.refused("Claim", err, wallet.ErrUnknown)
		if held {
			c.Error("an unknown wallet is claimed")
		}
		for _, amount := range []token.Amount{token.Units(1), token.MaxAmount()} {
			_, err := c.Reserve(c.Context(), wallet.Need{Wallet: id, Payment: "pay_a", Amount: amount})
			c.refused("Reserve", err, wallet.ErrUnknown)
		}
		c.ok("Release", c.Release(c.Context(), "pay_a", noop(id, 0)))
		c.noWallet(id)
	}},
	{"the list of wallets has every wallet of a chain, by address", func(c *check) {
		chainID := binary.BigEndian.Uint64([]byte(c.merchant[4:])) // of this check alone
		c.registers(chainID, nil)
		var want wallet.Registry
		for range 5 {
			r := wallet.Registration{ID: wallet.ID{ChainID: chainID, Address: c.walletID().Address}, Token: usdc.Contract,
				State: wallet.Active, Key: "arn:aws:kms:1", Since: noon}
			want = append(want, r)
			for _, since := range []time.Time{noon, noon.Add(1)} { // the second time it is registered already
				r.Since = since
				c.ok("registering", c.Register(c.Context(), r))
			}
			r.Token = token.Address{1}
			c.refused("registering for another token", c.Register(c.Context(), r), store.ErrOtherRail)
		}
		for _, id := range []wallet.ID{want[0].ID, want[0].ID, {ChainID: chainID + 1, Address: want[1].Address}} {
			c.open(wallet.Wallet{ID: id})
		}
		want[0].Opened = true
		unregistered := c.open(wallet.Wallet{ID: wallet.ID{ChainID: chainID, Address: c.walletID().Address}})
		want = append(want, wallet.Registration{ID: unregistered.ID, Token: usdc.Contract, State: wallet.Draining,
			Key: wallet.InSecret, Opened: true})
		c.registers(chainID, want)
	}},
	{"a registration moves only from the state that the caller names", func(c *check) {
		r := wallet.Registration{ID: c.walletID(), Token: usdc.Contract, State: wallet.Active, Key: wallet.InSecret, Since: noon}
		r.ChainID = binary.BigEndian.Uint64([]byte(c.merchant[4:])) // of this check alone
		c.refused("unknown", c.SetState(c.Context(), r.ID, wallet.Active, wallet.Draining, noon), wallet.ErrUnknown)
		c.ok("registering", c.Register(c.Context(), r))
		for n, step := range []struct {
			from, to, is wallet.State
			want         error
		}{
			{wallet.Draining, wallet.Retired, wallet.Active, store.ErrChanged},
			{wallet.Active, wallet.Draining, wallet.Draining, nil},
			{wallet.Active, wallet.Draining, wallet.Draining, nil}, // again: the first answer may have been lost
			{wallet.Draining, wallet.Active, wallet.Active, nil},
			{wallet.Active, wallet.Funding, wallet.Funding, nil},
			{wallet.Funding, wallet.Active, wallet.Active, nil},
		} {
			at := noon.Add(time.Duration(n) * time.Second)
			if err := c.SetState(c.Context(), r.ID, step.from, step.to, at); !errors.Is(err, step.want) {
				c.Errorf("from %s to %s: %v", step.from, step.to, err)
			}
			if r.State != step.is {
				r.State, r.Since = step.is, at
			}
			c.registers(r.ChainID, wallet.Registry{r})
		}
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
	{"what runs learned of a chain is found as it was stored last, by a run that had read it", func(c *check) {
		chainID := binary.BigEndian.Uint64([]byte(c.merchant[4:])) // of this check alone
		final := chain.Block{Number: 1 << 40, Hash: chain.Hash{1, 31: 2}}
		for n, want := range []store.Comparison{{}, {At: noon.Add(1)},
			{At: noon, Final: final, Seen: noon.Add(2), Ran: noon.Add(4), Since: noon.Add(5), Abreast: noon.Add(6),
				Silent: map[string]time.Time{"node.example:8545": noon.Add(3)}},
			{Final: chain.Block{Hash: final.Hash}}, {}} {
			want.Revision = uint64(n)
			if n > 0 {
				read := want
				read.Revision = uint64(n - 1)
				c.ok("storing", c.SetCompared(c.Context(), rail(chainID), read))
				c.refused("storing again", c.SetCompared(c.Context(), rail(chainID), read), store.ErrChanged)
			}
			got := must.Get(c.Compared(c.Context(), rail(chainID)))(c)
			c.same("comparison", want, got)
			for _, other := range []token.Coin{rail(chainID + 1), {ChainID: chainID, Contract: token.Address{1}}} {
				c.same("another rail's", store.Comparison{}, must.Get(c.Compared(c.Context(), other))(c))
			}
		}
		c.registers(chainID, nil)
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
	{"racing claims are held by one run", func(c *check) {
		w := c.opened()
		c.winner(8, errOthers, func(ctx context.Context, i int) error {
			return othersUnless(c.Claim(ctx, w.ID, fmt.Sprint("run ", i), noon, noon.Add(time.Second), nil))
		})
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
	{"an advance raises the next nonce and says how far no-ops may reach", func(c *check) {
		w := c.reserved(c.opened(), "pay_a")
		for _, step := range []struct{ to, noops, want, wantNoops uint64 }{{9, 0, 9, 0}, {9, 20, 9, 20}, {3, 30, 9, 20}} {
			c.ok("advancing", c.Advance(c.Context(), w.ID, step.to, step.noops))
			w.NextNonce, w.NoopsBelow = step.want, step.wantNoops
			c.holdsWallet(w)
		}
		if w = c.reserved(w, "pay_b"); w.Reservations["pay_b"].Nonce != 9 || w.Reservations["pay_a"].Nonce != 5 {
			c.Errorf("reservations after an advance: %v", w.Reservations)
		}
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
