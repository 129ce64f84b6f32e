// Package walletenv finds the keys of wallets by a function's environment. Only functions that sign link it.
package walletenv

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/kms"
	"github.com/remit-payouts/remit/internal/aws/secrets"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/keyring"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// Keys returns the keys of wallets, each of which is in KMS or in a secret whose name is the prefix WALLET_SECRETS
// and the wallet's address. A secret is read when its wallet is first to sign, and kept for secrets.KeepFor.
func Keys(env *boot.Env) *keyring.Ring {
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
