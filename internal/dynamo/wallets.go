package dynamo

import (
	"bytes"
	"cmp"
	"context"
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

// Open implements store.Wallets with one transaction: a wallet that is not in
// the list of wallets would be settled by nobody. It is made once in a wallet's life, so
// it does not stand in the way of reservations.
func (s *Payments) Open(ctx context.Context, w wallet.Wallet) error {
	item, err := encodeWallet(w)
	if err != nil {
		return err
	}
	_, err = transact(ctx, s.db, s.putAbsent(item), types.TransactWriteItem{Put: &types.Put{
		TableName: &s.table, Item: walletListKey(w.ChainID, w.Address.String()),
	}})
	if err != nil {
		return fmt.Errorf("opening %s: %w", w.Address, err)
	}
	return nil // opened, now or before
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
	pages := dynamodb.NewQueryPaginator(s.db, &dynamodb.QueryInput{
		TableName:                 &s.table,
		KeyConditionExpression:    aws.String("pk = :wallets"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":wallets": text(walletListPK(chainID))},
		ConsistentRead:            aws.Bool(true),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("reading the list of wallets of chain %d: %w", chainID, err)
		}
		for _, item := range page.Items {
			sk, _ := item[attrSK].(*types.AttributeValueMemberS)
			address, err := token.ParseAddress(strings.TrimPrefix(sk.Value, walletListPrefix))
			if err != nil {
				return nil, fmt.Errorf("reading the list of wallets of chain %d: %w", chainID, err)
			}
			ids = append(ids, wallet.ID{ChainID: chainID, Address: address})
		}
	}
	slices.SortFunc(ids, func(a, b wallet.ID) int { return bytes.Compare(a.Address[:], b.Address[:]) })
	return ids, nil
}

// Claim implements store.Wallets.
func (s *Payments) Claim(ctx context.Context, id wallet.ID, by string, now, until time.Time) (bool, error) {
	old, err := s.update(ctx, id, "SET claimed_by = :by, claimed_until = :until",
		"(attribute_not_exists(claimed_until) OR claimed_until <= :now OR claimed_by = :by)",
		map[string]types.AttributeValue{":by": text(by), ":now": instant(now), ":until": instant(until)})
	switch {
	case err != nil:
		return false, fmt.Errorf("claiming %s: %w", id.Address, err)
	case old.refused && old.item == nil:
		return false, wallet.ErrUnknown
	default:
		return !old.refused, nil
	}
}

// Reconcile implements store.Wallets.
func (s *Payments) Reconcile(ctx context.Context, id wallet.ID, next uint64, coin, gas token.Amount) error {
	old, err := s.update(ctx, id, "SET token_available = :token, gas_available = :gas", "next_nonce = :next",
		map[string]types.AttributeValue{
			":next": number(next), ":token": units(wallet.Spendable(coin)), ":gas": units(wallet.Spendable(gas)),
		})
	switch {
	case err != nil:
		return fmt.Errorf("reconciling %s: %w", id.Address, err)
	case old.refused && old.item == nil:
		return wallet.ErrUnknown
	case old.refused:
		return store.ErrChanged
	default:
		return nil
	}
}

// Advance implements store.Wallets: it raises and pauses in one write, or, if
// next_nonce is as high already, which it will stay, only pauses.
func (s *Payments) Advance(ctx context.Context, id wallet.ID, next uint64, reason string) error {
	old, err := s.update(ctx, id, "SET next_nonce = :next, paused = :reason", "next_nonce < :next",
		map[string]types.AttributeValue{":next": number(next), ":reason": text(cmp.Or(reason, unexplained))})
	switch {
	case err != nil:
		return fmt.Errorf("advancing %s: %w", id.Address, err)
	case old.refused:
		return s.Pause(ctx, id, reason)
	default:
		return nil
	}
}

// unexplained stands for an empty reason, which would read as not paused.
const unexplained = "unexplained"

// Pause implements store.Wallets.
func (s *Payments) Pause(ctx context.Context, id wallet.ID, reason string) error {
	old, err := s.update(ctx, id, "SET paused = :reason", "",
		map[string]types.AttributeValue{":reason": text(cmp.Or(reason, unexplained))})
	switch {
	case err != nil:
		return fmt.Errorf("pausing %s: %w", id.Address, err)
	case old.refused:
		return wallet.ErrUnknown
	default:
		return nil
	}
}

// Repause implements store.Wallets.
func (s *Payments) Repause(ctx context.Context, id wallet.ID, from, to string) error {
	values := map[string]types.AttributeValue{}
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
	old, err := s.update(ctx, id, change, condition, values)
	switch {
	case err != nil:
		return fmt.Errorf("pausing %s again: %w", id.Address, err)
	case old.refused && old.item == nil:
		return wallet.ErrUnknown
	case old.refused:
		return store.ErrChanged
	default:
		return nil
	}
}

// A refusal is the item that did not meet a condition, nil if there is none.
type refusal struct {
	refused bool
	item    map[string]types.AttributeValue
}

// update changes a stored wallet if it meets a condition, empty for none.
func (s *Payments) update(ctx context.Context, id wallet.ID, change, condition string, values map[string]types.AttributeValue) (refusal, error) {
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
	if item, ok := refused(err); ok {
		return refusal{true, item}, nil
	}
	return refusal{}, err
}
