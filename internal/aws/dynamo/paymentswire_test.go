package dynamo_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gopkg.in/yaml.v3"

	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/dynamotest"
	"github.com/remit-payouts/remit/internal/proof/must"
)

var noon = time.Date(2026, time.January, 2, 12, 0, 0, 0, time.UTC)

// A stage is a store whose client speaks through a wire, with one wallet and one payment stored.
type stage struct {
	*testing.T
	*wire
	*dynamo.Payments
	db    *dynamodb.Client
	table string
	w     wallet.Wallet
	p     payment.Payment // stored, prepared
	made  byte            // wallets and payments so far
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{T: t, wire: &wire{}}
	s.db = s.client(t)
	s.table = tables(t, s.db).Payments
	s.Payments = dynamo.NewPayments(s.db, s.table)
	s.renew()
	return s
}

// renew gives the stage a new wallet, a new payment and an undisturbed wire.
func (s *stage) renew() {
	s.Helper()
	s.meddle = nil
	s.made++
	id := wallet.ID{ChainID: 1, Address: token.Address{19: s.made}}
	s.w = wallet.Wallet{ID: id, NextNonce: 5, Ceiling: 9, Balance: token.Units(1000), Gas: token.Units(1000),
		Reservations: map[payment.ID]wallet.Reservation{}}
	must.OK(s, s.Open(s.Context(), s.w, coin.Contract))
	s.p = s.draft()
	s.create(s.p)
	s.sent()
}

func (s *stage) draft() payment.Payment {
	s.made++
	key := fmt.Sprint("key ", s.made)
	r := payment.Request{Merchant: "mer_1", Mode: "test", IdempotencyKey: key, To: token.Address{1}, Amount: token.Units(10)}
	p := payment.New(payment.KeyID(r.Merchant, r.Mode, key), r, token.Token{Symbol: "USDC", Decimals: 6}, "local", noon)
	return p.AssignedTo(s.w.Address, chain.Tx{ChainID: 1, Data: p.Call(token.Address{}, true).Data, Gas: 21_000})
}

func (s *stage) create(p payment.Payment) {
	s.Helper()
	_, _, err := s.Create(s.Context(), p)
	must.OK(s, err)
}

func (s *stage) signed(p payment.Payment, nonce, tip uint64) chain.Signed {
	raw := binary.BigEndian.AppendUint64([]byte(p.Revision), nonce<<32|tip)
	return chain.Signed{Nonce: nonce, Hash: sha256.Sum256(raw), Raw: raw}
}

func (s *stage) committing(p payment.Payment, nonce uint64) payment.Payment {
	s.Helper()
	return must.Get(p.Commit(s.signed(p, nonce, 0), noon))(s)
}

func (s *stage) committed() payment.Payment {
	s.Helper()
	p := s.committing(s.p, 5)
	must.OK(s, s.Commit(s.Context(), p))
	return p
}

func (s *stage) bumped(p payment.Payment) payment.Payment {
	s.Helper()
	tx := chain.Tx{Fees: chain.Fees{Tip: token.Units(1)}, Gas: 30_000}
	return must.Get(p.Bump(s.signed(p, p.Nonce, 1), tx, noon))(s)
}

// stored checks that want is the stored payment.
func (s *stage) stored(want payment.Payment) {
	s.Helper()
	got := must.Get(s.Payment(s.Context(), want.ID))(s)
	want.Attempts = slices.Clone(want.Attempts)
	for i := range want.Attempts {
		want.Attempts[i].Raw = nil // in the pending transaction
	}
	if want.State != payment.Prepared {
		want.Revision = got.Revision
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.EquateComparable(token.Amount{})); diff != "" {
		s.Errorf("stored payment (-want +got):\n%s", diff)
	}
}

// need asks for a reservation that ties up 10 units and 3 wei.
func (s *stage) need() wallet.Need {
	return wallet.Need{Wallet: s.w.ID, Payment: s.p.ID, Amount: token.Units(10), Gas: token.Units(3), At: noon}
}

// A repeated write is a write that DynamoDB has already applied when the SDK sends it a second time.
type repeated struct {
	sentence string
	before   func()
	call     func() error
	want     error
	after    func()
}

// TestAnswersLostInsideTheSDK lets the SDK repeat writes whose callers then get another answer than from a second call.
// storetest accepts either. It stands in each method's comment.
func TestAnswersLostInsideTheSDK(t *testing.T) {
	s := newStage(t)
	for _, row := range s.repeated() {
		s.renew()
		if row.before != nil {
			row.before()
		}
		s.sent()
		s.lose(1)
		if err := row.call(); !errors.Is(err, row.want) {
			t.Errorf("%s: error = %v, want %v", row.sentence, err, row.want)
		}
		if ops := s.sent(); len(ops) < 2 || ops[0] != ops[1] {
			t.Errorf("%s: the SDK sent %v", row.sentence, ops)
		}
		if row.after != nil {
			row.after()
		}
	}
}

