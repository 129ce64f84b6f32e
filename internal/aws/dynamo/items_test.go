package dynamo_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/recipient"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/dynamotest"
	"github.com/remit-payouts/remit/internal/proof/fieldtest"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// TestFrozen reads the items that a version has stored, and makes the next changes to them. Deployed tables have such
// items, so the files in testdata/frozen never change, and no flag writes them. A line of a .items file is a table and
// an item; the .values file has what the version read, without fields that are zero and were added later.
//
// TestAlike reports an attribute that no frozen item has, or not of that type. The version that adds it adds two files:
// a copy of the newest items, some with the attribute, and their values, which this test prints while that is missing.
//
// The items also have the attribute novelty, as if a later version had added it: no update may remove it.
func TestFrozen(t *testing.T) {
	unset := func(_ string, v any) bool {
		return v == nil || v == "" || v == false || v == json.Number("0") || v == "0001-01-01T00:00:00Z"
	}
	set := cmpopts.IgnoreMapEntries(unset)
	for _, file := range must.Get(filepath.Glob("testdata/frozen/*.items"))(t) {
		f := thaw(t, file)
		f.read()
		got := must.Get(json.MarshalIndent(f.values, "", "\t"))(t)
		want, err := os.ReadFile(strings.TrimSuffix(file, "items") + "values")
		if err != nil {
			t.Fatalf("%v; put there:\n%s", err, got)
		}
		read := fields(t, got)
		for name, was := range fields(t, want) {
			if diff := cmp.Diff(was, read[name], set); diff != "" {
				t.Errorf("%s: %s is read as another value; have the decoder add what old items lack (-want +got):\n%s", file, name, diff)
			}
		}
		before := items(t, f.db, f.tables...)
		f.change()
		for key, item := range items(t, f.db, f.tables...) {
			if before[key] != nil && item["novelty"] == nil && item["proposal"] == nil && !replaced.MatchString(key) {
				t.Errorf("%s: an update removes the attribute novelty of %s", file, key)
			}
		}
	}
}

// replaced matches the keys of items that each change puts as a whole, as it does the payment of a proposal.
var replaced = regexp.MustCompile(`^&.(issued|merchant)#|&.(compared#|merchant#guard#|rails)`)

// fields decodes JSON and keeps the digits of its numbers.
func fields(t *testing.T, text []byte) (v map[string]any) {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	must.OK(t, decoder.Decode(&v))
	return v
}

// A thawed is a stage with frozen items, and the values read from them.
type thawed struct {
	stage
	tables []string
	keys   *dynamo.APIKeys
	hooks  *dynamo.Webhooks
	values map[string]any
}

func thaw(t *testing.T, file string) *thawed {
	t.Helper()
	f := &thawed{stage: stage{T: t, wire: &wire{}}, values: map[string]any{}}
	f.db = f.client(t)
	in := tables(t, f.db)
	f.tables = []string{in.APIKeys, in.Payments, in.Webhooks}
	f.Payments = dynamo.NewPayments(f.db, in.Payments)
	f.keys, f.hooks = dynamo.NewAPIKeys(f.db, in.APIKeys), dynamo.NewWebhooks(f.db, in.Webhooks)
	id, doc := strings.TrimPrefix(in.Payments, "payments"), string(must.Get(os.ReadFile("../../../docs/tables.md"))(t))
	for line := range strings.Lines(string(must.Get(os.ReadFile(file))(t))) {
		for _, name := range attributesOf(line) {
			_, name, _ = strings.Cut(name, " ")
			if strings.HasPrefix(line, "payments ") && !strings.Contains(doc, "`"+name) {
				t.Errorf("docs/tables.md does not describe %s", name)
			}
		}
		table, text, _ := strings.Cut(strings.ReplaceAll(line, "-frozen", id), " ")
		item := must.Get(attributevalue.UnmarshalMapJSON([]byte(text)))(t)
		item["novelty"] = &types.AttributeValueMemberBOOL{Value: true}
		must.Get(f.db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: new(table + id), Item: item}))(t)
	}
	return f
}

var mailbox = webhook.Owner{Merchant: "mer_1", Mode: "test"}

