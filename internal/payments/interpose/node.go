package interpose

import (
	"context"
	"fmt"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// A Node passes every request to the embedded node through Around. It answers a
// broadcast as ambiguous if Around returns an error.
type Node struct {
	chain.Node
	Around Around
}

var _ chain.Node = Node{}

// Fees implements chain.Node.
func (n Node) Fees(ctx context.Context) (chain.Market, error) {
	return ask(ctx, n.Around, "Fees", n.String(), n.Node.Fees)
}

// Estimate implements chain.Node.
func (n Node) Estimate(ctx context.Context, c chain.Call) (uint64, error) {
	args := n.String()
	// A payment's call and the worst case's are made at once; the last digits of their recipients may be the same.
	if t, _, ok := chain.ParseTransfer(c.Data); ok {
		args += fmt.Sprintf(" %s/%x", short(t.To), t.To[:1])
	}
	return ask(ctx, n.Around, "Estimate", args, func(ctx context.Context) (uint64, error) { return n.Node.Estimate(ctx, c) })
}

// Head implements chain.Node.
func (n Node) Head(ctx context.Context, rule chain.ConfirmationRule) (chain.Head, error) {
	return ask(ctx, n.Around, "Head", n.String(), func(ctx context.Context) (chain.Head, error) { return n.Node.Head(ctx, rule) })
}

// Account implements chain.Node.
func (n Node) Account(ctx context.Context, w, contract token.Address, head chain.Head) (chain.Account, error) {
	return ask(ctx, n.Around, "Account", n.String()+" "+short(w),
		func(ctx context.Context) (chain.Account, error) { return n.Node.Account(ctx, w, contract, head) })
}

// several names a request for many by the first: two wallets' may be under way at once.
func several[T any](n Node, of []T) string {
	if len(of) == 0 {
		return n.String()
	}
	return fmt.Sprintf("%s of %d from %.10s", n, len(of), fmt.Sprint(of[0]))
}

// Receipts implements chain.Node.
func (n Node) Receipts(ctx context.Context, hashes []chain.Hash) ([]chain.Receipt, error) {
	return ask(ctx, n.Around, "Receipts", several(n, hashes),
		func(ctx context.Context) ([]chain.Receipt, error) { return n.Node.Receipts(ctx, hashes) })
}

// BlockHashes implements chain.Node.
func (n Node) BlockHashes(ctx context.Context, numbers []uint64) ([]chain.Hash, error) {
	return ask(ctx, n.Around, "BlockHashes", several(n, numbers),
		func(ctx context.Context) ([]chain.Hash, error) { return n.Node.BlockHashes(ctx, numbers) })
}

// BlockTime implements chain.Node.
func (n Node) BlockTime(ctx context.Context, number uint64) (time.Time, error) {
	return ask(ctx, n.Around, "BlockTime", fmt.Sprint(n.String(), " ", number),
		func(ctx context.Context) (time.Time, error) { return n.Node.BlockTime(ctx, number) })
}

// Count implements chain.Node.
func (n Node) Count(ctx context.Context, w token.Address, number uint64) (uint64, error) {
	return ask(ctx, n.Around, "Count", fmt.Sprint(n.String(), " ", short(w)),
		func(ctx context.Context) (uint64, error) { return n.Node.Count(ctx, w, number) })
}

// TxAtNonce implements chain.Node.
func (n Node) TxAtNonce(ctx context.Context, w token.Address, nonce, final uint64) (chain.Hash, error) {
	return ask(ctx, n.Around, "TxAtNonce", fmt.Sprint(n.String(), " ", short(w), "#", nonce),
		func(ctx context.Context) (chain.Hash, error) { return n.Node.TxAtNonce(ctx, w, nonce, final) })
}

// Transfers implements chain.Node.
func (n Node) Transfers(ctx context.Context, coin token.Address, wallets []token.Address, first, last uint64) ([]chain.LoggedTransfer,
	error) {
	return ask(ctx, n.Around, "Transfers", fmt.Sprint(n.String(), " ", first, "-", last),
		func(ctx context.Context) ([]chain.LoggedTransfer, error) {
			return n.Node.Transfers(ctx, coin, wallets, first, last)
		})
}

// Transactions implements chain.Node.
func (n Node) Transactions(ctx context.Context, hashes []chain.Hash) ([]chain.MinedTx, error) {
	return ask(ctx, n.Around, "Transactions", several(n, hashes),
		func(ctx context.Context) ([]chain.MinedTx, error) { return n.Node.Transactions(ctx, hashes) })
}

// Send implements chain.Node.
func (n Node) Send(ctx context.Context, raw []byte) chain.Reply {
	reply, err := ask(ctx, n.Around, "Send", fmt.Sprintf("%s %x", n, raw[max(0, len(raw)-4):]),
		func(ctx context.Context) (chain.Reply, error) {
			return n.Node.Send(ctx, raw), nil
		})
	if err != nil {
		return chain.Reply{Class: chain.Ambiguous, Detail: err.Error()}
	}
	return reply
}
