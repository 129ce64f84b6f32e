package dynamo

import (
	"context"
	"errors"
	"fmt"
	"time"

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

// NewPayments returns the store kept in the table of that name.
func NewPayments(db *dynamodb.Client, name string) *Payments { return &Payments{table{db, name}} }

// Create implements store.Payments. When the SDK repeats the put after a lost answer and meets a Prepared payment with
// p's revision, that is p itself, stored by the first put: a revision covers request, transaction and time.
func (s *Payments) Create(ctx context.Context, p payment.Payment) (payment.Payment, bool, error) {
	sent := 0
	_, err := s.apply(ctx, create(encodePayment(p), store.FitsPayment(p)), counting(&sent))
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
		set:    pick(encodePayment(p), "wallet", "chain_id", "memo", "tx_gas", "tx_tip", "tx_cap", "tx_l1_fee", "tx_gas_unit", "revision"),
		when:   "#state = :prepared AND revision IN (:old, :new)",
		values: args{":prepared": payment.Prepared, ":old": old, ":new": p.Revision},
	}, is(store.ErrChanged), "reassigning "+string(p.ID))
}

// Discard implements store.Payments. When the SDK repeats it after a lost answer the payment is gone, and the caller
// gets ErrChanged: whether this call or another one removed the payment, and so may refund it, is not known any more.
func (s *Payments) Discard(ctx context.Context, p payment.Payment) error {
	return s.make(ctx, change{key: paymentKey(p.ID), gone: true,
		still: args{attrState: payment.Prepared, "revision": p.Revision, "proposal": nil}},
		is(store.ErrChanged), "discarding "+string(p.ID))
}

// Adopt implements store.Payments. When the SDK repeats it after a lost answer, the caller gets ErrChanged.
func (s *Payments) Adopt(ctx context.Context, p payment.Payment) error {
	c := change{
		fits: store.FitsPayment(p), key: paymentKey(p.ID),
		still: args{attrMerchantID: "", "version": p.Version - 1},
		when:  "#state <> :prepared", values: args{":prepared": payment.Prepared},
		set: pick(listed(p), attrMerchantID, "mode", "idempotency_key", "fingerprint", attrListPK, attrListSK, "version", "reference",
			"metadata", "references"),
	}
	return s.transact(ctx, "adopting "+string(p.ID), append([]write{{c, is(store.ErrChanged)}}, putReference(p)...)...)
}

func (s *Payments) Redact(ctx context.Context, p payment.Payment) error {
	redacted := []write{{change{fits: store.FitsPayment(p), key: paymentKey(p.ID),
		set:  pick(encodePayment(p), "event_body", "reference", "metadata", "references"),
		when: "#state IN (:confirmed, :failed)", values: args{":confirmed": payment.Confirmed, ":failed": payment.Failed},
	}, is(store.ErrChanged)}}
	switch old, err := s.Payment(ctx, p.ID); {
	case err != nil && !errors.Is(err, store.ErrNotFound):
		return err
	case old.Reference != "":
		redacted = append(redacted, write{change{key: referenceKey(old), gone: true}, nil})
	}
	return s.transact(ctx, "redacting "+string(p.ID), redacted...)
}

func (s *Payments) SetMined(ctx context.Context, id payment.ID, at time.Time) (payment.Payment, error) {
	item, err := s.apply(ctx, change{key: paymentKey(id), still: args{attrState: payment.Committed},
		do: "SET mined_at = if_not_exists(mined_at, :at)", values: args{":at": moment(at.Truncate(time.Millisecond))},
		returns: types.ReturnValueAllNew})
	if err != nil {
		return payment.Payment{}, outcome(err, is(store.ErrChanged), "storing that "+string(id)+" is mined")
	}
	return decodePayment(item)
}

// Finish implements store.Payments. When the SDK repeats it after a lost answer, the caller gets ErrChanged.
func (s *Payments) Finish(ctx context.Context, p payment.Payment) error {
	c := change{fits: store.FitsPayment(p), key: paymentKey(p.ID),
		still: args{attrState: payment.Committed, "version": p.Version - 1},
		set: pick(encodePayment(p), attrState, "version", "updated_at", "onchain_tx_hash", "block_number", "network_fee", "failure_code",
			"failure_message", "event_id", "event_type", "event_body")}
	return s.make(ctx, c, is(store.ErrChanged), "finishing "+string(p.ID))
}