func (s *stage) repeated() []repeated {
	ctx := s.Context()
	return []repeated{
		{"a created payment is the caller's own", func() { s.p = s.draft() }, func() error {
			_, created, err := s.Create(ctx, s.p)
			if !created {
				s.Error("taken for another's")
			}
			return err
		}, nil, func() { s.stored(s.p) }},
		{"a discard that was repeated is not known to be the caller's", nil, func() error { return s.Discard(ctx, s.p) }, store.ErrChanged, nil},
		{"a payment that ended has ended", func() { s.p = s.committed() }, func() error {
			s.p = must.Get(s.p.Confirm(chain.Receipt{Tx: s.p.TxHash, Succeeded: true, Block: 3}, noon))(s)
			return s.Finish(ctx, s.p)
		}, store.ErrChanged, func() { s.stored(s.p) }},
		{"a committed payment is committed", nil, func() error {
			s.p = s.committing(s.p, 5)
			return s.Commit(ctx, s.p)
		}, nil, func() { s.stored(s.p) }},
		{"an attempt is added once", func() { s.p = s.committed() }, func() error {
			s.p = s.bumped(s.p)
			return s.AddAttempt(ctx, s.p)
		}, nil, func() { s.stored(s.p) }},
		{"a no-op is put", nil, func() error {
			return s.PutNoop(ctx, wallet.PendingNoop(s.w.ID, chain.Tx{}, s.signed(s.p, 5, 9), noon))
		}, nil, nil},
	}
}

// dayOf is a charge of a merchant's day, and of the day of one of its keys.
func dayOf(amount, limit uint64) store.Charge {
	return store.Charge{Merchant: "mer_1", Mode: "test", At: noon, Amount: token.Units(amount), Count: 1, Limits: []payment.DailyLimit{
		{Amount: token.Units(limit)}, {Key: "key_1", Amount: token.Units(limit), Count: 10},
	}}
}

// TestARefundIsSentOnce: storetest would accept a refund that the SDK repeats.
func TestARefundIsSentOnce(t *testing.T) {
	s := newStage(t)
	s.lose(1)
	if err := s.Refund(t.Context(), dayOf(10, 30)); err == nil {
		t.Error("a refund whose answer was lost is taken for a known one")
	}
	if ops := s.sent(); !slices.Equal(ops, []string{"UpdateItem"}) {
		t.Errorf("a refund was sent %d times", len(ops))
	}
}

// TestConflicts lets DynamoDB leave a write unjudged because another transaction
// is at work on its item. Its outcome must not be taken for known.
func TestConflicts(t *testing.T) {
	s := newStage(t)
	const ccf, conflict, throttled, none = "ConditionalCheckFailed", "TransactionConflict", "ThrottlingError", "None"
	for _, row := range []struct {
		sentence string
		times    int
		reasons  []string
		want     error
		unknown  bool
	}{
		{"a conflict is tried again", 3, []string{conflict, none, none}, nil, false},
		{"too much work is tried again", 1, []string{none, throttled, none}, nil, false},
		{"conflicts without end are an unknown outcome", 100, []string{conflict, none, none}, nil, true},
		{"a condition that failed after all before it held is known", 1, []string{none, ccf, conflict}, store.ErrNonceTaken, false},
		{"the payment's condition is known beside any others", 1, []string{ccf, conflict, throttled}, store.ErrChanged, false},
		{"a payment that was not judged may have changed", 100, []string{conflict, ccf, none}, nil, true},
		{"a cancellation for a reason of another kind is an unknown outcome", 1, []string{"ValidationError", none, none}, nil, true},
	} {
		s.renew()
		s.cancel(row.times, row.reasons...)
		err := s.Commit(t.Context(), s.committing(s.p, 5))
		known := err == nil || errors.Is(err, store.ErrChanged) || errors.Is(err, store.ErrNonceTaken)
		if row.unknown == known || known && !errors.Is(err, row.want) {
			t.Errorf("%s: error = %v", row.sentence, err)
		}
	}
	s.renew()
	s.conflict(4)
	if _, err := s.Reserve(t.Context(), s.need()); err != nil {
		t.Errorf("a reservation that met a transaction: %v", err)
	}
	s.renew()
	s.conflict(100)
	if err := s.Discard(t.Context(), s.p); err == nil || errors.Is(err, store.ErrChanged) {
		t.Errorf("a discard that met transactions without end: %v", err)
	}
}

// TestTemplateDeclaresTheSameTables compares the tables that CreateTables makes with those of template.yaml.
func TestTemplateDeclaresTheSameTables(t *testing.T) {
	text := must.Get(os.ReadFile("../../../template.yaml"))(t)
	var template struct {
		Resources map[string]struct {
			Properties map[string]any `yaml:"Properties"`
		} `yaml:"Resources"`
	}
	must.OK(t, yaml.Unmarshal(text, &template))
	db := dynamotest.Client(t)
	tables := tables(t, db)
	for logical, name := range map[string]string{"ApiKeysTable": tables.APIKeys, "PaymentsTable": tables.Payments,
		"WebhooksTable": tables.Webhooks} {
		out := must.Get(db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &name}))(t)
		if diff := cmp.Diff(shapeOf(t, template.Resources[logical].Properties), shapeOf(t, out.Table)); diff != "" {
			t.Errorf("%s (-template.yaml +CreateTables):\n%s", logical, diff)
		}
	}
}

// A shape holds the keys and indexes of a table.
type shape struct {
	KeySchema              []keyElement
	GlobalSecondaryIndexes []struct {
		IndexName  string
		KeySchema  []keyElement
		Projection struct {
			ProjectionType   string
			NonKeyAttributes []string
		}
	}
}

type keyElement struct{ AttributeName, KeyType string }

// shapeOf reads the shape of a table as template.yaml declares or DynamoDB describes it: both use the same names.
func shapeOf(t *testing.T, table any) (s shape) {
	t.Helper()
	must.OK(t, json.Unmarshal(must.Get(json.Marshal(table))(t), &s))
	return s
}
