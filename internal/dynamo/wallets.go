package dynamo

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"remit/internal/store"
	"remit/internal/token"
	"remit/internal/wallet"
)

// Open implements store.Wallets with one transaction: no run of check-receipts
// would find a wallet that is missing from the list. It is the only transaction
// in a wallet's life, so it does not stand in the way of reservations.
func (s *Payments) Open(ctx context.Context, w wallet.Wallet) error {
	item, err := encodeWallet(w)
	if err != nil {
		return err
	}
	return transact(ctx, s.db, "opening "+w.Address.String(),
		s.putAbsent(item, nil), // it may have been opened before
		s.put(walletListKey(w.ChainID, w.Address.String())))
}

// Wallet implements store.Wallets.
func (s *Payments) Wallet(ctx context.Context, id wallet.ID) (wallet.Wallet, error) {
	item, err := s.item(ctx, walletKey(id.ChainID, id.Address.String()))
	if err != nil {
		return wallet.Wallet{}, fmt.Errorf("reading %s: %w", id.Address, err)
	}
	if item == nil {
		return wallet.Wallet{}, wallet.ErrUnknown
	}
	return decodeWallet(id, item)
}

// Wallets implements store.Wallets with one query, strongly consistent.
func (s *Payments) Wallets(ctx context.Context, chainID uint64) ([]wallet.ID, error) {
	ids := []wallet.ID{}
	for item, err := range query(ctx, s.db, &dynamodb.QueryInput{
		TableName:                 &s.table,
		KeyConditionExpression:    aws.String("pk = :wallets"),
		ExpressionAttributeValues: attributes{":wallets": text(walletListPK(chainID))},
		ConsistentRead:            aws.Bool(true),
	}) {
		if err != nil {
			return nil, fmt.Errorf("reading the list of wallets of chain %d: %w", chainID, err)
		}
		sk, _ := item[attrSK].(*types.AttributeValueMemberS)
		address, err := token.ParseAddress(strings.TrimPrefix(sk.Value, walletListPrefix))
		if err != nil {
			return nil, fmt.Errorf("reading the list of wallets of chain %d: %w", chainID, err)
		}
		ids = append(ids, wallet.ID{ChainID: chainID, Address: address})
	}
	slices.SortFunc(ids, func(a, b wallet.ID) int { return bytes.Compare(a.Address[:], b.Address[:]) })
	return ids, nil
}

// Claim implements store.Wallets.
func (s *Payments) Claim(ctx context.Context, id wallet.ID, by string, now, until time.Time) (bool, error) {
	err := s.update(ctx, id, "claiming", "SET claimed_by = :by, claimed_until = :until",
		"(attribute_not_exists(claimed_until) OR claimed_until <= :now OR claimed_by = :by)",
		attributes{":by": text(by), ":now": instant(now), ":until": instant(until)})
	if errors.Is(err, store.ErrChanged) {
		return false, nil
	}
	return err == nil, err
}

// Reconcile implements store.Wallets.
func (s *Payments) Reconcile(ctx context.Context, id wallet.ID, next uint64, balance, gas token.Amount) error {
	return s.update(ctx, id, "reconciling", "SET token_available = :token, gas_available = :gas", "next_nonce = :next",
		attributes{
			":next": number(next), ":token": units(wallet.Spendable(balance)), ":gas": units(wallet.Spendable(gas)),
		})
}

// Advance implements store.Wallets. It raises and pauses in one write. If
// next_nonce is as high already, which it will stay, it only pauses.
func (s *Payments) Advance(ctx context.Context, id wallet.ID, next uint64, reason string) error {
	err := s.update(ctx, id, "advancing", "SET next_nonce = :next, paused = :reason", "next_nonce < :next",
		attributes{":next": number(next), ":reason": text(cmp.Or(reason, unexplained))})
	if errors.Is(err, store.ErrChanged) {
		return s.Pause(ctx, id, reason)
	}
	return err
}

// unexplained replaces an empty reason, which would read as not paused.
const unexplained = "unexplained"

// Pause implements store.Wallets.
func (s *Payments) Pause(ctx context.Context, id wallet.ID, reason string) error {
	return s.update(ctx, id, "pausing", "SET paused = :reason", "",
		attributes{":reason": text(cmp.Or(reason, unexplained))})
}

// Repause implements store.Wallets.
func (s *Payments) Repause(ctx context.Context, id wallet.ID, from, to string) error {
	values := attributes{}
	is := func(name, reason string) string {
		if reason == "" {
			return "attribute_not_exists(paused)"
		}
		values[name] = text(reason)
		return "paused = " + name
	}
	condition := "(" + is(":from", from) + " OR " + is(":to", to) + ")"
	change := "REMOVE paused"
	if to != "" {
		change = "SET paused = :to"
	}
	if len(values) == 0 {
		values = nil // DynamoDB refuses an empty map
	}
	return s.update(ctx, id, "changing the pause of", change, condition, values)
}

// update changes a stored wallet under a condition; an empty one always holds.
// It returns wallet.ErrUnknown if the wallet is not stored, and
// store.ErrChanged if the stored one does not meet the condition.
func (s *Payments) update(ctx context.Context, id wallet.ID, doing, change, condition string, values attributes) error {
	exists := "attribute_exists(pk)"
	if condition != "" {
		exists += " AND " + condition
	}
	_, err := s.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                           &s.table,
		Key:                                 walletKey(id.ChainID, id.Address.String()),
		UpdateExpression:                    &change,
		ConditionExpression:                 &exists,
		ExpressionAttributeValues:           values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}, conflicts)
	switch item, failed := refused(err); {
	case failed && item == nil:
		return wallet.ErrUnknown
	case failed:
		return store.ErrChanged
	case err != nil:
		return fmt.Errorf("%s %s: %w", doing, id.Address, err)
	default:
		return nil
	}
}
