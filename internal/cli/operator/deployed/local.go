package deployed

import (
	"context"
	"errors"
	"net/http"
	"os/user"

	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/keyring"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// Local is the parts of a stack that this process runs with its data in memory.
type Local struct {
	Tables
	URL    string                              // of its API
	Keyed  func() map[token.Address]token.Coin // the wallets that have a key in this process, with their rails
	Key    func(token.Address) keyring.Read
	PutKey func(keyring.Key, token.Coin)
	Nodes  map[uint64][]string         // URLs by chain
	Hint   func(context.Context) error // starts a run of check-receipts soon
	Config stack.Config                // of the first rail

	Transport http.RoundTripper // carries requests to nodes; nil: see Deployment
}

type localKey struct{}

// Context returns a context whose commands are for the stack in this process.
func (l *Local) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, localKey{}, l)
}

type here struct{ *Local }

// Who is the user of the operating system: no other one may use the socket.
func (here) Who(context.Context) (string, error) {
	u, err := user.Current()
	if err != nil {
		return "", err
	}
	return u.Username, nil
}

// Publish does nothing: a stack on one machine has no alarms.
func (here) Publish(context.Context, string, string) error { return nil }

func (h here) RPC(context.Context) (map[uint64][]string, error) { return h.Nodes, nil }

func (here) PutRPC(context.Context, uint64, []string) error {
	return errors.New("a stack on this machine has the nodes that it was started with (remit local --rpc)")
}

func (h here) Hint(ctx context.Context) error { return h.Local.Hint(ctx) }

func (h here) Keyed(context.Context) (map[token.Address]StoredKey, error) {
	keyed := map[token.Address]StoredKey{}
	for a, coin := range h.Local.Keyed() {
		keyed[a] = StoredKey{Rail: coin.String()}
	}
	return keyed, nil
}

func (h here) WalletKeys() wallet.Keys { return keyring.New(h.Key) }

func (h here) PutKey(_ context.Context, key keyring.Key, of token.Coin) error {
	h.Local.PutKey(key, of)
	return nil
}