// read reads each item and each list.
func (f *thawed) read() {
	ctx, late := f.Context(), noon.AddDate(1, 0, 0)
	for e, err := range f.Entries(ctx) {
		f.as(fmt.Sprintf("entry %s %s", e.Payment.ID, e.Noop))(e, err)
		for _, hash := range e.Payment.Hashes() {
			f.as(hash.String())(f.PaymentByHash(ctx, hash))
		}
		if e.Payment.Proposal {
			f.as("proposal of " + string(e.Payment.ID))(f.Proposal(ctx, e.Payment.ID))
		}
	}
	rules, err := f.Rules(ctx)
	f.as("rules")(rules, err)
	for _, rail := range rules.Rails {
		f.as("history of " + rail.Token.Symbol)(f.SettingsHistory(ctx, rail.Coin))
		f.as("comparison of " + rail.Token.Symbol)(f.Compared(ctx, rail.Coin))
		registry, err := f.Wallets(ctx, rail.Coin)
		f.as("registry of "+rail.Token.Symbol)(registry, err)
		for _, r := range registry.Working(true) {
			f.as(r.Address.String())(f.Wallet(ctx, r.ID))
			f.as("transactions of " + r.Address.String())(f.PendingTxs(ctx, r.ID, 0))
		}
	}
	f.as("audit log")(f.Acts(ctx, noon))
	f.as("guard")(f.Guard(ctx, "guard_1"))
	f.as("day")(f.Charged(ctx, "mer_1", "test", "", noon))
	f.as("day of a key")(f.Charged(ctx, "mer_1", "test", "key_1", noon))
	f.as("failed")(f.List(ctx, store.Filter{Merchant: "mer_1", Mode: "test", Status: "failed"}))
	f.as("reference")(f.List(ctx, store.Filter{Merchant: "mer_1", Mode: "test", Reference: "inv «é» 🧾"}))
	f.as("proposals")(f.ListProposals(ctx, store.ProposalFilter{Merchant: "mer_1", Mode: "test", By: "key_1"}))
	f.as("due proposals")(f.Payments.Due(ctx, late, 100))

	keys, err := f.keys.List(ctx, "mer_1")
	f.as("keys")(len(keys), err)
	for _, k := range keys {
		k, err := f.keys.Named(ctx, "mer_1", k.ID)
		f.as(k.ID)(k.Public(), k.Grant, k.Hash, k.MerchantID, k.MerchantName, k.Mode, k.Term, err)
	}
	f.as("terms")(f.keys.Terms(ctx, "mer_1"))
	f.as("recipients")(f.keys.Entries(ctx, "mer_1", "test", recipient.Position{}, 100))

	endpoints, err := f.hooks.Endpoints(ctx, mailbox)
	f.as("endpoints")(endpoints, err)
	for _, e := range endpoints {
		f.as("secrets of "+e.ID)(e.Secret.Stored(), e.PreviousSecret.Stored(), nil)
	}
	f.as("deleted endpoint")(f.hooks.Endpoint(ctx, mailbox, "we_3"))
	for _, d := range must.Get(f.hooks.Deliveries(ctx, mailbox, "we_1", noon, late, 100))(f) {
		f.as(d.Delivery)(f.hooks.Load(ctx, d.Ref))
	}
	f.as("due deliveries")(f.hooks.Due(ctx, late, 100))
	f.as("job")(webhook.ParseJob("test/mer_1/we_1/dlv_1/evt_1/payment.mined/1767355200123/eyJpZCI6ImV2dF8xIn0"))
	f.as("job of a retry")(webhook.ParseJob("test/mer_1/we_1/dlv_1"))
}

// as returns a function that keeps the results of a call under a name. The last result is the error.
func (f *thawed) as(name string) func(...any) {
	return func(results ...any) {
		last := len(results) - 1
		if results[last] != nil {
			f.Fatalf("reading %s: %v", name, results[last])
		}
		f.values[name] = results[:last]
	}
}

