package interpose

import (
	"context"
	"fmt"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// A Store passes every call of the embedded store but List and Entries through
// Around. No decision about money reads these.
type Store struct {
	store.Store
	Around Around
}

var _ store.Store = (*Store)(nil)

// run makes a call without an answer but its error.
func (s *Store) run(ctx context.Context, op, args string, do func(context.Context) error) error {
	_, err := ask(ctx, s.Around, op, args, func(ctx context.Context) (struct{}, error) { return struct{}{}, do(ctx) })
	return err
}

// at names a nonce of a wallet: "0001#7".
func at(id wallet.ID, nonce uint64) string { return fmt.Sprintf("%v#%d", short(id.Address), nonce) }

// short names an address by its last bytes.
func short(a token.Address) string { return fmt.Sprintf("%x", a[18:]) }

// Create implements store.Payments.
func (s *Store) Create(ctx context.Context, p payment.Payment) (payment.Payment, bool, error) {
	r, err := ask(ctx, s.Around, "Create", string(p.ID), func(ctx context.Context) (two[payment.Payment, bool], error) {
		stored, created, err := s.Store.Create(ctx, p)
		return two[payment.Payment, bool]{stored, created}, err
	})
	return r.a, r.b, err
}

// Payment implements store.Payments.
func (s *Store) Payment(ctx context.Context, id payment.ID) (payment.Payment, error) {
	return ask(ctx, s.Around, "Payment", string(id), func(ctx context.Context) (payment.Payment, error) { return s.Store.Payment(ctx, id) })
}

// PaymentByHash implements store.Payments.
func (s *Store) PaymentByHash(ctx context.Context, h chain.Hash) (payment.Payment, error) {
	return ask(ctx, s.Around, "PaymentByHash", h.String(),
		func(ctx context.Context) (payment.Payment, error) { return s.Store.PaymentByHash(ctx, h) })
}

// Reassign implements store.Payments.
func (s *Store) Reassign(ctx context.Context, p payment.Payment, old string) error {
	return s.run(ctx, "Reassign", string(p.ID)+" to "+short(p.Wallet),
		func(ctx context.Context) error { return s.Store.Reassign(ctx, p, old) })
}

// Discard implements store.Payments.
func (s *Store) Discard(ctx context.Context, p payment.Payment) error {
	return s.run(ctx, "Discard", string(p.ID), func(ctx context.Context) error { return s.Store.Discard(ctx, p) })
}

// Adopt implements store.Payments.
func (s *Store) Adopt(ctx context.Context, p payment.Payment) error {
	return s.run(ctx, "Adopt", string(p.ID), func(ctx context.Context) error { return s.Store.Adopt(ctx, p) })
}

// Redact implements store.Payments.
func (s *Store) Redact(ctx context.Context, p payment.Payment) error {
	return s.run(ctx, "Redact", string(p.ID), func(ctx context.Context) error { return s.Store.Redact(ctx, p) })
}

// SetMined implements store.Payments.
func (s *Store) SetMined(ctx context.Context, id payment.ID, at time.Time) (payment.Payment, error) {
	return ask(ctx, s.Around, "SetMined", string(id),
		func(ctx context.Context) (payment.Payment, error) { return s.Store.SetMined(ctx, id, at) })
}

// Finish implements store.Payments.
func (s *Store) Finish(ctx context.Context, p payment.Payment) error {
	return s.run(ctx, "Finish", string(p.ID)+" "+string(p.State), func(ctx context.Context) error { return s.Store.Finish(ctx, p) })
}

// Charge implements store.DailyLimits.
func (s *Store) Charge(ctx context.Context, c store.Charge) error {
	return s.run(ctx, "Charge", c.Amount.String(), func(ctx context.Context) error { return s.Store.Charge(ctx, c) })
}

// Refund implements store.DailyLimits.
func (s *Store) Refund(ctx context.Context, c store.Charge) error {
	return s.run(ctx, "Refund", c.Amount.String(), func(ctx context.Context) error { return s.Store.Refund(ctx, c) })
}

// Reserve implements store.Nonces.
func (s *Store) Reserve(ctx context.Context, n wallet.Need) (wallet.Wallet, error) {
	return ask(ctx, s.Around, "Reserve", string(n.Payment)+" of "+short(n.Wallet.Address),
		func(ctx context.Context) (wallet.Wallet, error) { return s.Store.Reserve(ctx, n) })
}

// Release implements store.Nonces.
func (s *Store) Release(ctx context.Context, id payment.ID, tx wallet.PendingTx) error {
	return s.run(ctx, "Release", string(id)+" "+at(tx.ID, tx.Nonce), func(ctx context.Context) error { return s.Store.Release(ctx, id, tx) })
}

// Return implements store.Nonces.
func (s *Store) Return(ctx context.Context, n wallet.Need, nonce uint64) error {
	return s.run(ctx, "Return", string(n.Payment)+" "+at(n.Wallet, nonce),
		func(ctx context.Context) error { return s.Store.Return(ctx, n, nonce) })
}

// Orphan implements store.Nonces.
func (s *Store) Orphan(ctx context.Context, id wallet.ID, holder payment.ID, nonce uint64) error {
	return s.run(ctx, "Orphan", string(holder)+" "+at(id, nonce),
		func(ctx context.Context) error { return s.Store.Orphan(ctx, id, holder, nonce) })
}

// RaiseCeiling implements store.Nonces.
func (s *Store) RaiseCeiling(ctx context.Context, id wallet.ID, ceiling uint64) error {
	return s.run(ctx, "RaiseCeiling", at(id, ceiling), func(ctx context.Context) error { return s.Store.RaiseCeiling(ctx, id, ceiling) })
}

// LowerCeiling implements store.Nonces.
func (s *Store) LowerCeiling(ctx context.Context, id wallet.ID, ceiling uint64) error {
	return s.run(ctx, "LowerCeiling", at(id, ceiling), func(ctx context.Context) error { return s.Store.LowerCeiling(ctx, id, ceiling) })
}

// Bind implements store.Settings.
func (s *Store) Bind(ctx context.Context, c store.Coin, at time.Time) error {
	return s.run(ctx, "Bind", "", func(ctx context.Context) error { return s.Store.Bind(ctx, c, at) })
}

// Commit implements store.PendingTxs.
func (s *Store) Commit(ctx context.Context, p payment.Payment) error {
	return s.run(ctx, "Commit", string(p.ID)+" "+at(wallet.ID{Address: p.Wallet}, p.Nonce),
		func(ctx context.Context) error { return s.Store.Commit(ctx, p) })
}

// AddAttempt implements store.PendingTxs.
func (s *Store) AddAttempt(ctx context.Context, p payment.Payment) error {
	return s.run(ctx, "AddAttempt", fmt.Sprint(p.ID, " ", len(p.Attempts)),
		func(ctx context.Context) error { return s.Store.AddAttempt(ctx, p) })
}

// PutNoop implements store.PendingTxs.
func (s *Store) PutNoop(ctx context.Context, tx wallet.PendingTx) error {
	return s.run(ctx, "PutNoop", at(tx.ID, tx.Nonce), func(ctx context.Context) error { return s.Store.PutNoop(ctx, tx) })
}

// BumpNoop implements store.PendingTxs.
func (s *Store) BumpNoop(ctx context.Context, tx wallet.PendingTx) error {
	return s.run(ctx, "BumpNoop", at(tx.ID, tx.Nonce), func(ctx context.Context) error { return s.Store.BumpNoop(ctx, tx) })
}

// PendingTxs implements store.PendingTxs.
func (s *Store) PendingTxs(ctx context.Context, id wallet.ID, from uint64) ([]wallet.PendingTx, int, error) {
	r, err := ask(ctx, s.Around, "PendingTxs", at(id, from), func(ctx context.Context) (two[[]wallet.PendingTx, int], error) {
		txs, unreadable, err := s.Store.PendingTxs(ctx, id, from)
		return two[[]wallet.PendingTx, int]{txs, unreadable}, err
	})
	return r.a, r.b, err
}

// PendingTx implements store.PendingTxs.
func (s *Store) PendingTx(ctx context.Context, id wallet.ID, nonce uint64) (wallet.PendingTx, error) {
	return ask(ctx, s.Around, "PendingTx", at(id, nonce),
		func(ctx context.Context) (wallet.PendingTx, error) { return s.Store.PendingTx(ctx, id, nonce) })
}

// DeletePendingTx implements store.PendingTxs.
func (s *Store) DeletePendingTx(ctx context.Context, id wallet.ID, nonce uint64) error {
	return s.run(ctx, "DeletePendingTx", at(id, nonce), func(ctx context.Context) error { return s.Store.DeletePendingTx(ctx, id, nonce) })
}

// Register implements store.Wallets.
func (s *Store) Register(ctx context.Context, r wallet.Registration) error {
	return s.run(ctx, "Register", short(r.Address), func(ctx context.Context) error { return s.Store.Register(ctx, r) })
}

// SetState implements store.Wallets.
func (s *Store) SetState(ctx context.Context, id wallet.ID, from, to wallet.State, at time.Time) error {
	return s.run(ctx, "SetState", short(id.Address)+" to "+string(to),
		func(ctx context.Context) error { return s.Store.SetState(ctx, id, from, to, at) })
}

// Retire implements store.Wallets.
func (s *Store) Retire(ctx context.Context, w wallet.Wallet, at time.Time) error {
	return s.run(ctx, "Retire", short(w.Address), func(ctx context.Context) error { return s.Store.Retire(ctx, w, at) })
}

// Open implements store.Wallets.
func (s *Store) Open(ctx context.Context, w wallet.Wallet) error {
	return s.run(ctx, "Open", at(w.ID, w.NextNonce), func(ctx context.Context) error { return s.Store.Open(ctx, w) })
}

// Wallet implements store.Wallets.
func (s *Store) Wallet(ctx context.Context, id wallet.ID) (wallet.Wallet, error) {
	return ask(ctx, s.Around, "Wallet", short(id.Address), func(ctx context.Context) (wallet.Wallet, error) { return s.Store.Wallet(ctx, id) })
}

// Wallets implements store.Wallets.
func (s *Store) Wallets(ctx context.Context, chainID uint64) (wallet.Registry, error) {
	return ask(ctx, s.Around, "Wallets", "", func(ctx context.Context) (wallet.Registry, error) { return s.Store.Wallets(ctx, chainID) })
}

// Deny implements store.Denials.
func (s *Store) Deny(ctx context.Context, d store.Denial) error {
	return s.run(ctx, "Deny", short(d.To), func(ctx context.Context) error { return s.Store.Deny(ctx, d) })
}

// Allow implements store.Denials.
func (s *Store) Allow(ctx context.Context, to token.Address) error {
	return s.run(ctx, "Allow", short(to), func(ctx context.Context) error { return s.Store.Allow(ctx, to) })
}

// Rules implements store.Settings.
func (s *Store) Rules(ctx context.Context) (store.Rules, error) {
	return ask(ctx, s.Around, "Rules", "", func(ctx context.Context) (store.Rules, error) { return s.Store.Rules(ctx) })
}

// SetSettings implements store.Settings.
func (s *Store) SetSettings(ctx context.Context, v settings.Settings) error {
	return s.run(ctx, "SetSettings", fmt.Sprint(v.Version), func(ctx context.Context) error { return s.Store.SetSettings(ctx, v) })
}

// SettingsHistory implements store.Settings.
func (s *Store) SettingsHistory(ctx context.Context) ([]settings.Settings, error) {
	return ask(ctx, s.Around, "SettingsHistory", "",
		func(ctx context.Context) ([]settings.Settings, error) { return s.Store.SettingsHistory(ctx) })
}

// SetCompared implements store.Wallets.
func (s *Store) SetCompared(ctx context.Context, chainID uint64, c store.Comparison) error {
	return s.run(ctx, "SetCompared", "", func(ctx context.Context) error { return s.Store.SetCompared(ctx, chainID, c) })
}

// Compared implements store.Wallets.
func (s *Store) Compared(ctx context.Context, chainID uint64) (store.Comparison, error) {
	return ask(ctx, s.Around, "Compared", "", func(ctx context.Context) (store.Comparison, error) { return s.Store.Compared(ctx, chainID) })
}

// Claim implements store.Wallets.
func (s *Store) Claim(ctx context.Context, id wallet.ID, by string, now, until time.Time, seen *wallet.Progress) (bool, error) {
	return ask(ctx, s.Around, "Claim", short(id.Address),
		func(ctx context.Context) (bool, error) { return s.Store.Claim(ctx, id, by, now, until, seen) })
}

// Reconcile implements store.Wallets.
func (s *Store) Reconcile(ctx context.Context, w wallet.Wallet, balance, gas token.Amount, perMerchant map[string]uint64,
	seen *wallet.Progress) error {
	return s.run(ctx, "Reconcile", at(w.ID, w.NextNonce), func(ctx context.Context) error {
		return s.Store.Reconcile(ctx, w, balance, gas, perMerchant, seen)
	})
}

// Advance implements store.Wallets.
func (s *Store) Advance(ctx context.Context, id wallet.ID, next, noopsBelow uint64) error {
	return s.run(ctx, "Advance", at(id, next), func(ctx context.Context) error { return s.Store.Advance(ctx, id, next, noopsBelow) })
}

// Pause implements store.Wallets.
func (s *Store) Pause(ctx context.Context, id wallet.ID, reason string) error {
	return s.run(ctx, "Pause", short(id.Address), func(ctx context.Context) error { return s.Store.Pause(ctx, id, reason) })
}

// Repause implements store.Wallets.
func (s *Store) Repause(ctx context.Context, id wallet.ID, from, to string) error {
	return s.run(ctx, "Repause", short(id.Address)+" to "+to, func(ctx context.Context) error { return s.Store.Repause(ctx, id, from, to) })
}
