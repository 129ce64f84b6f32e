package dynamo_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/dynamotest"
	"github.com/remit-payouts/remit/internal/proof/must"
)

var update = flag.Bool("update", false, "rewrite golden files")

// TestItems keeps testdata/payments.txt equal to the items that some payments' lives leave in the table, and looks in
// docs/tables.md for each attribute. On the way a newer version of the software adds the attribute novelty to three
// items, as happens during a deployment: every later update must keep it.
//
// During a deployment, and after a rollback, the version before reads these items, and takes one without an attribute
// that it requires for damaged: an attribute may leave the file one version after the code that requires it.
func TestItems(t *testing.T) {
	s := newStage(t)
	ctx := t.Context()
	paymentPK, walletPK := "payment#"+string(s.p.ID), "wallet#1#"+s.w.Address.String()
	add := func(pk, sk string) {
		must.Get(s.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: &s.table, Key: keyOf(pk, sk), UpdateExpression: aws.String("SET novelty = :new"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":new": &types.AttributeValueMemberBOOL{Value: true}},
		}))(s)
	}
	add(paymentPK, "payment")
	add(walletPK, "wallet")
	moved := s.p.AssignedTo(token.Address{2}, s.p.Tx)
	must.OK(s, s.Reassign(ctx, moved, s.p.Revision))
	s.p = moved.AssignedTo(s.w.Address, s.p.Tx)
	must.OK(s, s.Reassign(ctx, s.p, moved.Revision))
	s.reserve()
	p := s.committed()
	add(walletPK, "pendingtx#"+strings.Repeat("0", 19)+"5")
	must.OK(s, s.Release(ctx, p.ID, store.PendingTxOf(p)))
	p = s.bumped(p)
	must.OK(s, s.AddAttempt(ctx, p))
	must.OK(s, s.Reconcile(ctx, must.Get(s.Wallet(ctx, s.w.ID))(s), token.Units(700), token.Units(800), nil, nil))
	must.OK(s, s.Open(ctx, s.w, coin.Contract))
	receipt := chain.Receipt{Tx: p.TxHash, Succeeded: true, Block: 3, Fee: new(token.Units(61_234_567_890))}
	p = must.Get(p.Confirm(receipt, noon))(s)
	must.OK(s, s.Finish(ctx, p))
	s.stored(p)

	s.p = s.draft()
	s.p.Reference, s.p.Metadata = "ref", map[string]string{"a": "b"}
	s.create(s.p)
	s.reserve()
	p = s.committing(s.p, 6)
	must.OK(s, s.Commit(ctx, p))
	p = must.Get(p.Fail(payment.ExecutionReverted, chain.Receipt{Tx: p.TxHash, Block: 3}, noon))(s)
	must.OK(s, s.Finish(ctx, p))
	s.create(s.draft())
	for _, n := range []int{1, 2} {
		s.create(s.batch(n))
	}
	must.OK(s, s.PutNoop(ctx, wallet.PendingNoop(s.w.ID, chain.Tx{}, s.signed(s.p, 7, 0), noon)))
	must.Get(s.Claim(ctx, s.w.ID, "run", noon, noon, &wallet.Progress{Mined: 3, Paid: []uint64{2}, Sent: 4}))(s)
	must.OK(s, s.Pause(ctx, s.w.ID, "because"))
	for _, charge := range []uint64{30, 12} {
		must.OK(s, s.Charge(ctx, dayOf(charge, 100)))
	}
	must.OK(s, s.Refund(ctx, dayOf(2, 100)))
	rail := settings.Default(settings.Rail{ChainID: 1, Token: token.Token{Contract: coin.Contract, Symbol: "USDC"}, Network: "devnet"})
	rail.At = noon
	must.OK(s, s.SetSettings(ctx, rail))

	doc := must.Get(os.ReadFile("../../../docs/tables.md"))(s)
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
		must.OK(s, os.WriteFile(file, []byte(got), 0o666))
	}
	if diff := cmp.Diff(string(must.Get(os.ReadFile(file))(s)), got); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
}

// items returns the table's items as DynamoDB sends them: an attribute is its type and its value.
func (s *stage) items() []map[string]any {
	s.Helper()
	var page struct{ Items []map[string]any }
	s.meddle = func(_ string, send func() (*http.Response, error)) (*http.Response, error) {
		resp := must.Get(send())(s)
		text, err := io.ReadAll(resp.Body)
		must.OK(s, errors.Join(err, resp.Body.Close(), json.Unmarshal(text, &page)))
		return answer(http.StatusOK, string(text)), nil
	}
	must.Get(s.db.Scan(s.Context(), &dynamodb.ScanInput{TableName: &s.table}))(s)
	return page.Items
}

