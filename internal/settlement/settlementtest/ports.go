package settlementtest

import (
	"context"
	"fmt"
	"time"

	"remit/internal/chain"
	"remit/internal/payment"
	"remit/internal/payment/paymenttest"
	"remit/internal/token"
	"remit/internal/wallet"
)

// tables are the World's store as handlers and runs reach it: every call is an
// effect.
type tables struct {
	desk *desk
	paymenttest.Ports
}

// reply is a call's answer of two values.
type reply[A, B any] struct {
	a A
	b B
}

func run(ctx context.Context, t *tables, op string, args any, do func(context.Context) error) error {
	_, err := effect(ctx, t.desk, op, fmt.Sprint(args), func(ctx context.Context) (struct{}, error) { return struct{}{}, do(ctx) })
	return err
}

func at(id wallet.ID, nonce uint64) string { return fmt.Sprintf("%v#%d", short(id.Address), nonce) }

// short names an address in traces: fake ones differ in their last bytes.
func short(a token.Address) string { return fmt.Sprintf("%x", a[18:]) }

func (t *tables) Create(ctx context.Context, p payment.Payment) (payment.Payment, bool, error) {
	r, err := effect(ctx, t.desk, "Create", string(p.ID), func(ctx context.Context) (reply[payment.Payment, bool], error) {
		stored, created, err := t.Ports.Create(ctx, p)
		return reply[payment.Payment, bool]{stored, created}, err
	})
	return r.a, r.b, err
}

func (t *tables) Payment(ctx context.Context, id payment.ID) (payment.Payment, error) {
	return effect(ctx, t.desk, "Payment", string(id), func(ctx context.Context) (payment.Payment, error) { return t.Ports.Payment(ctx, id) })
}

func (t *tables) PaymentByHash(ctx context.Context, h chain.Hash) (payment.Payment, error) {
	return effect(ctx, t.desk, "PaymentByHash", h.String(), func(ctx context.Context) (payment.Payment, error) { return t.Ports.PaymentByHash(ctx, h) })
}

func (t *tables) Reassign(ctx context.Context, p payment.Payment, old string) error {
	return run(ctx, t, "Reassign", string(p.ID)+" to "+short(p.Wallet), func(ctx context.Context) error { return t.Ports.Reassign(ctx, p, old) })
}

func (t *tables) Discard(ctx context.Context, p payment.Payment) error {
	return run(ctx, t, "Discard", p.ID, func(ctx context.Context) error { return t.Ports.Discard(ctx, p) })
}

func (t *tables) Finish(ctx context.Context, p payment.Payment) error {
	return run(ctx, t, "Finish", string(p.ID)+" "+string(p.State), func(ctx context.Context) error { return t.Ports.Finish(ctx, p) })
}

func (t *tables) Charge(ctx context.Context, merchant, mode string, amount, limit token.Amount, now time.Time) error {
	return run(ctx, t, "Charge", amount, func(ctx context.Context) error { return t.Ports.Charge(ctx, merchant, mode, amount, limit, now) })
}

func (t *tables) Refund(ctx context.Context, merchant, mode string, amount token.Amount, now time.Time) error {
	return run(ctx, t, "Refund", amount, func(ctx context.Context) error { return t.Ports.Refund(ctx, merchant, mode, amount, now) })
}

func (t *tables) Reserve(ctx context.Context, r wallet.Request) (wallet.Wallet, error) {
	return effect(ctx, t.desk, "Reserve", string(r.Payment)+" of "+short(r.Wallet.Address), func(ctx context.Context) (wallet.Wallet, error) { return t.Ports.Reserve(ctx, r) })
}

func (t *tables) Release(ctx context.Context, id payment.ID, pendingTx wallet.PendingTx) error {
	return run(ctx, t, "Release", string(id)+" "+at(pendingTx.ID, pendingTx.Nonce), func(ctx context.Context) error { return t.Ports.Release(ctx, id, pendingTx) })
}

func (t *tables) RaiseCeiling(ctx context.Context, id wallet.ID, ceiling uint64) error {
	return run(ctx, t, "RaiseCeiling", at(id, ceiling), func(ctx context.Context) error { return t.Ports.RaiseCeiling(ctx, id, ceiling) })
}

func (t *tables) Commit(ctx context.Context, p payment.Payment) error {
	return run(ctx, t, "Commit", string(p.ID)+" "+at(wallet.ID{Address: p.Wallet}, p.Nonce), func(ctx context.Context) error { return t.Ports.Commit(ctx, p) })
}

func (t *tables) AddAttempt(ctx context.Context, p payment.Payment) error {
	return run(ctx, t, "AddAttempt", fmt.Sprint(p.ID, " ", len(p.Attempts)), func(ctx context.Context) error { return t.Ports.AddAttempt(ctx, p) })
}

func (t *tables) PutNoop(ctx context.Context, s wallet.PendingTx) error {
	return run(ctx, t, "PutNoop", at(s.ID, s.Nonce), func(ctx context.Context) error { return t.Ports.PutNoop(ctx, s) })
}

func (t *tables) BumpNoop(ctx context.Context, s wallet.PendingTx) error {
	return run(ctx, t, "BumpNoop", at(s.ID, s.Nonce), func(ctx context.Context) error { return t.Ports.BumpNoop(ctx, s) })
}

func (t *tables) PendingTxs(ctx context.Context, id wallet.ID) ([]wallet.PendingTx, int, error) {
	r, err := effect(ctx, t.desk, "PendingTxs", short(id.Address), func(ctx context.Context) (reply[[]wallet.PendingTx, int], error) {
		pendingTxs, unreadable, err := t.Ports.PendingTxs(ctx, id)
		return reply[[]wallet.PendingTx, int]{pendingTxs, unreadable}, err
	})
	return r.a, r.b, err
}

