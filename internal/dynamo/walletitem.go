package dynamo

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"remit/internal/payment"
	"remit/internal/wallet"
)

// walletItem is how a wallet lies in the table. Fields may be added, but what
// one means never changes. Spendable amounts are numbers, so that a lease can
// compare and subtract them.
type walletItem struct {
	PK        string                `dynamodbav:"pk"`
	SK        string                `dynamodbav:"sk"`
	NextNonce *uint64               `dynamodbav:"next_nonce"`
	Ceiling   *uint64               `dynamodbav:"nonce_ceiling"`
	Leases    map[string]uint64     `dynamodbav:"leases"`    // payment id → nonce
	LeasedAt  map[string]string     `dynamodbav:"leased_at"` // payment id → time
	Token     attributevalue.Number `dynamodbav:"token_available"`
	Gas       attributevalue.Number `dynamodbav:"gas_available"` // wei
	Paused    string                `dynamodbav:"paused,omitempty"`
	Attended  string                `dynamodbav:"attended_until,omitempty"`
}

// encodeWallet writes both maps even when they are empty: a lease sets an
// element of them, which takes a map to set it in.
func encodeWallet(w wallet.Wallet) (map[string]types.AttributeValue, error) {
	it := walletItem{
		PK: walletPK(w.ChainID, w.Address.String()), SK: "wallet", NextNonce: &w.NextNonce, Ceiling: &w.Ceiling,
		Leases: map[string]uint64{}, LeasedAt: map[string]string{},
		Token:  attributevalue.Number(wallet.Spendable(w.Token).String()),
		Gas:    attributevalue.Number(wallet.Spendable(w.Gas).String()),
		Paused: w.Paused, Attended: instantText(w.Attended),
	}
	for id, lease := range w.Leases {
		it.Leases[string(id)], it.LeasedAt[string(id)] = lease.Nonce, instantText(lease.At)
	}
	item, err := attributevalue.MarshalMap(it)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", w.Address, err)
	}
	return item, nil
}

// decodeWallet reads the stored wallet id. One that does not decode is an error
// of no kind a caller may branch on: nothing can be done with such a wallet.
func decodeWallet(id wallet.ID, item map[string]types.AttributeValue) (wallet.Wallet, error) {
	var it walletItem
	if err := attributevalue.UnmarshalMap(item, &it); err != nil {
		return wallet.Wallet{}, fmt.Errorf("decoding %s: %w", id.Address, err)
	}
	var r reader
	w := wallet.Wallet{
		ID: id, Leases: make(map[payment.ID]wallet.Lease, len(it.Leases)),
		Token: r.amount("token_available", string(it.Token)), Gas: r.amount("gas_available", string(it.Gas)),
		Paused: it.Paused, Attended: r.instant("attended_until", it.Attended),
	}
	r.require("next_nonce", it.NextNonce != nil)
	r.require("nonce_ceiling", it.Ceiling != nil)
	for payee, nonce := range it.Leases {
		w.Leases[payment.ID(payee)] = wallet.Lease{Nonce: nonce, At: r.instant("leased_at", it.LeasedAt[payee])}
	}
	if err := r.err(); err != nil {
		return wallet.Wallet{}, fmt.Errorf("decoding %s: %w", id.Address, err)
	}
	w.NextNonce, w.Ceiling = *it.NextNonce, *it.Ceiling
	return w, nil
}