// change makes one change of each kind of item, and those that a limit refuses.
func (f *thawed) change() {
	ctx, later := f.Context(), noon.Add(48*time.Hour)
	made := func(errs ...error) { f.Helper(); must.OK(f, errors.Join(errs...)) }
	of := func(key string) proposal.Proposal {
		return must.Get(f.Proposal(ctx, payment.KeyID("mer_1", "test", key)))(f)
	}
	w := must.Get(f.Wallet(ctx, wallet.ID{ChainID: 1, Address: token.Address{0xee, 19: 1}}))(f)
	p := of("reserved").Payment
	nonce, _ := w.Holds(p.ID, p.Revision)
	p = f.committing(p, nonce)
	made(f.Commit(ctx, p), f.Release(ctx, p.ID, store.PendingTxOf(p)), f.Discard(ctx, of("prepared").Payment))
	for _, key := range []string{"committed", "bumped", "batch of one", "batch of three"} {
		p = f.bumped(of(key).Payment)
		made(f.AddAttempt(ctx, p), must.Err(f.SetMined(ctx, p.ID, later)))
		p = must.Get(p.Confirm(chain.Receipt{Tx: p.TxHash, Block: 9}, later))(f)
		made(f.Finish(ctx, p), f.Redact(ctx, must.Get(p.Redacted())(f)))
	}
	p = of("found on the chain").Payment
	made(f.Adopt(ctx, p.Adopted(payment.Request{Merchant: "mer_1", Mode: "test", IdempotencyKey: "found"})))
	_, _, err := f.CreateGuarded(ctx, f.draft(), must.Get(f.Guard(ctx, "guard_1"))(f))
	made(err)
	for _, key := range []string{"proposed", "refused", "begun", "released"} {
		from := of("prp " + key)
		to := from
		to.Closed = true
		made(f.Amend(ctx, from, to, store.Guard{}))
	}

	need := wallet.Need{Wallet: w.ID, Payment: "pay_new", For: "revision", Amount: token.Units(10), At: later,
		Merchant: "mer_1", MerchantCap: w.PerMerchant["mer_1"] + 1}
	made(must.Err(f.Reserve(ctx, need)), f.Return(ctx, need, w.NextNonce))
	tx := must.Get(f.PendingTx(ctx, w.ID, 30))(f)
	w = must.Get(f.Wallet(ctx, w.ID))(f)
	made(f.BumpNoop(ctx, tx.Bumped(chain.Tx{}, f.signed(p, 30, 11), later)), f.Reconcile(ctx, w, w.Gas, w.Gas, nil, nil))
	if must.Get(f.Claim(ctx, w.ID, "another run", noon, later, nil))(f) {
		f.Error("two runs have a claim")
	}
	w.ID.Address[19] = 6
	w = must.Get(f.Wallet(ctx, w.ID))(f)
	made(f.Repause(ctx, w.ID, w.Paused, ""))
	w.Paused = ""
	made(f.Assign(ctx, w, "mer_3", later))
	w.ID.Address[19] = 7
	made(f.Retire(ctx, w, later))

	made(f.SetSettings(ctx, must.Get(f.Rules(ctx))(f).Rails[0].Settings))
	made(f.SetCompared(ctx, coin, must.Get(f.Compared(ctx, coin))(f)))
	place := store.Place{Merchant: "mer_1", ID: "b", Until: later.Add(1)}
	key := apikey.Key{ID: "key_next", MerchantID: "mer_1", CreatedAt: noon}
	for want, err := range map[error]error{
		store.ErrDailyLimit: f.Charge(ctx, dayOf(61, 100)), store.ErrFull: f.Take(ctx, place, noon, 1),
		webhook.ErrLimit: f.hooks.AddEndpoint(ctx, webhook.Endpoint{Owner: mailbox}, 2), apikey.ErrLimit: f.keys.Issue(ctx, key, 3),
	} {
		if !errors.Is(err, want) {
			f.Errorf("error = %v, want %v", err, want)
		}
	}
	made(f.Charge(ctx, dayOf(60, 100)), f.Take(ctx, place, later, 1), f.keys.Issue(ctx, key, 4))
	keys := must.Get(f.keys.List(ctx, "mer_1"))(f) // the newest first
	key.Hash, key.ID = apikey.Hash{2}, "key_after"
	made(f.keys.Replace(ctx, "mer_1", keys[2].Hash, later, key), must.Err(f.keys.Revoke(ctx, "mer_1", keys[0].Hash, later)),
		f.keys.Touch(ctx, keys[2].Hash, later, later), f.keys.DeleteEntry(ctx, "mer_1", "test", token.Address{0xaa}),
		f.keys.SetTerms(ctx, "mer_1", must.Get(f.keys.Terms(ctx, "mer_1"))(f), apikey.Terms{}))

	e := must.Get(f.hooks.SaveEndpoint(ctx, must.Get(f.hooks.Endpoint(ctx, mailbox, "we_2"))(f)))(f)
	e.Status = webhook.Deleted
	made(must.Err(f.hooks.SaveEndpoint(ctx, e)))
	parked := must.Get(f.hooks.Due(ctx, later, 9))(f)[0]
	made(f.hooks.Unpark(ctx, parked))
	_, d, err := f.hooks.Load(ctx, parked.Ref)
	d.Attempts = append(d.Attempts, webhook.Attempt{At: later})
	if made(err, must.Err(f.hooks.Record(ctx, d, 1))); d.Parked {
		f.Errorf("%s is parked", parked)
	}
}

