package dynamo_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/schema"
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
)

var coin = token.Coin{ChainID: 1, Contract: token.Address{0xc0}}

func tables(t *testing.T, db *dynamodb.Client) schema.Tables {
	t.Helper()
	id := rand.Text()
	names := schema.Tables{APIKeys: "keys-" + id, Payments: "payments-" + id, Webhooks: "webhooks-" + id}
	for range 2 { // the second call finds them there
		must.OK(t, schema.Create(t.Context(), db, names))
	}
	return names
}

// TestACopyOfATable: that the wallets of the first were compared, it does not say of itself.
func TestACopyOfATable(t *testing.T) {
	db, at := new(wire).client(t), time.Date(2100, time.January, 2, 3, 4, 5, 0, time.UTC)
	first, second := tables(t, db).Payments, tables(t, db).Payments
	must.OK(t, dynamo.NewPayments(db, first).SetCompared(t.Context(), coin, store.Comparison{At: at}))
	for _, item := range items(t, db, first) {
		must.Get(db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &second, Item: item}))(t)
	}
	for name, want := range map[string]time.Time{first: at, second: {}} {
		if got, err := dynamo.NewPayments(db, name).Compared(t.Context(), coin); err != nil || !got.At.Equal(want) {
			t.Errorf("%s: compared at %v, %v, want %v", name, got, err, want)
		}
	}
	damage(t, db, first, "compared#1#"+coin.Contract.String(), first, "compared_at", "yesterday")
	if _, err := dynamo.NewPayments(db, first).Compared(t.Context(), coin); err == nil {
		t.Error("a damaged time is read")
	}
}

// TestDamagedRules: a rail's coin or a denial that does not decode is an error, never none.
func TestDamagedRules(t *testing.T) {
	db, to := new(wire).client(t), token.Address{1}
	for _, spoiled := range [][3]string{{"rails", "01", "asset"}, {"denied", to.String(), "created_at"}} {
		table := tables(t, db).Payments
		payments := dynamo.NewPayments(db, table)
		must.OK(t, payments.SetSettings(t.Context(), settings.Default(settings.Rail{ChainID: 1,
			Token: token.Token{Contract: to, Symbol: "USDC"}, Network: "devnet"})))
		must.OK(t, payments.Deny(t.Context(), store.Denial{To: to, At: time.Now()}))
		must.Get(payments.Rules(t.Context()))(t)
		damage(t, db, table, spoiled[0], spoiled[1], spoiled[2], "?")
		if _, err := payments.Rules(t.Context()); err == nil {
			t.Errorf("a damaged %s is read", spoiled)
		}
	}
}

// TestARegistrationWithoutAnAddress hides no other wallet, is reported, and is no wallet.
func TestARegistrationWithoutAnAddress(t *testing.T) {
	db := new(wire).client(t)
	table := tables(t, db).Payments
	payments, good := dynamo.NewPayments(db, table), wallet.Registration{ID: wallet.ID{ChainID: 1,
		Address: token.Address{1}}, Token: coin.Contract, State: wallet.Active, Key: wallet.InSecret}
	must.OK(t, payments.Register(t.Context(), good))
	item := keyOf("wallets#1", "wallet#nobody's")
	item["state"], item["signer"] = text("active"), text("secret")
	must.Get(db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: item}))(t)
	registry, err := payments.Wallets(t.Context(), coin)
	damaged := wallet.Registration{ID: wallet.ID{ChainID: 1}, Token: coin.Contract, State: wallet.Damaged, Key: wallet.InSecret, Opened: true}
	if want := (wallet.Registry{damaged, good}); err != nil || !slices.Equal(registry, want) ||
		len(registry.Working(true))+len(registry.Working(false)) != 1 {
		t.Errorf("%v, %v, want %v, of which one is a wallet", registry, err, want)
	}
}

