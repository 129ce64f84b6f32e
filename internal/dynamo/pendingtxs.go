package dynamo

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"remit/internal/payment"
	"remit/internal/store"
	"remit/internal/wallet"
)

// Commit implements store.PendingTxs with one transaction: the payment, its
// pending transaction, its hash. The payment's revision goes: nothing compares
// it any more. A caller that repeats Commit after a lost answer gets ErrChanged
// and reads the payment again.
func (s *Payments) Commit(ctx context.Context, p payment.Payment) error {
	attempt, err := encodeAttempt(p.LastAttempt())
	if err != nil {
		return fmt.Errorf("encoding %s: %w", p.ID, err)
	}
	pendingTx, err := encodePendingTx(store.PendingTxOf(p))
	if err != nil {
		return err
	}
	failed, err := transact(ctx, s.db,
		types.TransactWriteItem{Update: &types.Update{
			TableName: &s.table,
			Key:       paymentKey(string(p.ID)),
			UpdateExpression: aws.String("SET #state = :committed, nonce = :nonce, attempts = :attempts, tx_hash = :hash, " +
				"version = :version, updated_at = :at, list_pk = :list, list_sk = :place REMOVE revision"),
			ConditionExpression:      aws.String("#state = :prepared AND revision = :revision"),
			ExpressionAttributeNames: stateName,
			ExpressionAttributeValues: map[string]types.AttributeValue{
				":prepared": text(string(payment.Prepared)), ":revision": text(p.Revision),
				":committed": text(string(p.State)), ":nonce": number(p.Nonce), ":attempts": attempt, ":hash": text(p.TxHash.String()),
				":version": number(uint64(p.Version)), ":at": moment(p.UpdatedAt),
				":list": text(listPK(p.Merchant, p.Mode)), ":place": text(listSK(p.CreatedAt, string(p.ID))),
			},
		}},
		s.putAbsent(pendingTx),
		s.putHash(p.TxHash.String(), p.ID),
	)
	switch {
	case err != nil:
		return fmt.Errorf("committing %s: %w", p.ID, err)
	case failed == 0:
		return store.ErrChanged
	case failed > 0:
		return store.ErrNonceTaken
	default:
		return nil
	}
}

// AddAttempt implements store.PendingTxs with one transaction: the payment, its
// pending transaction, the new hash.
func (s *Payments) AddAttempt(ctx context.Context, p payment.Payment) error {
	attempt, err := encodeAttempt(p.LastAttempt())
	if err != nil {
		return fmt.Errorf("encoding %s: %w", p.ID, err)
	}
	pendingTx := store.PendingTxOf(p)
	earlier := pendingTx.Hashes[:len(pendingTx.Hashes)-1]
	names := map[string]string{"#state": attrState, "#hash": "hash"}
	values := map[string]types.AttributeValue{
		":committed": text(string(payment.Committed)), ":attempt": attempt, ":count": number(uint64(len(earlier))),
	}
	same := strings.Builder{}
	same.WriteString("#state = :committed AND size(attempts) = :count")
	for i, h := range earlier {
		fmt.Fprintf(&same, " AND attempts[%d].#hash = :h%d", i, i)
		values[fmt.Sprintf(":h%d", i)] = text(h.String())
	}
	failed, err := transact(ctx, s.db,
		types.TransactWriteItem{Update: &types.Update{
			TableName:                 &s.table,
			Key:                       paymentKey(string(p.ID)),
			UpdateExpression:          aws.String("SET attempts = list_append(attempts, :attempt)"),
			ConditionExpression:       aws.String(same.String()),
			ExpressionAttributeNames:  names,
			ExpressionAttributeValues: values,
		}},
		s.bumpPendingTx(pendingTx),
		s.putHash(pendingTx.Hash().String(), p.ID),
	)
	switch {
	case err != nil:
		return fmt.Errorf("adding an attempt to %s: %w", p.ID, err)
	case failed >= 0:
		return store.ErrChanged
	default:
		return nil
	}
}

// PutNoop implements store.PendingTxs with one transaction: the pending
// transaction, its hash.
func (s *Payments) PutNoop(ctx context.Context, n wallet.PendingTx) error {
	pendingTx, err := encodePendingTx(n)
	if err != nil {
		return err
	}
	failed, err := transact(ctx, s.db, s.putAbsent(pendingTx), s.putHash(n.Hash().String(), ""))
	switch {
	case err != nil:
		return fmt.Errorf("putting a no-op at %s: %w", placeOf(n.ID, n.Nonce), err)
	case failed >= 0:
		return store.ErrNonceTaken
	default:
		return nil
	}
}

