package dynamo

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"remit/internal/payment"
	"remit/internal/wallet"
)

// Reserve implements store.Nonces with one update of one item, never in a
// transaction: a transaction makes every other writer of a busy item fail. The
// right-hand sides see the item as it was, so the reservation gets the nonce before
// the increment. When the SDK repeats the update after a lost answer, it finds
// its own reservation and takes it over.
func (s *Payments) Reserve(ctx context.Context, r wallet.Need) (wallet.Wallet, error) {
	if r.Token != wallet.Spendable(r.Token) || r.Gas != wallet.Spendable(r.Gas) {
		return s.unaffordable(ctx, r)
	}
	out, err := s.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &s.table,
		Key:       walletKey(r.Wallet.ChainID, r.Wallet.Address.String()),
		UpdateExpression: aws.String("SET reservations.#id = next_nonce, reserved_at.#id = :now, next_nonce = next_nonce + :one, " +
			"token_available = token_available - :amount, gas_available = gas_available - :gas"),
		ConditionExpression: aws.String("attribute_not_exists(reservations.#id) AND next_nonce < nonce_ceiling AND " +
			"token_available >= :amount AND gas_available >= :gas AND attribute_not_exists(paused)"),
		ExpressionAttributeNames: map[string]string{"#id": string(r.Payment)},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":now": instant(r.At), ":one": number(1), ":amount": units(r.Token), ":gas": units(r.Gas),
		},
		ReturnValues:                        types.ReturnValueAllNew,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}, conflicts)
	if old, ok := refused(err); ok {
		return s.unreserved(r, old)
	}
	if err != nil {
		return wallet.Wallet{}, fmt.Errorf("reserving a nonce of %s for %s: %w", r.Wallet.Address, r.Payment, err)
	}
	w, err := decodeWallet(r.Wallet, out.Attributes)
	if err != nil {
		return wallet.Wallet{}, err
	}
	return w, nil
}

// unreserved answers a reservation that was not given, from the wallet's item.
func (s *Payments) unreserved(r wallet.Need, item map[string]types.AttributeValue) (wallet.Wallet, error) {
	if item == nil {
		return wallet.Wallet{}, wallet.ErrUnknown
	}
	w, err := decodeWallet(r.Wallet, item)
	if err != nil {
		return wallet.Wallet{}, err
	}
	if _, held := w.Reservations[r.Payment]; held {
		return w, nil
	}
	if refusal := w.Refusal(r); refusal != nil {
		return w, refusal
	}
	return wallet.Wallet{}, fmt.Errorf("reserving a nonce of %s for %s: %w", r.Wallet.Address, r.Payment, errMissing)
}

// unaffordable answers a request for more than any stored wallet can have,
// which an expression could not even say.
func (s *Payments) unaffordable(ctx context.Context, r wallet.Need) (wallet.Wallet, error) {
	item, err := s.item(ctx, walletKey(r.Wallet.ChainID, r.Wallet.Address.String()))
	if err != nil {
		return wallet.Wallet{}, fmt.Errorf("reading %s: %w", r.Wallet.Address, err)
	}
	return s.unreserved(r, item)
}

// Release implements store.Nonces.
func (s *Payments) Release(ctx context.Context, id payment.ID, pendingTx wallet.PendingTx) error {
	_, err := s.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                 &s.table,
		Key:                       walletKey(pendingTx.ChainID, pendingTx.Address.String()),
		UpdateExpression:          aws.String("REMOVE reservations.#id, reserved_at.#id"),
		ConditionExpression:       aws.String("reservations.#id = :nonce"),
		ExpressionAttributeNames:  map[string]string{"#id": string(id)},
		ExpressionAttributeValues: map[string]types.AttributeValue{":nonce": number(pendingTx.Nonce)},
	}, conflicts)
	if _, ok := refused(err); ok {
		return nil // released before, or held at another nonce
	}
	if err != nil {
		return fmt.Errorf("releasing %s of %s: %w", placeOf(pendingTx.ID, pendingTx.Nonce), id, err)
	}
	return nil
}

// RaiseCeiling implements store.Nonces.
func (s *Payments) RaiseCeiling(ctx context.Context, id wallet.ID, ceiling uint64) error {
	old, err := s.update(ctx, id, "SET nonce_ceiling = :ceiling", "nonce_ceiling < :ceiling",
		map[string]types.AttributeValue{":ceiling": number(ceiling)})
	switch {
	case err != nil:
		return fmt.Errorf("raising the ceiling of %s: %w", id.Address, err)
	case old.refused && old.item == nil:
		return wallet.ErrUnknown
	default:
		return nil // as high already
	}
}