// items returns the items of tables by their keys.
func items(t *testing.T, db *dynamodb.Client, tables ...string) map[string]map[string]types.AttributeValue {
	t.Helper()
	all := map[string]map[string]types.AttributeValue{}
	for _, name := range tables {
		for _, item := range must.Get(db.Scan(t.Context(), &dynamodb.ScanInput{TableName: &name}))(t).Items {
			all[fmt.Sprint(item["key_hash"], item["pk"], item["sk"])] = item
		}
	}
	return all
}

var (
	keyed     = regexp.MustCompile(`"(?:key_hash|pk)":\{"S":"([a-z]+#)?`)
	attribute = regexp.MustCompile(`"([a-z_]{1,24})(#[^"]*)?":\{"([A-Z]+)":`)
)

// attributesOf returns an item's attributes, nested ones too, each as "payment#S created_at": key's prefix, type, name.
func attributesOf(item string) (names []string) {
	for _, match := range attribute.FindAllStringSubmatch(item, -1) {
		if !strings.HasPrefix(match[1], "mer_") && !strings.HasPrefix(match[1], "pay_") { // keys of a wallet's maps
			names = append(names, keyed.FindStringSubmatch(item)[1]+match[3]+" "+match[1])
		}
	}
	return names
}

// TestEveryField has no database: a payment's item keeps each field, and Adopt and Redact write each that they change.
// Commit, SetMined and Propose write the fields that are zero here: TestFull and TestAlike have these.
func TestEveryField(t *testing.T) {
	var sent, stored []byte
	s := dynamo.NewPayments(dynamodb.New(dynamodb.Options{Region: "x", Credentials: aws.AnonymousCredentials{},
		HTTPClient: smithyhttp.ClientDoFunc(func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".GetItem") {
				return answer(http.StatusOK, string(stored)), nil
			}
			sent = must.Get(io.ReadAll(r.Body))(t)
			return answer(http.StatusOK, "{}"), nil
		})}), "table")
	item := func(p payment.Payment) map[string]any {
		var put struct{ Item map[string]any }
		_, _, err := s.Create(t.Context(), p)
		must.OK(t, errors.Join(err, json.Unmarshal(sent, &put)))
		return put.Item
	}
	p := fieldtest.Filled[payment.Payment]()
	p.ID, p.State = payment.KeyID("mer_1", "test", "k"), payment.Prepared
	p.Nonce, p.Attempts, p.TxHash, p.MinedAt, p.Proposal = 0, nil, chain.Hash{}, time.Time{}, false
	call := p.Call(p.Wallet, true)
	p.Tx.To, p.Tx.Value, p.Tx.Data = call.To, call.Value, call.Data
	item(p)
	stored = sent
	if diff := cmp.Diff(p, must.Get(s.Payment(t.Context(), p.ID))(t), cmpopts.EquateComparable(token.Amount{})); diff != "" {
		t.Errorf("encodePayment or decodePayment in paymentitem.go loses a field (-written +read):\n%s", diff)
	}
	stored, p.State = []byte("{}"), payment.Confirmed
	redacted, request := must.Get(p.Redacted())(t), fieldtest.Filled[payment.Request]()
	p.Event.ID, p.Event.Type, request.Entries = redacted.Event.ID, redacted.Event.Type, p.Entries
	found := redacted
	found.Merchant, found.Mode, found.IdempotencyKey, found.Fingerprint = "", "", "", ""
	for name, change := range map[string]struct {
		from, to payment.Payment
		write    func(context.Context, payment.Payment) error
	}{"Adopt": {found, found.Adopted(request), s.Adopt}, "Redact": {p, redacted, s.Redact}} {
		before, after := item(change.from), item(change.to)
		must.OK(t, change.write(t.Context(), change.to))
		update := string(regexp.MustCompile(`"UpdateExpression":"[^"]*`).Find(sent))
		all := maps.Clone(before)
		maps.Copy(all, after)
		for attribute := range all {
			if !cmp.Equal(before[attribute], after[attribute]) && !regexp.MustCompile("#"+attribute+`\b`).MatchString(update) {
				t.Errorf("%s in payments.go writes no %s", name, attribute)
			}
		}
	}
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
	for _, item := range items(t, s.db, s.table) {
		if pk, listed := item["list_pk"].(*types.AttributeValueMemberS); listed {
			in[pk.Value]++
		}
	}
	if most := slices.Max(slices.Collect(maps.Values(in))); len(in) < 12 || most > 20 {
		t.Errorf("buckets: %v", in)
	}
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

// client returns a client of DynamoDB Local that speaks through w and repeats a call after a millisecond at most.
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

// conflict answers the next n requests as refused because of a transaction on their item, and does not send them.
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
