package dynamo

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"

	"remit/internal/payment"
	"remit/internal/wallet"
)

// walletItem is the item of a wallet. Fields may be added, but none changes its
// meaning: old items stay readable. Spendable amounts are numbers, so that the
// update of a reservation can compare and subtract them.
type walletItem struct {
	PK           string                `dynamodbav:"pk"`
	SK           string                `dynamodbav:"sk"`
	NextNonce    *uint64               `dynamodbav:"next_nonce"`
	Ceiling      *uint64               `dynamodbav:"nonce_ceiling"`
	Reservations map[string]uint64     `dynamodbav:"reservations"` // payment id → nonce
	ReservedAt   map[string]string     `dynamodbav:"reserved_at"`  // payment id → time
	Token        attributevalue.Number `dynamodbav:"token_available"`
	Gas          attributevalue.Number `dynamodbav:"gas_available"` // wei
	Paused       string                `dynamodbav:"paused,omitempty"`
	ClaimedUntil string                `dynamodbav:"claimed_until,omitempty"`
}

// encodeWallet writes both maps even when they are empty: a reservation sets an
// element of each, which DynamoDB does in an existing map only.
func encodeWallet(w wallet.Wallet) (attributes, error) {
	it := walletItem{
		PK: walletPK(w.ChainID, w.Address.String()), SK: "wallet", NextNonce: &w.NextNonce, Ceiling: &w.Ceiling,
		Reservations: map[string]uint64{}, ReservedAt: map[string]string{},
		Token:  attributevalue.Number(wallet.Spendable(w.Balance).String()),
		Gas:    attributevalue.Number(wallet.Spendable(w.Gas).String()),
		Paused: w.Paused, ClaimedUntil: instantText(w.ClaimedUntil),
	}
	for id, reservation := range w.Reservations {
		it.Reservations[string(id)], it.ReservedAt[string(id)] = reservation.Nonce, instantText(reservation.At)
	}
	item, err := attributevalue.MarshalMap(it)
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", w.Address, err)
	}
	return item, nil
}

// decodeWallet reads the stored wallet id. Its error is no sentinel: a caller can
// do nothing with a wallet that does not decode.
func decodeWallet(id wallet.ID, item attributes) (wallet.Wallet, error) {
	var it walletItem
	if err := attributevalue.UnmarshalMap(item, &it); err != nil {
		return wallet.Wallet{}, fmt.Errorf("decoding %s: %w", id.Address, err)
	}
	var r reader
	w := wallet.Wallet{
		ID: id, Reservations: make(map[payment.ID]wallet.Reservation, len(it.Reservations)),
		Balance: r.amount("token_available", string(it.Token)), Gas: r.amount("gas_available", string(it.Gas)),
		Paused: it.Paused, ClaimedUntil: r.instant("claimed_until", it.ClaimedUntil),
	}
	r.require("next_nonce", it.NextNonce != nil)
	r.require("nonce_ceiling", it.Ceiling != nil)
	for holder, nonce := range it.Reservations {
		w.Reservations[payment.ID(holder)] = wallet.Reservation{Nonce: nonce, At: r.instant("reserved_at", it.ReservedAt[holder])}
	}
	if err := r.err(); err != nil {
		return wallet.Wallet{}, fmt.Errorf("decoding %s: %w", id.Address, err)
	}
	w.NextNonce, w.Ceiling = *it.NextNonce, *it.Ceiling
	return w, nil
}
