package dynamo_test

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

var update = flag.Bool("update", false, "rewrite golden files")

// TestItems keeps testdata/payments.txt equal to the items that some payments'
// lives leave in the table, and looks in docs/tables.md for each attribute. On
// the way a newer version of the software adds the attribute novelty to three
// items, as happens during a deployment: every later update must keep it.
//
// During a deployment, and after a rollback, the version before reads these
// items, and takes one without an attribute that it requires for damaged: an
// attribute may leave the file one version after the code that requires it.
func TestItems(t *testing.T) {
	s := newStage(t)
	ctx := t.Context()
	paymentPK, walletPK := "payment#"+string(s.p.ID), "wallet#1#"+s.w.Address.String()
	add := func(pk, sk string) {
		_, err := s.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: &s.table, Key: keyOf(pk, sk), UpdateExpression: aws.String("SET novelty = :new"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":new": &types.AttributeValueMemberBOOL{Value: true}},
		})
		s.must("adding to "+pk, err)
	}
	add(paymentPK, "payment")
	add(walletPK, "wallet")
	moved := s.p.AssignedTo(token.Address{2}, s.p.Tx)
	s.must("reassigning", s.Reassign(ctx, moved, s.p.Revision))
	s.p = moved.AssignedTo(s.w.Address, s.p.Tx)
	s.must("reassigning", s.Reassign(ctx, s.p, moved.Revision))
	s.reserve()
	p := s.committed()
	add(walletPK, "pendingtx#"+strings.Repeat("0", 19)+"5")
	s.must("releasing", s.Release(ctx, p.ID, store.PendingTxOf(p)))
	p = s.bumped(p)
	s.must("adding an attempt", s.AddAttempt(ctx, p))
	s.must("reconciling", s.Reconcile(ctx, wallet.Wallet{ID: s.w.ID, NextNonce: 6}, token.Units(700), token.Units(800), nil))
	s.must("opening again", s.Open(ctx, s.w))
	p, err := p.Confirm(chain.Receipt{Tx: p.TxHash, Succeeded: true, Block: 3, Fee: new(token.Units(61_234_567_890))}, noon)
	s.must("confirming", err)
	s.must("finishing", s.Finish(ctx, p))
	s.stored(p)

	s.p = s.draft()
	s.p.Reference, s.p.Metadata = "ref", map[string]string{"a": "b"}
	_, _, err = s.Create(ctx, s.p)
	s.must("creating", err)
	s.reserve()
	p = s.committing(s.p, 6)
	s.must("committing", s.Commit(ctx, p))
	p, err = p.Fail(payment.ExecutionReverted, chain.Receipt{Tx: p.TxHash, Block: 3}, noon)
	s.must("failing", err)
	s.must("finishing", s.Finish(ctx, p))
	_, _, err = s.Create(ctx, s.draft())
	s.must("creating", err)
	for _, n := range []int{1, 2} {
		_, _, err = s.Create(ctx, s.batch(n))
		s.must("creating", err)
	}
	s.must("putting a no-op", s.PutNoop(ctx, wallet.PendingNoop(s.w.ID, chain.Tx{}, s.signed(s.p, 7, 0), noon)))
	_, err = s.Claim(ctx, s.w.ID, "run", noon, noon)
	s.must("claiming", err)
	s.must("pausing", s.Pause(ctx, s.w.ID, "because"))
	for _, charge := range []uint64{30, 12} {
		s.must("charging", s.Charge(ctx, dayOf(charge, 100)))
	}
	s.must("refunding", s.Refund(ctx, dayOf(2, 100)))
	s.must("binding", s.Bind(ctx, store.Coin{ChainID: 1, Token: token.Address{0xc0}}, noon))

	doc, err := os.ReadFile("../../../docs/tables.md")
	s.must("reading the document", err)
	names := []string{"hash", "tip", "cap", "at"} // of an attempt
	var lines []string
	for _, item := range s.items() {
		names = slices.AppendSeq(names, maps.Keys(item))
		for name, value := range item {
			lines = append(lines, fmt.Sprintln(item["pk"], item["sk"], name, value))
		}
	}
	for _, name := range names {
		name = strings.Replace(name, "key_1", "<key id>", 1)
		if name != "novelty" && !strings.Contains(string(doc), "`"+name+"`") {
			t.Errorf("docs/tables.md does not tell of %s", name)
		}
	}
	slices.Sort(lines)
	got := strings.Join(lines, "")
	const file = "testdata/payments.txt"
	if *update {
		s.must("writing "+file, os.WriteFile(file, []byte(got), 0o666))
	}
	want, err := os.ReadFile(file)
	s.must("reading "+file, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
}

