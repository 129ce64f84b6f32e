package dynamo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// Payments is the store.Store kept in the table Payments: payments, wallets, pending transactions and daily limits. A
// function may call the methods that its role has rights for.
//
// Updates set attributes one by one and never put an item over an existing one: while a deployment is under way, an
// older binary must not erase the attributes that a newer one has added.
type Payments struct{ table }

var _ store.Store = (*Payments)(nil)

// NewPayments returns the store kept in the table of that name.
func NewPayments(db *dynamodb.Client, name string) *Payments { return &Payments{table{db, name}} }

// OpenPayments returns the payments of a table in the account of config.
func OpenPayments(config aws.Config, name string) *Payments {
	return NewPayments(dynamodb.NewFromConfig(config), name)
}

// Create implements store.Payments. When the SDK repeats the put after a lost answer and meets a Prepared payment with
// p's revision, that is p itself, stored by the first put: a revision covers request, transaction and time.
func (s *Payments) Create(ctx context.Context, p payment.Payment) (payment.Payment, bool, error) {
	if err := store.FitsPayment(p); err != nil {
		return payment.Payment{}, false, err
	}
	sent := 0
	err := s.insert(ctx, encodePayment(p), counting(&sent))
	if there, ok := refused(err); ok && there != nil {
		stored, err := decodePayment(there)
		return stored, err == nil && sent > 1 && stored.State == payment.Prepared && stored.Revision == p.Revision, err
	}
	if err != nil {
		return payment.Payment{}, false, fmt.Errorf("putting %s: %w", p.ID, err)
	}
	return p, true, nil
}

