package dynamo_test

import (
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"remit/internal/chain"
	"remit/internal/payment"
	"remit/internal/store"
	"remit/internal/token"
	"remit/internal/wallet"
)

// item returns the stored item of a key.
func (s *stage) item(pk, sk string) map[string]types.AttributeValue {
	s.Helper()
	out, err := s.db.GetItem(s.Context(), &dynamodb.GetItemInput{TableName: &s.table, Key: keyOf(pk, sk)})
	s.must("reading "+pk, err)
	return out.Item
}

// TestUpdatesKeepNewerAttributes updates items to which a newer version of the
// software has added an attribute, as happens during a deployment.
func TestUpdatesKeepNewerAttributes(t *testing.T) {
	s := newStage(t)
	ctx := t.Context()
	paymentPK, walletPK := "payment#"+string(s.p.ID), "wallet#1#"+s.w.Address.String()
	pendingTxSK := "pendingtx#" + strings.Repeat("0", 19) + "5"
	add := func(pk, sk string) {
		_, err := s.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: &s.table, Key: keyOf(pk, sk), UpdateExpression: aws.String("SET novelty = :new"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":new": &types.AttributeValueMemberBOOL{Value: true}},
		})
		s.must("adding to "+pk, err)
	}
	add(paymentPK, "payment")
	add(walletPK, "wallet")
	other := token.Address{2}
	moved := s.p.AssignedTo(other, s.p.Tx)
	s.must("reassigning", s.Reassign(ctx, moved, s.p.Revision))
	s.p = moved.AssignedTo(s.w.Address, s.p.Tx)
	s.must("reassigning", s.Reassign(ctx, s.p, moved.Revision))
	_, err := s.Reserve(ctx, s.need())
	s.must("reserving", err)
	p := s.committed()
	add(walletPK, pendingTxSK)
	s.must("releasing", s.Release(ctx, p.ID, store.PendingTxOf(p)))
	p = s.bumped(p)
	s.must("adding an attempt", s.AddAttempt(ctx, p))
	s.must("reconciling", s.Reconcile(ctx, s.w.ID, 6, token.Units(1), token.Units(1)))
	s.must("opening again", s.Open(ctx, s.w))
	p, err = p.Confirm(chain.Receipt{Tx: p.TxHash, Succeeded: true, Block: 3}, noon)
	s.must("confirming", err)
	s.must("finishing", s.Finish(ctx, p))
	s.stored(p)
	for _, place := range [][2]string{{paymentPK, "payment"}, {walletPK, "wallet"}, {walletPK, pendingTxSK}} {
		if s.item(place[0], place[1])["novelty"] == nil {
			t.Errorf("%s lost the newer attribute", place)
		}
	}
}

// TestReadsAreStronglyConsistent calls every read of the store. Only a query of
// an index, which no decision about money makes, cannot be consistent.
func TestReadsAreStronglyConsistent(t *testing.T) {
	s := newStage(t)
	ctx := t.Context()
	p := s.committed()
	s.sent()
	_, err := s.Payment(ctx, p.ID)
	s.must("reading", err)
	_, err = s.PaymentByHash(ctx, p.TxHash)
	s.must("reading", err)
	_, err = s.Wallet(ctx, s.w.ID)
	s.must("reading", err)
	_, err = s.Wallets(ctx, 1)
	s.must("reading", err)
	_, err = s.PendingTx(ctx, s.w.ID, 5)
	s.must("reading", err)
	_, _, err = s.PendingTxs(ctx, s.w.ID)
	s.must("reading", err)
	_, _, err = s.List(ctx, store.Filter{Merchant: "mer_1", Mode: "test"})
	s.must("reading", err)
	if len(s.bodies) != 9 {
		t.Errorf("%d requests: %v", len(s.bodies), s.ops)
	}
	for i, body := range s.bodies {
		if consistent := strings.Contains(body, `"ConsistentRead":true`); consistent == strings.Contains(body, `"IndexName"`) {
			t.Errorf("%s: %s", s.ops[i], body)
		}
	}
}

