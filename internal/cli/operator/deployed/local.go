package deployed

import (
	"context"
	"io"
	"net/http"
	"os/user"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/payments/keyring"
)

// Local is the parts of a stack that this process runs with its data in memory.
type Local struct {
	Tables
	Keyed  func() []token.Address // the wallets that have a key in this process
	Key    func(token.Address) (keyring.Key, error)
	PutKey func(keyring.Key)
	Nodes  []string                    // URLs
	Hint   func(context.Context) error // starts a run of check-receipts soon
	Config stack.Config

	Transport http.RoundTripper // carries requests to nodes; nil: see Deployment
}

type localKey struct{}

// Context returns a context whose commands are for the stack in this process.
func (l *Local) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, localKey{}, l)
}

func (l *Local) deployment(t Target, out io.Writer) *Deployment {
	return &Deployment{Target: t, Tables: l.Tables, Platform: here{l},
		Rail: settings.Rail{ChainID: l.Config.ChainID, Token: l.Config.Token, Network: l.Config.Network},
		Mode: string(apikey.Test), KeyCache: "0", ChainID: l.Config.ChainID, Asset: l.Config.Token, Config: l.Config, Out: out,
		Transport: l.Transport}
}

// here is the platform of a stack in this process.
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

func (h here) RPC(context.Context) (map[uint64][]string, error) {
	return map[uint64][]string{0: h.Nodes}, nil
}

func (h here) Hint(ctx context.Context) error { return h.Local.Hint(ctx) }

func (h here) Keyed(context.Context) (map[token.Address]time.Time, error) {
	keyed := map[token.Address]time.Time{}
	for _, a := range h.Local.Keyed() {
		keyed[a] = time.Time{}
	}
	return keyed, nil
}

func (h here) Key(_ context.Context, a token.Address) (keyring.Key, error) { return h.Local.Key(a) }

func (h here) PutKey(_ context.Context, key keyring.Key) error {
	h.Local.PutKey(key)
	return nil
}
