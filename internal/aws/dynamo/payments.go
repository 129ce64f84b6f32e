package dynamo

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// Payments is the store.Store kept in the table Payments: payments, wallets,
// pending transactions and daily limits. A function may call the methods that
// its role has rights for.
//
// Updates set attributes one by one and never put an item over an existing one:
// while a deployment is under way, an older binary must not erase the attributes
// that a newer one has added.
type Payments struct{ table }

var _ store.Store = (*Payments)(nil)

// NewPayments returns the store kept in the table of that name.
func NewPayments(db *dynamodb.Client, name string) *Payments { return &Payments{table{db, name}} }

// OpenPayments returns the payments of a table in the account of config.
func OpenPayments(config aws.Config, name string) *Payments {
	return NewPayments(dynamodb.NewFromConfig(config), name)
}

// Create implements store.Payments. When the SDK repeats the put after a lost
// answer and meets a Prepared payment with the revision of p, that is p itself,
// stored by the first put: the revision covers the request, the transaction and
// the time.
func (s *Payments) Create(ctx context.Context, p payment.Payment) (payment.Payment, bool, error) {
	if err := store.FitsPayment(p); err != nil {
		return payment.Payment{}, false, err
	}
	sent := 0
	_, err := s.db.PutItem(ctx, &dynamodb.PutItemInput{
		TableName:                           &s.name,
		Item:                                encodePayment(p),
		ConditionExpression:                 aws.String("attribute_not_exists(pk)"),
		ReturnValuesOnConditionCheckFailure: allOld,
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
	return get(ctx, s.table, paymentKey(string(id)), string(id), store.ErrNotFound, decodePayment)
}

// PaymentByHash implements store.Payments with two reads.
func (s *Payments) PaymentByHash(ctx context.Context, hash chain.Hash) (payment.Payment, error) {
	id, err := get(ctx, s.table, txKey(hash.String()), hash.String(), store.ErrNotFound, decodeHash)
	if err != nil {
		return payment.Payment{}, err
	}
	return s.Payment(ctx, id)
}

// decodeHash reads the payment that a hash leads to. A no-op's leads to none.
func decodeHash(item attributes) (payment.ID, error) {
	var it struct {
		PaymentID payment.ID `dynamodbav:"payment_id"`
	}
	r := read(item, &it)
	if it.PaymentID == "" && len(r.errs) == 0 {
		return "", store.ErrNotFound
	}
	return readable(r, it.PaymentID, "a hash")
}

// Reassign implements store.Payments. A payment that has p's revision already
// is left so: the SDK may have repeated the write.
func (s *Payments) Reassign(ctx context.Context, p payment.Payment, old string) error {
	if err := store.FitsPayment(p); err != nil {
		return err
	}
	_, err := s.update(ctx, &dynamodb.UpdateItemInput{
		Key: paymentKey(string(p.ID)),
		UpdateExpression: aws.String("SET wallet = :wallet, chain_id = :chain, memo = :memo, " +
			"tx_gas = :gas, tx_tip = :tip, tx_cap = :cap, tx_l1_fee = :l1, revision = :revision"),
		ConditionExpression:      aws.String("#state = :prepared AND (revision = :old OR revision = :revision)"),
		ExpressionAttributeNames: stateName,
		ExpressionAttributeValues: attributes{
			":wallet": text(p.Wallet.String()), ":chain": number(p.Tx.ChainID), ":memo": &types.AttributeValueMemberBOOL{Value: p.Memo()},
			":gas": number(p.Tx.Gas), ":tip": text(p.Tx.Fees.Tip.String()),
			":cap": text(p.Tx.Fees.Cap.String()), ":l1": text(p.Tx.L1Fee.String()), ":revision": text(p.Revision), ":old": text(old),
			":prepared": text(string(payment.Prepared)),
		},
	})
	return outcome(err, store.ErrChanged, "reassigning "+string(p.ID))
}

// stateName is the placeholder of the attribute state, a reserved word.
var stateName = map[string]string{"#state": attrState}

// Discard implements store.Payments. When the SDK repeats it after a lost answer
// the payment is gone, and the caller gets ErrChanged: whether this call or
// another one removed the payment, and so may refund it, is not known any more.
func (s *Payments) Discard(ctx context.Context, p payment.Payment) error {
	_, err := s.db.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName:                &s.name,
		Key:                      paymentKey(string(p.ID)),
		ConditionExpression:      aws.String("#state = :prepared AND revision = :revision"),
		ExpressionAttributeNames: stateName,
		ExpressionAttributeValues: attributes{
			":prepared": text(string(payment.Prepared)), ":revision": text(p.Revision),
		},
	}, conflicts)
	return outcome(err, store.ErrChanged, "discarding "+string(p.ID))
}