// TestWebhooksExpire: deliveries end 90 days after their creation, however they came to be
// stored, and a deleted endpoint 90 days after its deletion; nothing else does.
func TestWebhooksExpire(t *testing.T) {
	db := new(wire).client(t)
	table := tables(t, db).Webhooks
	hooks, o := dynamo.NewWebhooks(db, table), webhook.Owner{Merchant: "mer_1", Mode: "test"}
	stays, gone := webhook.Endpoint{Owner: o, ID: "we_1", CreatedAt: noon}, webhook.Endpoint{Owner: o, ID: "we_2", CreatedAt: noon}
	added := webhook.Delivery{Ref: webhook.Ref{Owner: o, Endpoint: "we_1", Delivery: "dlv_1"}, CreatedAt: noon, Status: webhook.Pending}
	err := errors.Join(hooks.AddEndpoint(t.Context(), stays, 9), hooks.AddEndpoint(t.Context(), gone, 9),
		hooks.AddDelivery(t.Context(), added))
	gone.Status, gone.DeletedAt = webhook.Deleted, noon
	_, saveErr := hooks.SaveEndpoint(t.Context(), gone)
	ended := added
	ended.Status = webhook.Cancelled
	_, endErr := hooks.Record(t.Context(), ended, 0)
	ended.Delivery = "dlv_2"
	_, storeErr := hooks.Record(t.Context(), ended, 0)
	must.OK(t, errors.Join(err, saveErr, endErr, storeErr))
	expire := map[string]bool{}
	for _, item := range items(t, db, table) {
		ttl, expires := item["ttl"].(*types.AttributeValueMemberN)
		if expires && ttl.Value != fmt.Sprint(noon.AddDate(0, 0, 90).Unix()) {
			t.Errorf("%v", item)
		}
		expire[item["sk"].(*types.AttributeValueMemberS).Value] = expires
	}
	want := map[string]bool{"count#test": false, "endpoint#test#we_1": false, "gone#test#we_2": true, "dlv_1": true, "dlv_2": true}
	if diff := cmp.Diff(want, expire); diff != "" {
		t.Errorf("items that expire (-want +got):\n%s", diff)
	}
}

// TestIssuedNamesValidKeysOnly: a merchant that makes and revokes keys all day has an item of the same size. A key is
// found by its id without the index, which may lack one that was stored a moment ago.
func TestIssuedNamesValidKeysOnly(t *testing.T) {
	w := new(wire)
	db := w.client(t)
	table := tables(t, db).APIKeys
	keys := dynamo.NewAPIKeys(db, table)
	for i := range 4 {
		k := apikey.Key{ID: fmt.Sprint("key_", i), MerchantID: "mer_1", Mode: apikey.Test, Hash: apikey.Hash{byte(i)},
			CreatedAt: time.Unix(int64(i), 0)}
		must.OK(t, keys.Issue(t.Context(), k, 2))
		w.sent()
		if got := must.Get(keys.Named(t.Context(), "mer_1", k.ID))(t); got.Hash != k.Hash || slices.Contains(w.sent(), "Query") {
			t.Errorf("%+v", got)
		}
		must.Get(keys.Revoke(t.Context(), k.MerchantID, k.Hash, k.CreatedAt))(t)
	}
	got, err := db.GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: &table, ConsistentRead: aws.Bool(true), Key: map[string]types.AttributeValue{"key_hash": text("issued#mer_1")},
	})
	if err != nil || len(got.Item["issued"].(*types.AttributeValueMemberL).Value) != 1 {
		t.Errorf("%v, %v", got.Item, err)
	}
}

// damage gives an attribute of a stored item a value that Remit never writes.
func damage(t *testing.T, db *dynamodb.Client, table, pk, sk, attribute, value string) {
	t.Helper()
	_, err := db.UpdateItem(context.WithoutCancel(t.Context()), &dynamodb.UpdateItemInput{
		TableName: &table, Key: keyOf(pk, sk), UpdateExpression: aws.String("SET #a = :v"),
		ConditionExpression:       aws.String("attribute_exists(pk)"),
		ExpressionAttributeNames:  map[string]string{"#a": attribute},
		ExpressionAttributeValues: map[string]types.AttributeValue{":v": text(value)},
	})
	if err != nil {
		t.Fatalf("damaging %s of %s: %v", attribute, pk, err)
	}
}

func keyOf(pk, sk string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{"pk": text(pk), "sk": text(sk)}
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
