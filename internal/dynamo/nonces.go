package dynamo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"remit/internal/payment"
	"remit/internal/store"
	"remit/internal/wallet"
)

// Reserve implements store.Nonces with one update of one item, never in a
// transaction: a transaction makes every other writer of a busy item fail. The
// right-hand sides of an update read the item before it, so the reservation gets
// the nonce before the increment. When the SDK repeats the update after a lost
// answer, it finds its own reservation and returns it.
func (s *Payments) Reserve(ctx context.Context, n wallet.Need) (wallet.Wallet, error) {
	if n.Amount != wallet.Spendable(n.Amount) || n.Gas != wallet.Spendable(n.Gas) {
		// No stored wallet has so much, and no expression can hold the number.
		w, err := s.Wallet(ctx, n.Wallet)
		return unreserved(n, w, err)
	}
	in := &dynamodb.UpdateItemInput{
		Key: walletKey(n.Wallet.ChainID, n.Wallet.Address.String()),
		UpdateExpression: aws.String("SET reservations.#id = next_nonce, reserved_at.#id = :now, next_nonce = next_nonce + :one, " +
			"token_available = token_available - :amount, gas_available = gas_available - :gas"),
		ConditionExpression: aws.String("attribute_not_exists(reservations.#id) AND next_nonce < nonce_ceiling AND " +
			"token_available >= :amount AND gas_available >= :gas AND attribute_not_exists(paused)"),
		ExpressionAttributeNames: map[string]string{"#id": string(n.Payment)},
		ExpressionAttributeValues: attributes{
			":now": text(instant(n.At)), ":one": number(1), ":amount": units(n.Amount), ":gas": units(n.Gas),
		},
		ReturnValues:                        types.ReturnValueAllNew,
		ReturnValuesOnConditionCheckFailure: allOld,
	}
	if n.Share > 0 {
		*in.UpdateExpression += ", #taken = if_not_exists(#taken, :zero) + :one"
		*in.ConditionExpression += " AND (attribute_not_exists(#taken) OR #taken < :share)"
		in.ExpressionAttributeNames["#taken"] = takenPrefix + n.Merchant
		in.ExpressionAttributeValues[":zero"], in.ExpressionAttributeValues[":share"] = number(0), number(n.Share)
	}
	item, err := s.update(ctx, in)
	if old, ok := refused(err); ok {
		if old == nil {
			return wallet.Wallet{}, wallet.ErrUnknown
		}
		w, err := decodeWallet(n.Wallet)(old)
		return unreserved(n, w, err)
	}
	if err != nil {
		return wallet.Wallet{}, fmt.Errorf("reserving a nonce of %s for %s: %w", n.Wallet.Address, n.Payment, err)
	}
	return decodeWallet(n.Wallet)(item)
}

// unreserved answers a need whose condition failed, from the wallet w that was
// read with err: the payment's earlier reservation, or the refusal.
func unreserved(n wallet.Need, w wallet.Wallet, err error) (wallet.Wallet, error) {
	if err != nil {
		return wallet.Wallet{}, err
	}
	if _, held := w.Reservations[n.Payment]; held {
		return w, nil
	}
	if refusal := w.Refusal(n); refusal != nil {
		return w, refusal
	}
	return wallet.Wallet{}, fmt.Errorf("reserving a nonce of %s for %s: %w", n.Wallet.Address, n.Payment, errMissing)
}

// Return implements store.Nonces. A caller that repeats it after a lost answer gets
// ErrChanged.
func (s *Payments) Return(ctx context.Context, n wallet.Need, nonce uint64) error {
	return s.changeOf(ctx, n.Wallet, n.Payment, "returning a nonce of",
		"SET next_nonce = :nonce, token_available = token_available + :amount, gas_available = gas_available + :gas "+
			"REMOVE reservations.#id, reserved_at.#id ADD returned :one",
		"reservations.#id = :nonce AND reserved_at.#id = :at AND next_nonce = :next AND attribute_not_exists(paused)",
		attributes{
			":nonce": number(nonce), ":next": number(nonce + 1), ":at": text(instant(n.At)), ":one": number(1),
			":amount": units(n.Amount), ":gas": units(n.Gas),
		})
}

