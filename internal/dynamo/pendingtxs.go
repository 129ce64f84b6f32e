package dynamo

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"remit/internal/chain"
	"remit/internal/payment"
	"remit/internal/store"
	"remit/internal/wallet"
)

// Commit implements store.PendingTxs with one transaction: the payment, its
// pending transaction, its hash. The payment's revision goes: no condition
// compares it any more. A caller that repeats Commit after a lost answer
// gets ErrChanged and reads the payment again.
func (s *Payments) Commit(ctx context.Context, p payment.Payment) error {
	attempt, err := encodeAttempt(p.LastAttempt())
	if err != nil {
		return fmt.Errorf("encoding %s: %w", p.ID, err)
	}
	tx, err := encodePendingTx(store.PendingTxOf(p))
	if err != nil {
		return err
	}
	return transact(ctx, s.db, "committing "+string(p.ID),
		write{types.TransactWriteItem{Update: &types.Update{
			TableName: &s.table,
			Key:       paymentKey(string(p.ID)),
			UpdateExpression: aws.String("SET #state = :committed, nonce = :nonce, attempts = :attempts, tx_hash = :hash, " +
				"version = :version, updated_at = :at, list_pk = :list, list_sk = :place REMOVE revision"),
			ConditionExpression:      aws.String("#state = :prepared AND revision = :revision"),
			ExpressionAttributeNames: stateName,
			ExpressionAttributeValues: attributes{
				":prepared": text(string(payment.Prepared)), ":revision": text(p.Revision),
				":committed": text(string(p.State)), ":nonce": number(p.Nonce), ":attempts": attempt, ":hash": text(p.TxHash.String()),
				":version": number(uint64(p.Version)), ":at": moment(p.UpdatedAt),
				":list": text(listPK(p.Merchant, p.Mode)), ":place": text(listSK(p.CreatedAt, string(p.ID))),
			},
		}}, store.ErrChanged},
		s.putAbsent(tx, store.ErrNonceTaken),
		s.putHash(p.TxHash, p.ID),
	)
}

// AddAttempt implements store.PendingTxs with one transaction: the payment, its
// pending transaction, the new hash.
func (s *Payments) AddAttempt(ctx context.Context, p payment.Payment) error {
	attempt, err := encodeAttempt(p.LastAttempt())
	if err != nil {
		return fmt.Errorf("encoding %s: %w", p.ID, err)
	}
	tx := store.PendingTxOf(p)
	earlier := tx.Hashes[:len(tx.Hashes)-1]
	names := map[string]string{"#state": attrState, "#hash": "hash"}
	values := attributes{
		":committed": text(string(payment.Committed)), ":attempt": attempt, ":count": number(uint64(len(earlier))),
	}
	same := strings.Builder{}
	same.WriteString("#state = :committed AND size(attempts) = :count")
	for i, h := range earlier {
		fmt.Fprintf(&same, " AND attempts[%d].#hash = :h%d", i, i)
		values[fmt.Sprintf(":h%d", i)] = text(h.String())
	}
	return transact(ctx, s.db, "adding an attempt to "+string(p.ID),
		write{types.TransactWriteItem{Update: &types.Update{
			TableName:                 &s.table,
			Key:                       paymentKey(string(p.ID)),
			UpdateExpression:          aws.String("SET attempts = list_append(attempts, :attempt)"),
			ConditionExpression:       aws.String(same.String()),
			ExpressionAttributeNames:  names,
			ExpressionAttributeValues: values,
		}}, store.ErrChanged},
		s.bumpPendingTx(tx),
		s.putHash(tx.Hash(), p.ID),
	)
}

// PutNoop implements store.PendingTxs with one transaction: the pending
// transaction, its hash.
func (s *Payments) PutNoop(ctx context.Context, tx wallet.PendingTx) error {
	item, err := encodePendingTx(tx)
	if err != nil {
		return err
	}
	return transact(ctx, s.db, "putting a no-op at "+placeOf(tx.ID, tx.Nonce),
		s.putAbsent(item, store.ErrNonceTaken), s.putHash(tx.Hash(), ""))
}

// BumpNoop implements store.PendingTxs with one transaction: the pending
// transaction, the new hash.
func (s *Payments) BumpNoop(ctx context.Context, tx wallet.PendingTx) error {
	return transact(ctx, s.db, "bumping the no-op at "+placeOf(tx.ID, tx.Nonce),
		s.bumpPendingTx(tx), s.putHash(tx.Hash(), ""))
}

// put puts an item over any other under its key.
func (s *Payments) put(item attributes) write {
	return write{types.TransactWriteItem{Put: &types.Put{TableName: &s.table, Item: item}}, nil}
}

// putAbsent puts an item if none is stored under its key, else it is refused
// with refusal.
func (s *Payments) putAbsent(item attributes, refusal error) write {
	w := s.put(item)
	w.Put.ConditionExpression, w.refusal = aws.String("attribute_not_exists(pk)"), refusal
	return w
}

// putHash makes a hash lead to a payment, or to none for a no-op, whose id is
// empty. It needs no condition: the same bytes always lead to the same payment.
func (s *Payments) putHash(hash chain.Hash, id payment.ID) write {
	item := txKey(hash.String())
	if id != "" {
		item["payment_id"] = text(string(id))
	}
	return s.put(item)
}

// bumpPendingTx sets the newest attempt of tx if the stored pending transaction
// has exactly the attempts before it, else it is refused with ErrChanged.
func (s *Payments) bumpPendingTx(tx wallet.PendingTx) write {
	last := len(tx.Hashes) - 1
	condition := "hashes = :earlier AND attribute_not_exists(payment_id)"
	values := attributes{
		":earlier": texts(tx.Hashes[:last]), ":hash": texts(tx.Hashes[last:]), ":raw": binary(tx.Raw),
		":tip": text(tx.Fees.Tip.String()), ":cap": text(tx.Fees.Cap.String()), ":at": instant(tx.At), ":gas": text(tx.Gas.String()),
	}
	if !tx.Noop() {
		condition = "hashes = :earlier AND payment_id = :id"
		values[":id"] = text(string(tx.Payment))
	}
	return write{types.TransactWriteItem{Update: &types.Update{
		TableName: &s.table,
		Key:       pendingTxKey(tx.ChainID, tx.Address.String(), tx.Nonce),
		UpdateExpression: aws.String("SET hashes = list_append(hashes, :hash), raw_bytes = :raw, tip = :tip, fee_cap = :cap, " +
			"signed_at = :at, gas_held = :gas"),
		ConditionExpression:       &condition,
		ExpressionAttributeValues: values,
	}}, store.ErrChanged}
}

// PendingTxs implements store.PendingTxs with one query, strongly consistent.
func (s *Payments) PendingTxs(ctx context.Context, id wallet.ID) (txs []wallet.PendingTx, unreadable int, err error) {
	txs = []wallet.PendingTx{}
	for item, err := range query(ctx, s.db, &dynamodb.QueryInput{
		TableName:              &s.table,
		KeyConditionExpression: aws.String("pk = :wallet AND begins_with(sk, :pendingtx)"),
		ExpressionAttributeValues: attributes{
			":wallet": text(walletPK(id.ChainID, id.Address.String())), ":pendingtx": text(pendingTxPrefix),
		},
		ConsistentRead: aws.Bool(true),
	}) {
		if err != nil {
			return nil, 0, fmt.Errorf("reading the pending transactions of %s: %w", id.Address, err)
		}
		tx, err := decodePendingTx(id, item)
		if err != nil {
			unreadable++
			continue
		}
		txs = append(txs, tx)
	}
	return txs, unreadable, nil
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
