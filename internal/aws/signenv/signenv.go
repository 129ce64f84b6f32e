// Package signenv builds the parts that sign from a function's environment. Only functions that sign link it.
package signenv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/remit-payouts/remit/internal/aws/chainenv"
	"github.com/remit-payouts/remit/internal/aws/kms"
	"github.com/remit-payouts/remit/internal/aws/queue"
	"github.com/remit-payouts/remit/internal/aws/secrets"
	"github.com/remit-payouts/remit/internal/aws/tableenv"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/keyring"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// Keys returns the keys of wallets. Each key is in KMS, or in a secret named by the prefix WALLET_SECRETS and the
// wallet's address. A secret is read when its wallet is first to sign, and kept for secrets.KeepFor.
func Keys(env tableenv.Env) *keyring.Ring {
	prefix := env.String("WALLET_SECRETS")
	inKMS := sync.OnceValue(func() kms.Keys { return kms.Open(env.AWS) }) // costs nothing where no key is there
	return keyring.New(func(a token.Address) keyring.Read {
		key := secrets.Open(env.AWS, prefix+a.String(), env.Now, keyring.Decode)
		return func(ctx context.Context) (keyring.Key, error) {
			k, err := key.Get(ctx)
			if errors.Is(err, secrets.ErrMissing) {
				err = fmt.Errorf("%w: %w", wallet.ErrNoKey, err)
			}
			return k, err
		}
	}).Signing(env.Now, func(ctx context.Context, key wallet.KeyRef, digest []byte) ([]byte, error) {
		return inKMS().Sign(ctx, string(key), digest)
	})
}

// Dispatchers returns the dispatchers of the stack's rails.
func Dispatchers(env tableenv.Env) *dispatch.Rails {
	nodes, hints, settle := chainenv.Open(env.Env), sqs.NewFromConfig(env.AWS), env.String("SETTLE_QUEUE_URL")
	return dispatch.NewRails(dispatch.Wiring{Config: env.Config(), Nodes: nodes.Of, Chains: nodes.Chains,
		Hints: func(c stack.Config) dispatch.Hinter { return queue.NewHints(hints, settle, c.BlockTime) },
	}, dispatch.Parts{
		Store: env.Payments(), Book: env.Book(), Keys: Keys(env),
		Log: slog.Default(), Now: env.Now, Random: rand.Reader, Draw: mathrand.IntN,
	})
}

// Batches returns the dispatchers for the function of batches, of whose places one merchant
// takes no more than half: of the reserved concurrency in BATCH_PLACES, 0 for none.
func Batches(env tableenv.Env) *dispatch.Rails {
	d := Dispatchers(env)
	d.Turns = dispatch.Turnstile{Places: env.Payments(), Most: env.Int("BATCH_PLACES") / 2, NewID: rand.Text,
		Now: env.Now, Log: slog.Default()}
	return d
}