// Adopt implements store.Payments. When the SDK repeats it after a lost answer the
// payment has a merchant, and the caller gets ErrChanged.
func (s *Payments) Adopt(ctx context.Context, p payment.Payment) error {
	if err := store.FitsPayment(p); err != nil {
		return err
	}
	set := "SET merchant_id = :merchant, #mode = :mode, idempotency_key = :key, fingerprint = :fingerprint, list_pk = :list, list_sk = :place"
	names := map[string]string{"#state": attrState, "#mode": "mode"}
	values := attributes{
		":nobody": text(""), ":prepared": text(string(payment.Prepared)),
		":merchant": text(p.Merchant), ":mode": text(p.Mode), ":key": text(p.IdempotencyKey), ":fingerprint": text(p.Fingerprint),
		":list": text(listPK(p.Merchant, p.Mode, string(p.ID))), ":place": text(listSK(p.CreatedAt, string(p.ID))),
	}
	if p.Reference != "" {
		set, names["#reference"], values[":reference"] = set+", #reference = :reference", "reference", text(p.Reference)
	}
	if len(p.Metadata) > 0 {
		set, names["#metadata"], values[":metadata"] = set+", #metadata = :metadata", "metadata",
			encode(struct{ M map[string]string }{p.Metadata})["M"]
	}
	if p.Entries != nil {
		set, names["#references"], values[":references"] = set+", #references = :references", "references", encodeReferences(p.Entries)
	}
	_, err := s.update(ctx, &dynamodb.UpdateItemInput{
		Key:                       paymentKey(string(p.ID)),
		UpdateExpression:          &set,
		ConditionExpression:       aws.String("merchant_id = :nobody AND #state <> :prepared"),
		ExpressionAttributeNames:  names,
		ExpressionAttributeValues: values,
	})
	return outcome(err, store.ErrChanged, "adopting "+string(p.ID))
}

// Redact implements store.Payments. The list reads the same item.
func (s *Payments) Redact(ctx context.Context, p payment.Payment) error {
	if err := store.FitsPayment(p); err != nil {
		return err
	}
	set := "SET event_body = :body"
	names := map[string]string{"#state": attrState, "#reference": "reference"}
	values := attributes{":body": binary(p.Event.Body), ":confirmed": text(string(payment.Confirmed)), ":failed": text(string(payment.Failed))}
	if p.Entries != nil {
		set, names["#references"], values[":references"] = set+", #references = :references", "references", encodeReferences(p.Entries)
	}
	_, err := s.update(ctx, &dynamodb.UpdateItemInput{
		Key:                       paymentKey(string(p.ID)),
		UpdateExpression:          aws.String(set + " REMOVE #reference, metadata"),
		ConditionExpression:       aws.String("#state IN (:confirmed, :failed)"),
		ExpressionAttributeNames:  names,
		ExpressionAttributeValues: values,
	})
	return outcome(err, store.ErrChanged, "redacting "+string(p.ID))
}

// Finish implements store.Payments. When the SDK repeats it after a lost answer
// the payment is final, and the caller gets ErrChanged.
func (s *Payments) Finish(ctx context.Context, p payment.Payment) error {
	if err := store.FitsPayment(p); err != nil {
		return err
	}
	set := "SET #state = :state, version = :version, updated_at = :at"
	values := attributes{
		":committed": text(string(payment.Committed)), ":state": text(string(p.State)),
		":version": number(uint64(p.Version)), ":at": text(moment(p.UpdatedAt)),
	}
	if !p.Onchain.IsZero() {
		set += ", onchain_tx_hash = :onchain, block_number = :block"
		values[":onchain"], values[":block"] = text(p.Onchain.String()), number(p.Block)
	}
	if p.Fee != nil {
		set += ", network_fee = :fee"
		values[":fee"] = text(p.Fee.String())
	}
	if p.Failure != nil {
		set += ", failure_code = :code, failure_message = :message"
		values[":code"], values[":message"] = text(string(p.Failure.Code)), text(p.Failure.Message)
	}
	if p.Event != nil {
		set += ", event_id = :event, event_type = :type, event_body = :body"
		values[":event"], values[":type"], values[":body"] = text(p.Event.ID), text(p.Event.Type), binary(p.Event.Body)
	}
	_, err := s.update(ctx, &dynamodb.UpdateItemInput{
		Key:                       paymentKey(string(p.ID)),
		UpdateExpression:          &set,
		ConditionExpression:       aws.String("#state = :committed"),
		ExpressionAttributeNames:  stateName,
		ExpressionAttributeValues: values,
	})
	return outcome(err, store.ErrChanged, "finishing "+string(p.ID))
}
