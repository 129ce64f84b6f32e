package keyring

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// A Remote signs with a key that never leaves the service which keeps it, such as AWS KMS. Two signatures of the same
// transaction differ: no process can make the bytes again that another has made.
type Remote struct {
	address token.Address
	digest  func(ctx context.Context, digest []byte) ([]byte, error)
	now     func() time.Time

	probing sync.Mutex
	last    atomic.Pointer[outcome] // of the signature that was asked for last
}

type outcome struct {
	at  time.Time
	err error
}

// NewRemote returns the signer of a wallet. digest signs 32 bytes and returns the DER
// form of an ECDSA signature, ASN.1's SEQUENCE of r and s.
func NewRemote(address token.Address, now func() time.Time, digest func(ctx context.Context, digest []byte) ([]byte, error)) *Remote {
	return &Remote{address: address, digest: digest, now: now}
}

// Sign implements wallet.Signer.
func (r *Remote) Sign(ctx context.Context, tx chain.Tx, nonce uint64) (chain.Signed, error) {
	return sign(tx, nonce, func(digest []byte) ([]byte, error) { return r.signature(ctx, digest) })
}

// probeEvery is how long Ready trusts the outcome of the last signature.
const probeEvery = time.Second

// Ready implements wallet.Signer. If no signature was made within probeEvery, it signs a throwaway
// digest, which belongs to no transaction. Concurrent calls wait for that signature.
func (r *Remote) Ready(ctx context.Context) error {
	r.probing.Lock()
	defer r.probing.Unlock()
	if last := r.last.Load(); last != nil && r.now().Sub(last.at).Abs() < probeEvery {
		return last.err
	}
	_, err := r.signature(ctx, crypto.Keccak256([]byte("remit: is the key at hand?")))
	return err
}

// signature returns 27 plus the parity of y, r and s, which is the lower of the two
// that are valid, as EIP-2 wants it. Nothing but the wallet's own signature is returned.
func (r *Remote) signature(ctx context.Context, digest []byte) (compact []byte, err error) {
	der, err := r.digest(ctx, digest)
	if err == nil {
		compact, err = r.compact(der, digest)
	}
	if err != nil {
		err = fmt.Errorf("signing for %s: %w", r.address, err)
	}
	r.last.Store(&outcome{r.now(), err})
	return compact, err
}

func (r *Remote) compact(der, digest []byte) ([]byte, error) {
	signature, err := ecdsa.ParseDERSignature(der)
	if err != nil {
		return nil, fmt.Errorf("not of the wallet's key: %w", err)
	}
	x, s := signature.R(), signature.S()
	if s.IsOverHalfOrder() {
		s.Negate()
	}
	xs, ss := x.Bytes(), s.Bytes()
	for _, recovery := range []byte{27, 28} {
		compact := append(append([]byte{recovery}, xs[:]...), ss[:]...)
		if key, _, err := ecdsa.RecoverCompact(compact, digest); err == nil && addressOf(key) == r.address {
			return compact, nil
		}
	}
	return nil, errors.New("not of the wallet's key: it is another's signature, or of something else")
}
