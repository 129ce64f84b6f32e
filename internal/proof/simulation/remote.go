package simulation

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/payments/interpose"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
)

// inService is where the key of a wallet lies that signs over the network.
const inService wallet.KeyRef = "key service"

// errService is the error of every signature while the key service is down.
var errService = errors.New("key service is down")

// A keyService is the wallets' keys as engines reach them. Those that are not in
// secrets sign by an effect, and no two of their signatures are alike.
type keyService struct {
	*fakechain.Keys
	around     interpose.Around
	down       atomic.Bool
	signatures atomic.Uint64
}

// Signer implements wallet.Keys.
func (k *keyService) Signer(ctx context.Context, r wallet.Registration) (wallet.Signer, error) {
	signer, err := k.Keys.Signer(ctx, r)
	if err != nil || r.Key == wallet.InSecret {
		return signer, err
	}
	return remote{k, r}, nil
}

type remote struct {
	*keyService
	of wallet.Registration
}

// Ready implements wallet.Signer.
func (r remote) Ready(ctx context.Context) error {
	_, err := r.answer(ctx, "Ready", fakechain.Tx{})
	return err
}

// Sign implements wallet.Signer.
func (r remote) Sign(ctx context.Context, tx chain.Tx, nonce uint64) (chain.Signed, error) {
	return r.answer(ctx, "Sign", fakechain.Tx{Tx: tx, From: r.of.Address, Nonce: nonce})
}

func (r remote) answer(ctx context.Context, op string, tx fakechain.Tx) (chain.Signed, error) {
	answer := &struct { // of its own: an answer that is lost may still be written
		chain.Signed
		err error
	}{}
	err := r.around(ctx, interpose.Call{Op: op, Args: fmt.Sprintf("%x#%d", r.of.Address[18:], tx.Nonce)}, func(context.Context) {
		if r.down.Load() {
			answer.err = errService
			return
		}
		tx.Salt = r.signatures.Add(1)
		answer.Signed = tx.Sign()
	})
	if err != nil {
		return chain.Signed{}, err
	}
	return answer.Signed, answer.err
}