// BumpNoop implements store.PendingTxs with one transaction: the pending
// transaction, the new hash.
func (s *Payments) BumpNoop(ctx context.Context, n wallet.PendingTx) error {
	failed, err := transact(ctx, s.db, s.bumpPendingTx(n), s.putHash(n.Hash().String(), ""))
	switch {
	case err != nil:
		return fmt.Errorf("bumping the no-op at %s: %w", placeOf(n.ID, n.Nonce), err)
	case failed >= 0:
		return store.ErrChanged
	default:
		return nil
	}
}

// putAbsent puts an item where there is none.
func (s *Payments) putAbsent(item map[string]types.AttributeValue) types.TransactWriteItem {
	return types.TransactWriteItem{Put: &types.Put{
		TableName: &s.table, Item: item, ConditionExpression: aws.String("attribute_not_exists(pk)"),
	}}
}

// putHash makes a hash lead to a payment, or to none for a no-op. The hash of
// given bytes always leads to the same.
func (s *Payments) putHash(hash string, id payment.ID) types.TransactWriteItem {
	item := txKey(hash)
	if id != "" {
		item["payment_id"] = text(string(id))
	}
	return types.TransactWriteItem{Put: &types.Put{TableName: &s.table, Item: item}}
}

// bumpPendingTx sets the newest attempt of n if the stored pending transaction
// holds exactly the attempts before it.
func (s *Payments) bumpPendingTx(n wallet.PendingTx) types.TransactWriteItem {
	last := len(n.Hashes) - 1
	condition := "hashes = :earlier AND attribute_not_exists(payment_id)"
	values := map[string]types.AttributeValue{
		":earlier": texts(n.Hashes[:last]), ":hash": texts(n.Hashes[last:]), ":raw": binary(n.Raw),
		":tip": text(n.Fees.Tip.String()), ":cap": text(n.Fees.Cap.String()), ":at": instant(n.At), ":gas": text(n.Gas.String()),
	}
	if !n.Noop() {
		condition = "hashes = :earlier AND payment_id = :id"
		values[":id"] = text(string(n.Payment))
	}
	return types.TransactWriteItem{Update: &types.Update{
		TableName: &s.table,
		Key:       pendingTxKey(n.ChainID, n.Address.String(), n.Nonce),
		UpdateExpression: aws.String("SET hashes = list_append(hashes, :hash), raw_bytes = :raw, tip = :tip, fee_cap = :cap, " +
			"signed_at = :at, gas_held = :gas"),
		ConditionExpression:       &condition,
		ExpressionAttributeValues: values,
	}}
}

// PendingTxs implements store.PendingTxs with one query, strongly consistent.
func (s *Payments) PendingTxs(ctx context.Context, id wallet.ID) (pendingTxs []wallet.PendingTx, unreadable int, err error) {
	pendingTxs = []wallet.PendingTx{}
	pages := dynamodb.NewQueryPaginator(s.db, &dynamodb.QueryInput{
		TableName:              &s.table,
		KeyConditionExpression: aws.String("pk = :wallet AND begins_with(sk, :pendingtx)"),
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":wallet": text(walletPK(id.ChainID, id.Address.String())), ":pendingtx": text(pendingTxPrefix),
		},
		ConsistentRead: aws.Bool(true),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, 0, fmt.Errorf("reading the pending transactions of %s: %w", id.Address, err)
		}
		for _, item := range page.Items {
			pendingTx, err := decodePendingTx(id, item)
			if err != nil {
				unreadable++
				continue
			}
			pendingTxs = append(pendingTxs, pendingTx)
		}
	}
	return pendingTxs, unreadable, nil
}

// PendingTx implements store.PendingTxs.
func (s *Payments) PendingTx(ctx context.Context, id wallet.ID, nonce uint64) (wallet.PendingTx, error) {
	item, err := s.item(ctx, pendingTxKey(id.ChainID, id.Address.String(), nonce))
	if err != nil {
		return wallet.PendingTx{}, fmt.Errorf("reading the pending transaction at %s: %w", placeOf(id, nonce), err)
	}
	if item == nil {
		return wallet.PendingTx{}, wallet.ErrUnknown
	}
	return decodePendingTx(id, item)
}

// DeletePendingTx implements store.PendingTxs.
func (s *Payments) DeletePendingTx(ctx context.Context, id wallet.ID, nonce uint64) error {
	_, err := s.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName: &s.table,
		Key:       pendingTxKey(id.ChainID, id.Address.String(), nonce),
	}, conflicts)
	if err != nil {
		return fmt.Errorf("deleting the pending transaction at %s: %w", placeOf(id, nonce), err)
	}
	return nil
}