// items returns the table's items as DynamoDB sends them: an attribute is its
// type and its value.
func (s *stage) items() []map[string]any {
	s.Helper()
	var page struct{ Items []map[string]any }
	s.meddle = func(_ string, send func() (*http.Response, error)) (*http.Response, error) {
		resp, err := send()
		s.must("scanning", err)
		text, err := io.ReadAll(resp.Body)
		s.must("scanning", errors.Join(err, resp.Body.Close(), json.Unmarshal(text, &page)))
		return answer(http.StatusOK, string(text)), nil
	}
	_, err := s.db.Scan(s.Context(), &dynamodb.ScanInput{TableName: &s.table})
	s.must("scanning", err)
	return page.Items
}

// TestUnitsOfABatch: a batch of a hundred, its event sent to one endpoint, takes a hundred write
// units at most: a unit for each kilobyte of an item, two in a transaction. The wallet's
// and the index's items are below a kilobyte.
func TestUnitsOfABatch(t *testing.T) {
	s := newStage(t)
	s.p = s.batch(payment.MaxEntries)
	units := map[string]int{"reserve": 1, "release": 1, "hash": 2, "index": 2 + 1}
	count := func(name, sk string, times int) {
		for _, item := range s.items() {
			if size, is := sizeOf(s.T, item), item["sk"].(map[string]any)["S"].(string); strings.HasPrefix(is, sk) && size > 1024 {
				units[name] = times * ((size + 1023) / 1024)
			}
		}
		s.meddle = nil
	}
	_, _, err := s.Create(t.Context(), s.p)
	s.must("creating", err)
	count("create", "payment", 1)
	s.reserve()
	p := s.committing(s.p, 5)
	p.Attempts[0].Raw = append(slices.Clone(p.Tx.Data), make([]byte, 150)...) // beside the call data, with fees of 12 bytes: EIP-1559
	s.must("committing", s.Commit(t.Context(), p))
	count("commit", "payment", 2)
	count("pending", "pendingtx", 2+1) // and deleted
	p, err = p.Confirm(chain.Receipt{Tx: p.TxHash, Succeeded: true, Block: 19241000, Fee: new(token.Units(61_234_567_890))}, noon)
	s.must("confirming", err)
	s.must("finishing", s.Finish(t.Context(), p))
	count("finish", "payment", 1)
	units["delivery, stored and sent"] = 2 * ((len(p.Event.Body) + 600 + 1023) / 1024)
	sum := 0
	for _, n := range units {
		sum += n
	}
	if len(units) != 9 || sum > 100 {
		t.Errorf("%d units: %v", sum, units)
	}
}