// TestListsShowNoStatusThatHasPassed ends two payments after List has read the index and before it reads the payments.
func TestListsShowNoStatusThatHasPassed(t *testing.T) {
	s := newStage(t)
	ctx := t.Context()
	var all []payment.Payment
	for nonce := range uint64(5) {
		p := s.draft()
		p.CreatedAt = noon.Add(-time.Duration(nonce) * time.Minute) // newest first
		s.create(p)
		p = s.committing(p, nonce)
		must.OK(s, s.Commit(ctx, p))
		all = append(all, p)
	}
	ending := all[:2]
	s.meddle = func(op string, send func() (*http.Response, error)) (*http.Response, error) {
		if op == "BatchGetItem" {
			for _, p := range ending {
				ending = nil
				must.OK(s, s.Finish(ctx, must.Get(p.Confirm(chain.Receipt{Tx: p.TxHash, Block: 3}, noon))(s)))
			}
		}
		return send()
	}
	f := store.Filter{Merchant: "mer_1", Mode: "test", Status: payment.StatusPending, Limit: 3}
	page, next, err := s.List(ctx, f)
	if err != nil || len(page) != 1 || page[0].ID != all[2].ID || next.ID != all[2].ID {
		t.Errorf("page %v, next %v, %v", page, next, err)
	}
}

// TestPagesHaveABudget: a page sends one query to each bucket, and two where queries are cut short, whatever it finds.
// The pages have every payment once, in order, and no bucket has most of a list.
func TestPagesHaveABudget(t *testing.T) {
	s := newStage(t)
	all, in := map[payment.Status][]payment.ID{}, map[string]int{}
	for nonce := range uint64(60) {
		p := s.draft()
		p.CreatedAt = noon.Add(-time.Duration(nonce) * time.Minute) // newest first
		s.create(p)
		p = s.committing(p, nonce)
		must.OK(s, s.Commit(t.Context(), p))
		if nonce%7 == 6 {
			p = must.Get(p.Confirm(chain.Receipt{Tx: p.TxHash, Block: 3}, noon))(t)
			must.OK(s, s.Finish(t.Context(), p))
		}
		all[p.State.Status()], all[""] = append(all[p.State.Status()], p.ID), append(all[""], p.ID)
	}
	for _, item := range s.items() {
		if pk, listed := item["list_pk"].(map[string]any); listed {
			in[pk["S"].(string)]++
		}
	}
	if most := slices.Max(slices.Collect(maps.Values(in))); len(in) < 12 || most > 20 {
		t.Errorf("buckets: %v", in)
	}
	s.meddle = nil
	for status, want := range all {
		for limit, each := range map[string]int{"": 1, "1": 2, "5": 2} {
			s.limit = limit
			f := store.Filter{Merchant: "mer_1", Mode: "test", Limit: 4, Status: status}
			var got []payment.ID
			for more := true; more; more = !f.From.IsZero() {
				s.sent()
				page, next, err := s.List(t.Context(), f)
				must.OK(s, err)
				queries := slices.DeleteFunc(s.sent(), func(op string) bool { return op != "Query" })
				if len(queries) > each*dynamo.ListBuckets || !next.IsZero() && !f.From.IsZero() && !f.From.After(next) {
					t.Fatalf("%d queries, from %v to %v", len(queries), f.From, next)
				}
				for _, p := range page {
					got = append(got, p.ID)
				}
				f.From = next
			}
			if !slices.Equal(got, want) {
				t.Errorf("status %q, queries of %q: %d payments of %d", status, limit, len(got), len(want))
			}
		}
	}
}

// TestListsReadUnprocessedKeys lets DynamoDB answer a batch without items twice, as it may when it is busy.
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
	page, next, err := s.List(t.Context(), store.Filter{Merchant: "mer_1", Mode: "test", Limit: 5})
	if err != nil || !next.IsZero() || len(page) != 1 || page[0].ID != p.ID {
		t.Errorf("page %v, next %v, error %v", page, next, err)
	}
	if put != 0 {
		t.Errorf("BatchGetItem was not asked again")
	}
}

// TestDamagedItemsAreNamed reads items with values that Remit never writes: the error must name the attribute.
func TestDamagedItemsAreNamed(t *testing.T) {
	s := newStage(t)
	ctx := t.Context()
	named := func(attribute, value string) {
		t.Helper()
		damage(t, s.db, s.table, "payment#"+string(s.p.ID), "payment", attribute, value)
		_, err := s.Payment(ctx, s.p.ID)
		if err == nil || !strings.Contains(err.Error(), attribute) && !strings.Contains(err.Error(), "unmarshal") {
			t.Errorf("%s = %q: error = %v", attribute, value, err)
		}
	}
	named("revision", "")
	for _, row := range [][2]string{
		{"amount", "1e6"}, {"to", "0x12"}, {"state", "PAID"}, {"created_at", "yesterday"}, {"tx_hash", "0x"},
		{"tx_cap", ""}, {"tx_hash", chain.Hash{1}.String()}, {"nonce", "five"}, {"attempts", "none"},
	} {
		s.renew()
		s.committed()
		named(row[0], row[1])
	}
	for _, row := range []struct {
		attribute, damage string
		nonces            bool // are known all the same
	}{
		{"next_nonce", "five", false}, {"nonce_ceiling", "six", false}, {"reservations", "none", false}, {"reserved_at", "never", false},
		{"token_available", "much", true}, {"claimed_until", "soon", true}, {"returned", "often", true}, {"progress", "x", true},
	} {
		s.renew()
		damage(t, s.db, s.table, "wallet#1#"+s.w.Address.String(), "wallet", row.attribute, row.damage)
		w, err := s.Wallet(ctx, s.w.ID)
		if row.nonces != (err == nil) || err != nil && !errors.Is(err, store.ErrUnreadable) || err == nil &&
			(w.NextNonce != s.w.NextNonce || (w.Damaged == "") != (row.attribute == "progress")) { // pauses no wallet
			t.Errorf("%s = %q: %+v, %v", row.attribute, row.damage, w, err)
		}
	}
}