// Orphan implements store.Nonces.
func (s *Payments) Orphan(ctx context.Context, id wallet.ID, holder payment.ID, nonce uint64) error {
	return s.changeOf(ctx, id, holder, "orphaning a nonce of", "SET reserved_at.#id = :never", "reservations.#id = :nonce",
		attributes{":nonce": number(nonce), ":never": text(instant(time.Time{}))})
}

// Release implements store.Nonces.
func (s *Payments) Release(ctx context.Context, id payment.ID, tx wallet.PendingTx) error {
	_, err := s.update(ctx, &dynamodb.UpdateItemInput{
		Key:                       walletKey(tx.ChainID, tx.Address.String()),
		UpdateExpression:          aws.String("REMOVE reservations.#id, reserved_at.#id"),
		ConditionExpression:       aws.String("reservations.#id = :nonce"),
		ExpressionAttributeNames:  map[string]string{"#id": string(id)},
		ExpressionAttributeValues: attributes{":nonce": number(tx.Nonce)},
	})
	return outcome(err, nil, fmt.Sprintf("releasing %s of %s", placeOf(tx.ID, tx.Nonce), id))
}

// takenPrefix begins the attributes of a wallet that count a merchant's nonces. They
// are no map: a wallet of before has none, and an update sets no element of that.
const takenPrefix = "taken#"

// Recount implements store.Wallets with one update. When the SDK repeats it after a lost
// answer, the caller gets ErrChanged, and reads what it has written before it recounts
// again. Reservations change no recounts, so that they never stand in its way.
func (s *Payments) Recount(ctx context.Context, id wallet.ID, recounts uint64, mined map[string]uint64, idle []string) error {
	set, condition, remove := "SET recounts = :next", "recounts = :recounts", ""
	names, values := map[string]string{}, attributes{":next": number(recounts + 1), ":recounts": number(recounts)}
	if recounts == 0 {
		condition = "(attribute_not_exists(recounts) OR recounts = :recounts)"
	}
	for merchant, n := range mined {
		i := len(names)
		names[fmt.Sprint("#m", i)], values[fmt.Sprint(":m", i)] = takenPrefix+merchant, number(n)
		set += fmt.Sprintf(", #m%d = #m%[1]d - :m%[1]d", i)
	}
	for _, merchant := range idle {
		i := len(names)
		names[fmt.Sprint("#m", i)], values[":zero"] = takenPrefix+merchant, number(0)
		condition += fmt.Sprintf(" AND (attribute_not_exists(#m%d) OR #m%[1]d = :zero)", i)
		remove = strings.TrimPrefix(fmt.Sprintf("%s, #m%d", remove, i), ", ")
	}
	if remove != "" {
		set += " REMOVE " + remove
	}
	if len(names) == 0 {
		names = nil // DynamoDB refuses an empty map
	}
	_, err := s.update(ctx, &dynamodb.UpdateItemInput{
		Key: walletKey(id.ChainID, id.Address.String()), UpdateExpression: &set, ConditionExpression: aws.String("attribute_exists(pk) AND " + condition),
		ExpressionAttributeNames: names, ExpressionAttributeValues: values,
	})
	return outcome(err, store.ErrChanged, "recounting the nonces of "+id.Address.String())
}

// RaiseCeiling implements store.Nonces.
func (s *Payments) RaiseCeiling(ctx context.Context, id wallet.ID, ceiling uint64) error {
	err := s.change(ctx, id, "raising the ceiling of", "SET nonce_ceiling = :ceiling", "nonce_ceiling < :ceiling",
		attributes{":ceiling": number(ceiling)})
	if errors.Is(err, store.ErrChanged) {
		return nil // as high already
	}
	return err
}
