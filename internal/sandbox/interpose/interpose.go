// Package interpose stands between an engine and its ports. It passes every call of a store or of a node to a
// function, which may count it, delay it, let it fail, or lose its answer. It makes no fault of its own.
package interpose

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// A Store passes every call of the embedded store through Around, except List and Entries, which
// no decision about money reads.
type Store struct {
	store.Store
	Around Around
}

// A Node passes every request to the embedded node through Around. If Around returns an error,
// a broadcast is ambiguous.
type Node struct {
	chain.Node
	Around Around
}

// A Call is one call of a port.
type Call struct {
	Op   string // the method's name: "Reserve"
	Args string // its payment, wallet or nonce: "pay_1 of 0001"
}

// An Around makes a call by calling apply, at most once, on any goroutine. It may call apply after it has returned,
// for a call whose answer is lost. If it returns an error, the caller gets that error in place of the port's answer;
// otherwise it must have called apply. Many goroutines call an Around at once.
type Around func(ctx context.Context, c Call, apply func(context.Context)) error

// errNotApplied reports an Around that returned no error and did not call apply.
var errNotApplied = errors.New("interpose: call was answered and not applied")

type two[A, B any] struct {
	a A
	b B
}

// ask makes the call do through around. The answer is the zero T if around returns an error.
func ask[T any](ctx context.Context, around Around, op string, do func(context.Context) (T, error), args ...any) (T, error) {
	answer := &struct {
		value T
		err   error
	}{err: errNotApplied}
	err := around(ctx, Call{op, describe(args)}, func(ctx context.Context) { answer.value, answer.err = do(ctx) })
	if err != nil {
		var lost T
		return lost, err
	}
	return answer.value, answer.err
}

// Send implements chain.Node.
func (n Node) Send(ctx context.Context, raw []byte) chain.Reply {
	reply, err := ask(ctx, n.Around, "Send", func(ctx context.Context) (chain.Reply, error) { return n.Node.Send(ctx, raw), nil },
		n.Node, raw)
	if err != nil {
		return chain.Reply{Class: chain.Ambiguous, Detail: err.Error()}
	}
	return reply
}

// describe names a call's arguments. Two calls that one process makes at once differ in it.
func describe(args []any) string {
	var words []string
	for i, arg := range args {
		word := ""
		switch a := arg.(type) {
		case chain.Node:
			word = a.String()
		case payment.Payment:
			word = fmt.Sprintf("%s at %s, %s, %d attempts", a.ID, at(wallet.ID{Address: a.Wallet}, a.Nonce), a.State, len(a.Attempts))
		case proposal.Proposal:
			word = fmt.Sprintf("%s, %s", a, a.Payment.State)
		case wallet.ID:
			word = short(a.Address)
		case wallet.Wallet:
			word = at(a.ID, a.NextNonce)
		case wallet.PendingTx:
			word = at(a.ID, a.Nonce)
		case wallet.Registration:
			word = short(a.Address)
		case wallet.Need:
			word = string(a.Payment) + " of " + short(a.Wallet.Address)
		case token.Address:
			word = short(a)
		case chain.Call: // a payment's call and the worst case's are made at once, perhaps with the same last digits
			if t, _, ok := chain.ParseTransfer(a.Data); ok {
				word = fmt.Sprintf("%s/%x", short(t.To), t.To[:1])
			}
		case []byte:
			word = fmt.Sprintf("%x", a[max(0, len(a)-4):])
		case []chain.Hash:
			word = several(a)
		case []uint64:
			word = several(a)
		case uint64:
			if _, nonce := args[max(0, i-1)].(wallet.ID); nonce {
				words[len(words)-1] += fmt.Sprintf("#%d", a)
				continue
			}
			word = strconv.FormatUint(a, 10)
		case payment.ID, wallet.State, chain.Hash, string:
			word = fmt.Sprint(a)
		}
		if word != "" {
			words = append(words, word)
		}
	}
	return strings.Join(words, " ")
}

// several names a request for many by the first: two wallets' may be under way at once.
func several[T any](of []T) string {
	if len(of) == 0 {
		return ""
	}
	return fmt.Sprintf("of %d from %.10s", len(of), fmt.Sprint(of[0]))
}

// at names a nonce of a wallet: "0001#7".
func at(id wallet.ID, nonce uint64) string { return fmt.Sprintf("%v#%d", short(id.Address), nonce) }

// short names an address by its last bytes.
func short(a token.Address) string { return fmt.Sprintf("%x", a[18:]) }