// TestEveryAttributeIsDocumented makes items with every attribute and looks for
// each name in docs/tables.md.
func TestEveryAttributeIsDocumented(t *testing.T) {
	s := newStage(t)
	ctx := t.Context()
	s.must("pausing", s.Pause(ctx, s.w.ID, "because"))
	_, err := s.Claim(ctx, s.w.ID, "run", noon, noon)
	s.must("claiming", err)
	s.must("charging", s.Charge(ctx, "mer_1", "test", token.Units(1), token.Units(2), noon))
	p := s.bumped(s.committed())
	s.must("adding an attempt", s.AddAttempt(ctx, p))
	p, err = p.Fail(payment.ExecutionReverted, chain.Receipt{Tx: p.TxHash, Block: 3}, noon)
	s.must("failing", err)
	s.must("finishing", s.Finish(ctx, p))
	full := payment.Request{Merchant: "mer_1", Mode: "test", IdempotencyKey: "key", Reference: "ref", Metadata: map[string]string{"a": "b"}}
	_, _, err = s.Create(ctx, payment.New("pay_full", full, token.Token{}, "local", noon).AssignedTo(s.w.Address, chain.Tx{}))
	s.must("creating", err)

	doc, err := os.ReadFile("../../docs/tables.md")
	s.must("reading the document", err)
	out, err := s.db.Scan(ctx, &dynamodb.ScanInput{TableName: &s.table})
	s.must("scanning", err)
	if len(out.Items) != 8 { // two payments, two hashes, pending transaction, wallet, list of wallets, day
		t.Errorf("%d items", len(out.Items))
	}
	missing := map[string]bool{}
	for _, item := range out.Items {
		for name, value := range item {
			missing[name] = !strings.Contains(string(doc), "`"+name+"`")
			if attempts, ok := value.(*types.AttributeValueMemberL); ok && name == "attempts" {
				for part := range attempts.Value[0].(*types.AttributeValueMemberM).Value {
					missing["attempts."+part] = !strings.Contains(string(doc), "`"+part+"`")
				}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		if missing[name] {
			t.Errorf("docs/tables.md does not tell of %s", name)
		}
	}
}

func TestBytesAreBinaryAndTimesAreText(t *testing.T) {
	s := newStage(t)
	p := s.committed()
	paid := s.item("payment#"+string(p.ID), "payment")
	if data, ok := paid["tx_data"].(*types.AttributeValueMemberB); !ok || string(data.Value) != string(p.Tx.Data) {
		t.Errorf("tx_data = %#v", paid["tx_data"])
	}
	tx := s.item("wallet#1#"+s.w.Address.String(), "pendingtx#"+strings.Repeat("0", 19)+"5")
	if raw, ok := tx["raw_bytes"].(*types.AttributeValueMemberB); !ok || string(raw.Value) != string(p.Attempts[0].Raw) {
		t.Errorf("raw_bytes = %#v", tx["raw_bytes"])
	}
	if at, ok := paid["created_at"].(*types.AttributeValueMemberS); !ok || at.Value != "2026-01-02T12:00:00Z" {
		t.Errorf("created_at = %#v", paid["created_at"])
	}
	if amount, ok := paid["amount"].(*types.AttributeValueMemberS); !ok || amount.Value != "10" {
		t.Errorf("amount = %#v", paid["amount"])
	}
}

// TestItemsHaveTheAttributesThatTheVersionBeforeRequires: during a deployment,
// and after a rollback, the version before reads this version's items, and takes
// one without these attributes for damaged. A name may leave the list one version
// after the code that required it.
func TestItemsHaveTheAttributesThatTheVersionBeforeRequires(t *testing.T) {
	s := newStage(t)
	ctx := t.Context()
	required := strings.Fields("merchant_id mode fingerprint to amount token_contract wallet chain_id tx_to tx_data tx_gas tx_tip tx_cap state version created_at updated_at")
	check := func(p payment.Payment, and ...string) {
		t.Helper()
		item := s.item("payment#"+string(p.ID), "payment")
		for _, name := range slices.Concat(required, and) {
			if v, ok := item[name].(*types.AttributeValueMemberS); item[name] == nil || ok && v.Value == "" {
				t.Errorf("a payment that is %s has no %s", p.State, name)
			}
		}
		attempts, _ := item["attempts"].(*types.AttributeValueMemberL)
		for i := range p.Attempts {
			for _, name := range []string{"hash", "tip", "cap"} {
				if attempts.Value[i].(*types.AttributeValueMemberM).Value[name] == nil {
					t.Errorf("attempt %d of a payment that is %s has no %s", i, p.State, name)
				}
			}
		}
	}
	check(s.p)
	p := s.committed()
	check(p, "nonce", "attempts", "tx_hash")
	p = s.bumped(p)
	s.must("adding an attempt", s.AddAttempt(ctx, p))
	p, err := p.Confirm(chain.Receipt{Tx: p.TxHash, Succeeded: true, Block: 3}, noon)
	s.must("confirming", err)
	s.must("finishing", s.Finish(ctx, p))
	check(p, "nonce", "attempts", "tx_hash", "event_id", "event_type", "event_body")
}

func TestADayShowsItsRemainderAndExpires(t *testing.T) {
	s := newStage(t)
	for _, charge := range []uint64{30, 12} {
		s.must("charging", s.Charge(t.Context(), "mer_1", "test", token.Units(charge), token.Units(100), noon))
	}
	s.must("refunding", s.Refund(t.Context(), "mer_1", "test", token.Units(2), noon))
	day := s.item("merchant#mer_1", "spend#2026-01-02#test")
	number := func(name string) int64 {
		n, _ := day[name].(*types.AttributeValueMemberN)
		if n == nil {
			t.Fatalf("%s = %#v", name, day[name])
		}
		v, err := strconv.ParseInt(n.Value, 10, 64)
		s.must("parsing "+name, err)
		return v
	}
	if spent, remaining := number("spent"), number("remaining"); spent != 40 || remaining != 60 {
		t.Errorf("spent %d, remaining %d", spent, remaining)
	}
	over := noon.Add(24 * time.Hour)
	if expiry := time.Unix(number("ttl"), 0); expiry.Before(over.Add(24*time.Hour)) || expiry.After(over.Add(7*24*time.Hour)) {
		t.Errorf("expires at %v, the day ends at %v", expiry, over)
	}
}

func TestAReleaseEmptiesBothMaps(t *testing.T) {
	s := newStage(t)
	_, err := s.Reserve(t.Context(), s.need())
	s.must("reserving", err)
	s.must("releasing", s.Release(t.Context(), s.p.ID, wallet.PendingTx{ID: s.w.ID, Nonce: 5}))
	item := s.item("wallet#1#"+s.w.Address.String(), "wallet")
	for _, name := range []string{"reservations", "reserved_at"} {
		if m, ok := item[name].(*types.AttributeValueMemberM); !ok || len(m.Value) != 0 {
			t.Errorf("%s = %#v", name, item[name])
		}
	}
}

// TestListsShowNoStatusThatHasPassed ends two payments after List has read the
// index and before it reads the payments.
func TestListsShowNoStatusThatHasPassed(t *testing.T) {
	s := newStage(t)
	ctx := t.Context()
	var all []payment.Payment
	for nonce := range uint64(5) {
		p := s.draft()
		p.CreatedAt = noon.Add(-time.Duration(nonce) * time.Minute) // newest first
		_, _, err := s.Create(ctx, p)
		s.must("creating", err)
		p = s.committing(p, nonce)
		s.must("committing", s.Commit(ctx, p))
		all = append(all, p)
	}
	ending := all[:2]
	s.meddle = func(op string, send func() (*http.Response, error)) (*http.Response, error) {
		if op == "BatchGetItem" {
			for _, p := range ending {
				end, err := p.Confirm(chain.Receipt{Tx: p.TxHash, Block: 3}, noon)
				s.must("confirming", err)
				ending = nil
				s.must("finishing", s.Finish(ctx, end))
			}
		}
		return send()
	}
	page, more, err := s.List(ctx, store.Filter{Merchant: "mer_1", Mode: "test", Status: payment.StatusPending, Limit: 2})
	s.must("listing", err)
	if len(page) != 2 || page[0].ID != all[2].ID || page[1].ID != all[3].ID || !more {
		t.Errorf("page %v, more %v", page, more)
	}
}

// TestListsReadUnprocessedKeys lets DynamoDB answer a batch without items twice,
// as it may when it is busy.
func TestListsReadUnprocessedKeys(t *testing.T) {
	s := newStage(t)
	p := s.committed()
	put := 2
	s.meddle = func(op string, send func() (*http.Response, error)) (*http.Response, error) {
		if op != "BatchGetItem" || put == 0 {
			return send()
		}
		put--
		return answer(http.StatusOK, `{"Responses":{},"UnprocessedKeys":{"`+s.table+`":{"ConsistentRead":true,"Keys":[`+
			`{"pk":{"S":"payment#`+string(p.ID)+`"},"sk":{"S":"payment"}}]}}}`), nil
	}
	page, more, err := s.List(t.Context(), store.Filter{Merchant: "mer_1", Mode: "test", Limit: 5})
	if err != nil || more || len(page) != 1 || page[0].ID != p.ID {
		t.Errorf("page %v, more %v, error %v", page, more, err)
	}
	if put != 0 {
		t.Errorf("BatchGetItem was not asked again")
	}
}

// TestDamagedItemsAreNamed reads items with values that Remit never writes: the
// error must name the attribute.
func TestDamagedItemsAreNamed(t *testing.T) {
	s := newStage(t)
	ctx := t.Context()
	for _, row := range []struct{ attribute, damage string }{
		{"amount", "1e6"}, {"to", "0x12"}, {"state", "PAID"}, {"created_at", "yesterday"}, {"tx_hash", "0x"},
		{"tx_cap", ""}, {"tx_hash", chain.Hash{1}.String()}, {"nonce", "five"}, {"attempts", "none"},
	} {
		s.renew()
		p := s.committed()
		damage(t, s.db, s.table, "payment#"+string(p.ID), "payment", row.attribute, row.damage)
		if _, err := s.Payment(ctx, p.ID); err == nil || !strings.Contains(err.Error(), row.attribute) && !strings.Contains(err.Error(), "unmarshal") {
			t.Errorf("%s = %q: error = %v", row.attribute, row.damage, err)
		}
	}
	s.renew()
	damage(t, s.db, s.table, "payment#"+string(s.p.ID), "payment", "revision", "")
	if _, err := s.Payment(ctx, s.p.ID); err == nil || !strings.Contains(err.Error(), "revision") {
		t.Errorf("a prepared payment without a revision: error = %v", err)
	}
	for _, row := range []struct{ attribute, damage string }{
		{"next_nonce", "five"}, {"token_available", "much"}, {"reservations", "none"}, {"claimed_until", "soon"},
	} {
		s.renew()
		damage(t, s.db, s.table, "wallet#1#"+s.w.Address.String(), "wallet", row.attribute, row.damage)
		if _, err := s.Wallet(ctx, s.w.ID); err == nil {
			t.Errorf("%s = %q is read", row.attribute, row.damage)
		}
	}
}
