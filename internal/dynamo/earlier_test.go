package dynamo_test

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"remit/internal/apikey"
	"remit/internal/chain"
	"remit/internal/dynamo"
	"remit/internal/dynamo/dynamotest"
	"remit/internal/payment"
	"remit/internal/token"
	"remit/internal/wallet"
	"remit/internal/webhook"
)

// TestReadsWhatAnEarlierReleaseWrote: tables outlive releases, and for the
// minutes of a deployment two releases write to the same ones. The items are
// what the release that `make upgrade` begins with left after its first
// payments, recorded there with -update.
func TestReadsWhatAnEarlierReleaseWrote(t *testing.T) {
	raw, err := os.ReadFile("testdata/earlier.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded struct{ ApiKeys, Payments, Webhooks []json.RawMessage }
	if err := json.Unmarshal(raw, &recorded); err != nil {
		t.Fatal(err)
	}
	db := dynamotest.Client(t)
	names := tables(t, db)
	e := earlier{t: t, seen: map[string]int{},
		keys: dynamo.NewAPIKeys(db, names.APIKeys), payments: dynamo.NewPayments(db, names.Payments), webhooks: dynamo.NewWebhooks(db, names.Webhooks)}
	put := func(table string, items []json.RawMessage) (stored []map[string]types.AttributeValue) {
		for _, text := range items {
			item, err := attributevalue.UnmarshalMapJSON(text)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: item}); err != nil {
				t.Fatal(err)
			}
			stored = append(stored, item)
		}
		return stored
	}
	for _, item := range put(names.APIKeys, recorded.ApiKeys) {
		e.key(item)
	}
	for _, item := range put(names.Payments, recorded.Payments) {
		e.money(item)
	}
	for _, item := range put(names.Webhooks, recorded.Webhooks) {
		e.hook(item)
	}
	for _, kind := range []string{"key", "payment", "wallet", "tx", "endpoint", "delivery", string(payment.Confirmed)} {
		if e.seen[kind] == 0 {
			t.Errorf("the recording has no %s: %v", kind, e.seen)
		}
	}
}

type earlier struct {
	t        *testing.T
	keys     *dynamo.APIKeys
	payments *dynamo.Payments
	webhooks *dynamo.Webhooks
	seen     map[string]int
}

func (e earlier) text(item map[string]types.AttributeValue, name string) string {
	s, _ := item[name].(*types.AttributeValueMemberS)
	if s == nil {
		return ""
	}
	return s.Value
}

func (e earlier) key(item map[string]types.AttributeValue) {
	e.t.Helper()
	var hash apikey.Hash
	if _, err := hex.Decode(hash[:], []byte(e.text(item, "key_hash"))); err != nil {
		e.t.Fatal(err)
	}
	k, err := e.keys.Find(e.t.Context(), hash)
	if err != nil || k.ID != e.text(item, "key_id") || k.MerchantID != e.text(item, "merchant_id") || k.CreatedAt.IsZero() {
		e.t.Errorf("a key came back as %+v, %v", k, err)
	}
	e.seen["key"]++
}

// money reads an item of the payments table under what it is.
func (e earlier) money(item map[string]types.AttributeValue) {
	e.t.Helper()
	ctx, pk, sk := e.t.Context(), e.text(item, "pk"), e.text(item, "sk")
	switch {
	case sk == "payment":
		id := payment.ID(strings.TrimPrefix(pk, "payment#"))
		p, err := e.payments.Payment(ctx, id)
		if err != nil || p.ID != id || p.Amount.String() != e.text(item, "amount") || string(p.State) != e.text(item, "state") {
			e.t.Errorf("%s came back as %+v, %v", id, p, err)
		}
		e.seen["payment"]++
		e.seen[string(p.State)]++
	case sk == "tx":
		hash, err := chain.ParseHash(strings.TrimPrefix(pk, "tx#"))
		if err != nil {
			e.t.Fatal(err)
		}
		p, err := e.payments.PaymentByHash(ctx, hash)
		if err != nil || string(p.ID) != e.text(item, "payment_id") {
			e.t.Errorf("by hash %s: %s, %v", hash, p.ID, err)
		}
		e.seen["tx"]++
	case sk == "wallet":
		parts := strings.Split(pk, "#")
		chainID, err := strconv.ParseUint(parts[1], 10, 64)
		if err != nil {
			e.t.Fatal(err)
		}
		address, err := token.ParseAddress(parts[2])
		if err != nil {
			e.t.Fatal(err)
		}
		id := wallet.ID{ChainID: chainID, Address: address}
		w, err := e.payments.Wallet(ctx, id)
		if err != nil || w.Token.IsZero() || w.Gas.IsZero() || w.Ceiling == 0 {
			e.t.Errorf("%s came back as %+v, %v", pk, w, err)
		}
		if _, unreadable, err := e.payments.PendingTxs(ctx, id); err != nil || unreadable != 0 {
			e.t.Errorf("%d pending transactions of %s cannot be read: %v", unreadable, pk, err)
		}
		e.seen["wallet"]++
	case strings.HasPrefix(sk, "pendingtx#"), strings.HasPrefix(pk, "wallets#"), strings.HasPrefix(sk, "spend#"):
	default:
		e.t.Errorf("nothing reads %s / %s", pk, sk)
	}
}

// hook reads an item of the webhooks table.
func (e earlier) hook(item map[string]types.AttributeValue) {
	e.t.Helper()
	ctx, pk, sk := e.t.Context(), e.text(item, "pk"), e.text(item, "sk")
	switch {
	case strings.HasPrefix(sk, "endpoint#"):
		owner := webhook.Owner{Merchant: pk, Mode: e.text(item, "mode")}
		h, err := e.webhooks.Endpoint(ctx, owner, e.text(item, "id"))
		if err != nil || h.URL != e.text(item, "url") || h.Secret.Reveal() != e.text(item, "secret") || h.CreatedAt.IsZero() {
			e.t.Errorf("%s / %s came back as %+v, %v", pk, sk, h, err)
		}
		e.seen["endpoint"]++
	case strings.HasPrefix(pk, "log#"):
		parts := strings.Split(pk, "#")
		ref := webhook.Ref{Owner: webhook.Owner{Mode: parts[1], Merchant: parts[2]}, Endpoint: parts[3], Delivery: sk}
		_, d, err := e.webhooks.Load(ctx, ref)
		if err != nil || d.Event.ID != e.text(item, "event_id") || len(d.Event.Body) == 0 || d.CreatedAt.Equal(time.Time{}) {
			e.t.Errorf("%s came back as %+v, %v", ref, d, err)
		}
		e.seen["delivery"]++
	case strings.HasPrefix(sk, "count#"), strings.HasPrefix(sk, "gone#"):
	default:
		e.t.Errorf("nothing reads %s / %s", pk, sk)
	}
}