func (s *Payments) Payment(ctx context.Context, id payment.ID) (payment.Payment, error) {
	return get(ctx, s.table, paymentKey(id), string(id), store.ErrNotFound, decodePayment)
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

// Reassign implements store.Payments. A payment with p's revision stays: the SDK may have repeated the write.
func (s *Payments) Reassign(ctx context.Context, p payment.Payment, old string) error {
	return s.make(ctx, change{
		fits: store.FitsPayment(p), key: paymentKey(p.ID),
		do: "SET wallet = :wallet, chain_id = :chain, memo = :memo, " +
			"tx_gas = :gas, tx_tip = :tip, tx_cap = :cap, tx_l1_fee = :l1, tx_gas_unit = :unit, revision = :revision",
		when: "#state = :prepared AND (revision = :old OR revision = :revision)",
		values: attributes{
			":wallet": text(p.Wallet.String()), ":chain": number(p.Tx.ChainID), ":memo": boolean(p.Memo()),
			":gas": number(p.Tx.Gas), ":tip": text(p.Tx.Fees.Tip.String()), ":cap": text(p.Tx.Fees.Cap.String()),
			":l1": text(p.Tx.L1Fee.String()), ":revision": text(p.Revision), ":old": text(old),
			":unit": number(uint64(p.Tx.GasUnit)), ":prepared": text(payment.Prepared),
		},
	}, store.ErrChanged, "reassigning "+string(p.ID))
}

// Discard implements store.Payments. When the SDK repeats it after a lost answer the payment is gone, and the caller
// gets ErrChanged: whether this call or another one removed the payment, and so may refund it, is not known any more.
func (s *Payments) Discard(ctx context.Context, p payment.Payment) error {
	err := s.remove(ctx, change{key: paymentKey(p.ID),
		when:   "#state = :prepared AND revision = :revision AND attribute_not_exists(proposal)",
		values: attributes{":prepared": text(payment.Prepared), ":revision": text(p.Revision)}})
	return outcome(err, store.ErrChanged, "discarding "+string(p.ID))
}

// Adopt implements store.Payments. When the SDK repeats it after a lost answer, the caller gets ErrChanged.
func (s *Payments) Adopt(ctx context.Context, p payment.Payment) error {
	c := change{
		fits: store.FitsPayment(p), key: paymentKey(p.ID),
		do: "SET merchant_id = :merchant, #mode = :mode, idempotency_key = :key, fingerprint = :fingerprint, " +
			"list_pk = :list, list_sk = :place, version = :version",
		when: "merchant_id = :nobody AND #state <> :prepared AND version = :before",
		values: attributes{
			":nobody": text(""), ":prepared": text(payment.Prepared), ":merchant": text(p.Merchant),
			":mode": text(p.Mode), ":key": text(p.IdempotencyKey), ":fingerprint": text(p.Fingerprint),
			":list": text(listPK(listPrefix(p.Merchant, p.Mode), string(p.ID))), ":place": text(listSK(p.CreatedAt, string(p.ID))),
			":version": number(uint64(p.Version)), ":before": number(uint64(p.Version - 1)),
		},
	}
	if p.Reference != "" {
		c.set("reference", text(p.Reference))
	}
	if len(p.Metadata) > 0 {
		c.set("metadata", encodeValue(p.Metadata))
	}
	if p.Entries != nil {
		c.set("references", encodeValue(references(p.Entries)))
	}
	return s.transact(ctx, "adopting "+string(p.ID), slices.Concat([]write{s.with(c, is(store.ErrChanged))}, s.putReference(p))...)
}

// Redact implements store.Payments with one transaction: the payment, and its place among those of its reference.
func (s *Payments) Redact(ctx context.Context, p payment.Payment) error {
	c := change{fits: store.FitsPayment(p), key: paymentKey(p.ID), do: "SET event_body = :body", when: "#state IN (:confirmed, :failed)",
		values: attributes{":body": binary(p.Event.Body), ":confirmed": text(payment.Confirmed), ":failed": text(payment.Failed)}}
	if p.Entries != nil {
		c.set("references", encodeValue(references(p.Entries)))
	}
	c.set("reference", nil)
	c.set("metadata", nil)
	redacted := []write{s.with(c, is(store.ErrChanged))}
	switch old, err := s.Payment(ctx, p.ID); {
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return err
	case old.Reference != "":
		redacted = append(redacted, s.without(change{key: referenceKey(old)}, nil))
	}
	return s.transact(ctx, "redacting "+string(p.ID), redacted...)
}

func (s *Payments) SetMined(ctx context.Context, id payment.ID, at time.Time) (payment.Payment, error) {
	item, err := s.update(ctx, change{key: paymentKey(id), do: "SET mined_at = if_not_exists(mined_at, :at)",
		when: "#state = :committed", returns: types.ReturnValueAllNew,
		values: attributes{":at": text(moment(at.Truncate(time.Millisecond))), ":committed": text(payment.Committed)}})
	if err != nil {
		return payment.Payment{}, outcome(err, store.ErrChanged, "storing that "+string(id)+" is mined")
	}
	return decodePayment(item)
}

// Finish implements store.Payments. When the SDK repeats it after a lost answer, the caller gets ErrChanged.
func (s *Payments) Finish(ctx context.Context, p payment.Payment) error {
	c := change{fits: store.FitsPayment(p), key: paymentKey(p.ID), do: "SET #state = :state, version = :version, updated_at = :at",
		when: "#state = :committed AND version = :before",
		values: attributes{":committed": text(payment.Committed), ":state": text(p.State),
			":version": number(uint64(p.Version)), ":before": number(uint64(p.Version - 1)), ":at": text(moment(p.UpdatedAt))}}
	if !p.Onchain.IsZero() {
		c.set("onchain_tx_hash", text(p.Onchain.String()))
		c.set("block_number", number(p.Block))
	}
	if p.Fee != nil {
		c.set("network_fee", text(p.Fee.String()))
	}
	if p.Failure != nil {
		c.set("failure_code", text(p.Failure.Code))
		c.set("failure_message", text(p.Failure.Message))
	}
	if p.Event != nil {
		c.set("event_id", text(p.Event.ID))
		c.set("event_type", text(p.Event.Type))
		c.set("event_body", binary(p.Event.Body))
	}
	return s.make(ctx, c, store.ErrChanged, "finishing "+string(p.ID))
}