// A wire stands between the SDK and DynamoDB Local. It records each request, and may delay it, answer it itself or lose
// the answer. Every read must be strongly consistent but for a query of an index, which cannot be, and which no
// decision about money makes.
type wire struct {
	t *testing.T
	// meddle answers a request, itself or by calling send. A nil meddle sends every request.
	meddle func(op string, send func() (*http.Response, error)) (*http.Response, error)

	limit string // of each query, if not empty

	mu  sync.Mutex
	ops []string
}

var limit = regexp.MustCompile(`"Limit":[0-9]+`)

func (w *wire) Do(req *http.Request) (*http.Response, error) {
	_, op, _ := strings.Cut(req.Header.Get("X-Amz-Target"), ".")
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	if w.limit != "" && op == "Query" {
		body = limit.ReplaceAll(body, []byte(`"Limit":`+w.limit))
		req.ContentLength = int64(len(body))
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	w.mu.Lock()
	w.ops = append(w.ops, op)
	w.mu.Unlock()
	reads := op == "GetItem" || op == "BatchGetItem" || op == "Query"
	if reads && bytes.Contains(body, []byte(`"ConsistentRead":true`)) == bytes.Contains(body, []byte(`"IndexName"`)) {
		w.t.Errorf("%s: %s", op, body)
	}
	send := func() (*http.Response, error) { return http.DefaultClient.Do(req) }
	if w.meddle == nil {
		return send()
	}
	return w.meddle(op, send)
}

// sent returns the operations sent since its last call.
func (w *wire) sent() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	ops := w.ops
	w.ops = nil
	return ops
}

// client returns a client of DynamoDB Local that speaks through w and waits at
// most a millisecond before it repeats a call.
func (w *wire) client(t *testing.T) *dynamodb.Client {
	t.Helper()
	w.t = t
	o := dynamotest.Client(t).Options()
	o.HTTPClient = w
	o.Retryer = retry.NewStandard(func(o *retry.StandardOptions) { o.MaxBackoff = time.Millisecond })
	return dynamodb.New(o)
}

// lose breaks the connection of the next n writes after DynamoDB has applied them.
func (w *wire) lose(n int) {
	w.meddle = func(op string, send func() (*http.Response, error)) (*http.Response, error) {
		resp, err := send()
		if err != nil || op == "GetItem" || op == "BatchGetItem" || op == "Query" || op == "Scan" {
			return resp, err
		}
		if n--; n < 0 {
			return resp, nil
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		return nil, fmt.Errorf("reading the answer: %w", syscall.ECONNRESET)
	}
}

// cancel answers the next n transactions as cancelled for the reasons, without sending them to DynamoDB.
func (w *wire) cancel(n int, reasons ...string) {
	w.meddle = func(op string, send func() (*http.Response, error)) (*http.Response, error) {
		if op != "TransactWriteItems" || n == 0 {
			return send()
		}
		n--
		codes := make([]string, len(reasons))
		for i, r := range reasons {
			codes[i] = fmt.Sprintf(`{"Code":%q}`, r)
		}
		return answer(http.StatusBadRequest, `{"__type":"com.amazonaws.dynamodb.v20120810#TransactionCanceledException",`+
			`"Message":"Transaction cancelled, please refer cancellation reasons for specific reasons","CancellationReasons":[`+
			strings.Join(codes, ",")+`]}`), nil
	}
}

// conflict answers the next n requests as refused because of a transaction on
// their item, without sending them to DynamoDB.
func (w *wire) conflict(n int) {
	w.meddle = func(_ string, send func() (*http.Response, error)) (*http.Response, error) {
		if n--; n < 0 {
			return send()
		}
		return answer(http.StatusBadRequest, `{"__type":"com.amazonaws.dynamodb.v20120810#TransactionConflictException",`+
			`"message":"Transaction is ongoing for the item"}`), nil
	}
}

func answer(status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body: io.NopCloser(bytes.NewReader([]byte(body))), ContentLength: int64(len(body)),
	}
}
