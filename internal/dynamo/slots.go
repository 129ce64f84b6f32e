package dynamo

import (
	"context"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"remit/internal/payment"
	"remit/internal/wallet"
)

// spent is the pin of a sealed payment. Nothing compares it any more; a release
// that may still meet this one's items takes an item without a pin for damaged.
const spent = "-"

// Seal implements wallet.Slots with one transaction: the payment, its slot,
// its hash. A caller that repeats it after a lost answer gets ErrChanged and
// reads the payment again.
func (s *Payments) Seal(ctx context.Context, p payment.Payment) error {
	attempt, err := encodeAttempt(p.LastAttempt())
	if err != nil {
		return fmt.Errorf("encoding %s: %w", p.ID, err)
	}
	slot, err := encodeSlot(wallet.SlotOf(p))
	if err != nil {
		return err
	}
	failed, err := transact(ctx, s.db,
		types.TransactWriteItem{Update: &types.Update{
			TableName: &s.table,
			Key:       paymentKey(string(p.ID)),
			UpdateExpression: aws.String("SET #state = :sealed, nonce = :nonce, attempts = :attempts, tx_hash = :hash, " +
				"version = :version, updated_at = :at, list_pk = :list, list_sk = :place, pin = :spent"),
			ConditionExpression:      aws.String("#state = :unsealed AND pin = :pin"),
			ExpressionAttributeNames: stateName,
			ExpressionAttributeValues: map[string]types.AttributeValue{
				":unsealed": text(string(payment.Unsealed)), ":pin": text(p.Pin), ":spent": text(spent),
				":sealed": text(string(p.State)), ":nonce": number(p.Nonce), ":attempts": attempt, ":hash": text(p.TxHash.String()),
				":version": number(uint64(p.Version)), ":at": moment(p.UpdatedAt),
				":list": text(listPK(p.Merchant, p.Mode)), ":place": text(listSK(p.CreatedAt, string(p.ID))),
			},
		}},
		s.putAbsent(slot),
		s.putHash(p.TxHash.String(), p.ID),
	)
	switch {
	case err != nil:
		return fmt.Errorf("sealing %s: %w", p.ID, err)
	case failed == 0:
		return payment.ErrChanged
	case failed > 0:
		return wallet.ErrSlotTaken
	default:
		return nil
	}
}

// AddAttempt implements wallet.Slots with one transaction: the payment, its
// slot, the new hash.
func (s *Payments) AddAttempt(ctx context.Context, p payment.Payment) error {
	attempt, err := encodeAttempt(p.LastAttempt())
	if err != nil {
		return fmt.Errorf("encoding %s: %w", p.ID, err)
	}
	slot := wallet.SlotOf(p)
	earlier := slot.Hashes[:len(slot.Hashes)-1]
	names := map[string]string{"#state": attrState, "#hash": "hash"}
	values := map[string]types.AttributeValue{
		":sealed": text(string(payment.Sealed)), ":attempt": attempt, ":count": number(uint64(len(earlier))),
	}
	same := strings.Builder{}
	same.WriteString("#state = :sealed AND size(attempts) = :count")
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
		s.bumpSlot(slot),
		s.putHash(slot.Hash().String(), p.ID),
	)
	switch {
	case err != nil:
		return fmt.Errorf("adding an attempt to %s: %w", p.ID, err)
	case failed >= 0:
		return wallet.ErrChanged
	default:
		return nil
	}
}

// PutNoop implements wallet.Slots with one transaction: the slot, its hash.
func (s *Payments) PutNoop(ctx context.Context, n wallet.Slot) error {
	slot, err := encodeSlot(n)
	if err != nil {
		return err
	}
	failed, err := transact(ctx, s.db, s.putAbsent(slot), s.putHash(n.Hash().String(), ""))
	switch {
	case err != nil:
		return fmt.Errorf("putting a no-op at %s: %w", placeOf(n.ID, n.Nonce), err)
	case failed >= 0:
		return wallet.ErrSlotTaken
	default:
		return nil
	}
}

// BumpNoop implements wallet.Slots with one transaction: the slot, the new
// hash.
func (s *Payments) BumpNoop(ctx context.Context, n wallet.Slot) error {
	failed, err := transact(ctx, s.db, s.bumpSlot(n), s.putHash(n.Hash().String(), ""))
	switch {
	case err != nil:
		return fmt.Errorf("bumping the no-op at %s: %w", placeOf(n.ID, n.Nonce), err)
	case failed >= 0:
		return wallet.ErrChanged
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

// bumpSlot sets the newest attempt of n if the slot holds exactly the ones
// before it.
func (s *Payments) bumpSlot(n wallet.Slot) types.TransactWriteItem {
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
		Key:       slotKey(n.ChainID, n.Address.String(), n.Nonce),
		UpdateExpression: aws.String("SET hashes = list_append(hashes, :hash), raw_bytes = :raw, tip = :tip, fee_cap = :cap, " +
			"signed_at = :at, gas_held = :gas"),
		ConditionExpression:       &condition,
		ExpressionAttributeValues: values,
	}}
}

// Slots implements wallet.Slots with one query, strongly consistent.
func (s *Payments) Slots(ctx context.Context, id wallet.ID) (slots []wallet.Slot, unreadable int, err error) {
	slots = []wallet.Slot{}
	pages := dynamodb.NewQueryPaginator(s.db, &dynamodb.QueryInput{
		TableName:              &s.table,
		KeyConditionExpression: aws.String("pk = :wallet AND begins_with(sk, :slot)"),
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":wallet": text(walletPK(id.ChainID, id.Address.String())), ":slot": text(slotPrefix),
		},
		ConsistentRead: aws.Bool(true),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, 0, fmt.Errorf("reading the slots of %s: %w", id.Address, err)
		}
		for _, item := range page.Items {
			slot, err := decodeSlot(id, item)
			if err != nil {
				unreadable++
				continue
			}
			slots = append(slots, slot)
		}
	}
	return slots, unreadable, nil
}

// Slot implements wallet.Slots.
func (s *Payments) Slot(ctx context.Context, id wallet.ID, nonce uint64) (wallet.Slot, error) {
	item, err := s.item(ctx, slotKey(id.ChainID, id.Address.String(), nonce))
	if err != nil {
		return wallet.Slot{}, fmt.Errorf("reading the slot at %s: %w", placeOf(id, nonce), err)
	}
	if item == nil {
		return wallet.Slot{}, wallet.ErrUnknown
	}
	return decodeSlot(id, item)
}

// DeleteSlot implements wallet.Slots.
func (s *Payments) DeleteSlot(ctx context.Context, id wallet.ID, nonce uint64) error {
	_, err := s.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName: &s.table,
		Key:       slotKey(id.ChainID, id.Address.String(), nonce),
	}, conflicts)
	if err != nil {
		return fmt.Errorf("deleting the slot at %s: %w", placeOf(id, nonce), err)
	}
	return nil
}