// sizeOf returns about how many bytes DynamoDB counts of an item: names and values, of
// numbers and lists a little more.
func sizeOf(t *testing.T, item map[string]any) (size int) {
	for name, typed := range item {
		for kind, v := range typed.(map[string]any) {
			switch text, _ := v.(string); kind {
			case "B":
				size += len(name) + len(text)/4*3
			case "S", "N":
				size += len(name) + len(text)
			default:
				b, err := json.Marshal(v)
				if err != nil {
					t.Fatal(err)
				}
				size += len(name) + len(b)*2/3 // types and quotes of JSON are not counted
			}
		}
	}
	return size
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

// TestListsMergeTheirBuckets: the buckets are one list, in pages of any size, and a page
// costs one request to each. No bucket has most of a list.
func TestListsMergeTheirBuckets(t *testing.T) {
	s := newStage(t)
	ctx := t.Context()
	var want []payment.ID
	in := map[string]int{}
	for nonce := range uint64(60) {
		p := s.draft()
		p.CreatedAt = noon.Add(-time.Duration(nonce/2) * time.Minute) // newest first, two at a time
		_, _, err := s.Create(ctx, p)
		s.must("creating", err)
		p = s.committing(p, nonce)
		s.must("committing", s.Commit(ctx, p))
		if want = append(want, p.ID); nonce%2 == 1 && want[nonce-1] < p.ID {
			want[nonce-1], want[nonce] = p.ID, want[nonce-1]
		}
		p, err = p.Confirm(chain.Receipt{Tx: p.TxHash, Succeeded: true, Block: 3}, noon)
		s.must("confirming", err)
		s.must("finishing", s.Finish(ctx, p))
	}
	for _, item := range s.items() {
		if pk, listed := item["list_pk"].(map[string]any); listed {
			in[pk["S"].(string)]++
		}
	}
	s.meddle = nil
	for _, n := range []int{1, 7, 59, 60, 100} {
		for _, status := range []payment.Status{"", payment.StatusConfirmed} {
			var got []payment.ID
			f := store.Filter{Merchant: "mer_1", Mode: "test", Limit: n, Status: status}
			for more := true; more; {
				var page []payment.Payment
				var err error
				s.sent()
				page, more, err = s.List(ctx, f)
				s.must("listing", err)
				queries := 0
				for _, op := range s.sent() {
					queries += map[string]int{"Query": 1}[op]
				}
				if n < 20 && queries != 16 {
					t.Errorf("a page of %d cost %d queries", n, queries)
				}
				for _, p := range page {
					got = append(got, p.ID)
				}
				f.From = store.Position{CreatedAt: page[len(page)-1].CreatedAt, ID: page[len(page)-1].ID}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%q in pages of %d (-want +got):\n%s", status, n, diff)
			}
		}
	}
	if most := slices.Max(slices.Collect(maps.Values(in))); len(in) < 12 || most > 20 {
		t.Errorf("buckets: %v", in)
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
		if _, err := s.Payment(ctx, p.ID); err == nil || !strings.Contains(err.Error(), row.attribute) &&
			!strings.Contains(err.Error(), "unmarshal") {
			t.Errorf("%s = %q: error = %v", row.attribute, row.damage, err)
		}
	}
	s.renew()
	damage(t, s.db, s.table, "payment#"+string(s.p.ID), "payment", "revision", "")
	if _, err := s.Payment(ctx, s.p.ID); err == nil || !strings.Contains(err.Error(), "revision") {
		t.Errorf("a prepared payment without a revision: error = %v", err)
	}
	for _, row := range []struct {
		attribute, damage string
		nonces            bool // are known all the same
	}{
		{"next_nonce", "five", false}, {"nonce_ceiling", "six", false}, {"reservations", "none", false}, {"reserved_at", "never", false},
		{"token_available", "much", true}, {"claimed_until", "soon", true}, {"returned", "often", true},
	} {
		s.renew()
		damage(t, s.db, s.table, "wallet#1#"+s.w.Address.String(), "wallet", row.attribute, row.damage)
		w, err := s.Wallet(ctx, s.w.ID)
		if row.nonces != (err == nil) || err != nil && !errors.Is(err, store.ErrUnreadable) || err == nil && w.NextNonce != s.w.NextNonce {
			t.Errorf("%s = %q: %+v, %v", row.attribute, row.damage, w, err)
		}
	}
}