func (t *tables) PendingTx(ctx context.Context, id wallet.ID, nonce uint64) (wallet.PendingTx, error) {
	return effect(ctx, t.desk, "PendingTx", at(id, nonce), func(ctx context.Context) (wallet.PendingTx, error) { return t.Ports.PendingTx(ctx, id, nonce) })
}

func (t *tables) DeletePendingTx(ctx context.Context, id wallet.ID, nonce uint64) error {
	return run(ctx, t, "DeletePendingTx", at(id, nonce), func(ctx context.Context) error { return t.Ports.DeletePendingTx(ctx, id, nonce) })
}

func (t *tables) Open(ctx context.Context, w wallet.Wallet) error {
	return run(ctx, t, "Open", at(w.ID, w.NextNonce), func(ctx context.Context) error { return t.Ports.Open(ctx, w) })
}

func (t *tables) Wallet(ctx context.Context, id wallet.ID) (wallet.Wallet, error) {
	return effect(ctx, t.desk, "Wallet", short(id.Address), func(ctx context.Context) (wallet.Wallet, error) { return t.Ports.Wallet(ctx, id) })
}

func (t *tables) Wallets(ctx context.Context, chainID uint64) ([]wallet.ID, error) {
	return effect(ctx, t.desk, "Wallets", "", func(ctx context.Context) ([]wallet.ID, error) { return t.Ports.Wallets(ctx, chainID) })
}

func (t *tables) Claim(ctx context.Context, id wallet.ID, by string, now, until time.Time) (bool, error) {
	return effect(ctx, t.desk, "Claim", short(id.Address), func(ctx context.Context) (bool, error) { return t.Ports.Claim(ctx, id, by, now, until) })
}

func (t *tables) Reconcile(ctx context.Context, id wallet.ID, next uint64, coin, gas token.Amount) error {
	return run(ctx, t, "Reconcile", at(id, next), func(ctx context.Context) error { return t.Ports.Reconcile(ctx, id, next, coin, gas) })
}

func (t *tables) Advance(ctx context.Context, id wallet.ID, next uint64, reason string) error {
	return run(ctx, t, "Advance", at(id, next), func(ctx context.Context) error { return t.Ports.Advance(ctx, id, next, reason) })
}

func (t *tables) Pause(ctx context.Context, id wallet.ID, reason string) error {
	return run(ctx, t, "Pause", short(id.Address), func(ctx context.Context) error { return t.Ports.Pause(ctx, id, reason) })
}

func (t *tables) Repause(ctx context.Context, id wallet.ID, from, to string) error {
	return run(ctx, t, "Repause", short(id.Address)+" to "+to, func(ctx context.Context) error { return t.Ports.Repause(ctx, id, from, to) })
}

// rpc is a Node as handlers and runs reach it: every request is an effect.
type rpc struct {
	desk  *desk
	node  *Node
	judge *judge
}

var _ chain.Node = rpc{}

func (r rpc) String() string { return r.node.name }

func (r rpc) Fees(ctx context.Context) (chain.Market, error) {
	return effect(ctx, r.desk, "Fees", r.node.name, r.node.Fees)
}

func (r rpc) Estimate(ctx context.Context, c chain.Call) (uint64, error) {
	return effect(ctx, r.desk, "Estimate", r.node.name, func(ctx context.Context) (uint64, error) { return r.node.Estimate(ctx, c) })
}

func (r rpc) Account(ctx context.Context, w, coin token.Address, f chain.ConfirmationRule) (chain.Account, error) {
	return effect(ctx, r.desk, "Account", r.node.name+" "+short(w), func(ctx context.Context) (chain.Account, error) { return r.node.Account(ctx, w, coin, f) })
}

func (r rpc) Receipts(ctx context.Context, hashes []chain.Hash) ([]chain.Receipt, error) {
	return effect(ctx, r.desk, "Receipts", fmt.Sprint(r.node.name, " of ", len(hashes)), func(ctx context.Context) ([]chain.Receipt, error) { return r.node.Receipts(ctx, hashes) })
}

func (r rpc) BlockHashes(ctx context.Context, numbers []uint64) ([]chain.Hash, error) {
	return effect(ctx, r.desk, "BlockHashes", r.node.name, func(ctx context.Context) ([]chain.Hash, error) { return r.node.BlockHashes(ctx, numbers) })
}

func (r rpc) Count(ctx context.Context, w token.Address, number uint64) (uint64, error) {
	return effect(ctx, r.desk, "Count", fmt.Sprint(r.node.name, " ", short(w)), func(ctx context.Context) (uint64, error) { return r.node.Count(ctx, w, number) })
}

func (r rpc) TxAtNonce(ctx context.Context, w token.Address, nonce, final uint64) (chain.Hash, error) {
	return effect(ctx, r.desk, "TxAtNonce", fmt.Sprint(r.node.name, " ", short(w), "#", nonce), func(ctx context.Context) (chain.Hash, error) { return r.node.TxAtNonce(ctx, w, nonce, final) })
}

func (r rpc) Send(ctx context.Context, raw []byte) chain.Reply {
	tx, _ := decode(raw)
	args := fmt.Sprint(r.node.name, " ", at(wallet.ID{Address: tx.From}, tx.Nonce), " ", tx.Fees.Cap)
	answer, err := effect(ctx, r.desk, "Send", args, func(ctx context.Context) (chain.Reply, error) {
		r.judge.sending(tx.sign().Hash)
		reply := r.node.Send(ctx, raw)
		if reply.Class == chain.Wrong {
			r.judge.refused(r.node.name, tx.sign().Hash)
		}
		return reply, nil
	})
	if err != nil {
		return chain.Reply{Class: chain.Ambiguous, Detail: err.Error()}
	}
	return answer
}
