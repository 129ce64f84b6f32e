package dynamo

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"remit/internal/chain"
	"remit/internal/payment"
	"remit/internal/store"
)

// Payments is the store.Store kept in the table Payments: payments, wallets,
// pending transactions and daily limits. A function may call the methods that
// its role has rights for.
//
// Updates set attributes one by one and never put an item over an existing one:
// while a deployment is under way, an older binary must not erase the attributes
// that a newer one has added.
type Payments struct {
	db    *dynamodb.Client
	table string
}

var _ store.Store = (*Payments)(nil)

// NewPayments returns the store kept in table.
func NewPayments(db *dynamodb.Client, table string) *Payments { return &Payments{db, table} }

// Create implements store.Payments. When the SDK repeats the put after a lost
// answer and meets a Prepared payment with the revision of p, that is p itself,
// stored by the first put: the revision covers the request, the transaction and
// the time.
func (s *Payments) Create(ctx context.Context, p payment.Payment) (payment.Payment, bool, error) {
	item, err := encodePayment(p)
	if err != nil {
		return payment.Payment{}, false, err
	}
	sent := 0
	_, err = s.db.PutItem(ctx, &dynamodb.PutItemInput{
		TableName:                           &s.table,
		Item:                                item,
		ConditionExpression:                 aws.String("attribute_not_exists(pk)"),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}, conflicts, counting(&sent))
	if there, ok := refused(err); ok && there != nil {
		stored, err := decodePayment(there)
		if err != nil {
			return payment.Payment{}, false, err
		}
		own := sent > 1 && stored.State == payment.Prepared && stored.Revision == p.Revision
		return stored, own, nil
	}
	if err != nil {
		return payment.Payment{}, false, fmt.Errorf("putting %s: %w", p.ID, err)
	}
	return p, true, nil
}

// Payment implements store.Payments.
func (s *Payments) Payment(ctx context.Context, id payment.ID) (payment.Payment, error) {
	item, err := s.item(ctx, paymentKey(string(id)))
	if err != nil {
		return payment.Payment{}, fmt.Errorf("reading %s: %w", id, err)
	}
	if item == nil {
		return payment.Payment{}, store.ErrNotFound
	}
	return decodePayment(item)
}

// item reads one item, strongly consistent; nil if there is none.
func (s *Payments) item(ctx context.Context, k primaryKey) (attributes, error) {
	out, err := s.db.GetItem(ctx, &dynamodb.GetItemInput{TableName: &s.table, Key: k, ConsistentRead: aws.Bool(true)})
	if err != nil {
		return nil, err
	}
	return out.Item, nil
}

// PaymentByHash implements store.Payments with two reads.
func (s *Payments) PaymentByHash(ctx context.Context, hash chain.Hash) (payment.Payment, error) {
	item, err := s.item(ctx, txKey(hash.String()))
	if err != nil {
		return payment.Payment{}, fmt.Errorf("reading %s: %w", hash, err)
	}
	var it hashItem
	if err := attributevalue.UnmarshalMap(item, &it); err != nil {
		return payment.Payment{}, fmt.Errorf("%w: %s: %w", store.ErrUnreadable, hash, err)
	}
	if it.PaymentID == "" {
		return payment.Payment{}, store.ErrNotFound
	}
	return s.Payment(ctx, payment.ID(it.PaymentID))
}

// hashItem is the item of a transaction hash. A no-op's has no payment.
type hashItem struct {
	PaymentID string `dynamodbav:"payment_id"`
}

// Reassign implements store.Payments. A payment that has p's revision already
// is left so: the SDK may have repeated the write.
func (s *Payments) Reassign(ctx context.Context, p payment.Payment, old string) error {
	_, err := s.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &s.table,
		Key:       paymentKey(string(p.ID)),
		UpdateExpression: aws.String("SET wallet = :wallet, chain_id = :chain, tx_to = :to, tx_data = :data, " +
			"tx_gas = :gas, tx_tip = :tip, tx_cap = :cap, revision = :revision"),
		ConditionExpression:      aws.String("#state = :prepared AND (revision = :old OR revision = :revision)"),
		ExpressionAttributeNames: stateName,
		ExpressionAttributeValues: attributes{
			":wallet": text(p.Wallet.String()), ":chain": number(p.Tx.ChainID), ":to": text(p.Tx.To.String()),
			":data": binary(p.Tx.Data), ":gas": number(p.Tx.Gas), ":tip": text(p.Tx.Fees.Tip.String()),
			":cap": text(p.Tx.Fees.Cap.String()), ":revision": text(p.Revision), ":old": text(old),
			":prepared": text(string(payment.Prepared)),
		},
	}, conflicts)
	return changed(err, "reassigning "+string(p.ID))
}

// stateName is the placeholder of the attribute state, a reserved word.
var stateName = map[string]string{"#state": attrState}

// changed returns store.ErrChanged if err is a failed condition.
func changed(err error, doing string) error {
	if _, ok := refused(err); ok {
		return store.ErrChanged
	}
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// Discard implements store.Payments. When the SDK repeats it after a lost answer
// the payment is gone, and the caller gets ErrChanged: whether this call or
// another one removed the payment, and so may refund it, is not known any more.
func (s *Payments) Discard(ctx context.Context, p payment.Payment) error {
	_, err := s.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName:                &s.table,
		Key:                      paymentKey(string(p.ID)),
		ConditionExpression:      aws.String("#state = :prepared AND revision = :revision"),
		ExpressionAttributeNames: stateName,
		ExpressionAttributeValues: attributes{
			":prepared": text(string(payment.Prepared)), ":revision": text(p.Revision),
		},
	}, conflicts)
	return changed(err, "discarding "+string(p.ID))
}

// Finish implements store.Payments. When the SDK repeats it after a lost answer
// the payment is final, and the caller gets ErrChanged.
func (s *Payments) Finish(ctx context.Context, p payment.Payment) error {
	set := "SET #state = :state, version = :version, updated_at = :at"
	values := attributes{
		":committed": text(string(payment.Committed)), ":state": text(string(p.State)),
		":version": number(uint64(p.Version)), ":at": moment(p.UpdatedAt),
	}
	if !p.Onchain.IsZero() {
		set += ", onchain_tx_hash = :onchain, block_number = :block"
		values[":onchain"], values[":block"] = text(p.Onchain.String()), number(p.Block)
	}
	if p.Failure != nil {
		set += ", failure_code = :code, failure_message = :message"
		values[":code"], values[":message"] = text(string(p.Failure.Code)), text(p.Failure.Message)
	}
	if p.Event != nil {
		set += ", event_id = :event, event_type = :type, event_body = :body"
		values[":event"], values[":type"], values[":body"] = text(p.Event.ID), text(p.Event.Type), binary(p.Event.Body)
	}
	_, err := s.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                 &s.table,
		Key:                       paymentKey(string(p.ID)),
		UpdateExpression:          &set,
		ConditionExpression:       aws.String("#state = :committed"),
		ExpressionAttributeNames:  stateName,
		ExpressionAttributeValues: values,
	}, conflicts)
	return changed(err, "finishing "+string(p.ID))
}
