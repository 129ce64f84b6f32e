package events_test

import (
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"remit/internal/apikey"
	"remit/internal/dynamo"
	"remit/internal/webhook"
)

// What the events name.
const (
	sampleKey      = "remit_test_0aB1cD2eF3gH_0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg1K7XZ5"
	sampleMerchant = "mer_0123456789abcdef"
	sampleEndpoint = "we_0123456789abcdef01234567"
)

// seed makes the merchant, the endpoint and the deliveries that the events
// name, and nothing else: what earlier events made is gone. Payments stay.
func (s *services) seed(t *testing.T) (endpoint webhook.Endpoint) {
	t.Helper()
	db := dynamodb.NewFromConfig(s.client())
	env := s.environment["RotateApiKeyFunction"]["API_KEYS_TABLE"]
	hooks := s.environment["DeliverWebhookFunction"]["WEBHOOKS_TABLE"]
	empty(t, db, env, "key_hash")
	empty(t, db, hooks, "pk", "sk")
	queue := s.environment["DeliverWebhookFunction"]["WEBHOOK_QUEUE_URL"]
	if _, err := sqs.NewFromConfig(s.client()).PurgeQueue(t.Context(), &sqs.PurgeQueueInput{QueueUrl: &queue}); err != nil {
		t.Fatal(err) // jobs of deliveries that are gone
	}

	key, err := apikey.Parse(sampleKey)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	err = dynamo.NewAPIKeys(db, env).Create(t.Context(), apikey.Key{
		Hash: key.Hash(), ID: key.ID(), MerchantID: sampleMerchant, MerchantName: "Corner Shop", Mode: apikey.Test,
		Prefix: key.Prefix(), Last4: key.Last4(), CreatedAt: now,
	})
	if err != nil {
		t.Fatal(err)
	}
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(receiver.Close)
	secret, err := webhook.MintSecret(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	endpoint = webhook.Endpoint{
		Owner: webhook.Owner{Merchant: sampleMerchant, Mode: "test"}, ID: sampleEndpoint, URL: receiver.URL,
		Status: webhook.Enabled, Secret: secret, CreatedAt: now, EnabledAt: now, Version: 1,
	}
	store := dynamo.NewWebhooks(db, hooks)
	if err := store.AddEndpoint(t.Context(), endpoint, webhook.EndpointLimit); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"dlv_0123456789abcdefghij", "dlv_01234567", webhook.FirstID(now)} {
		err := store.AddDeliveries(t.Context(), []webhook.Delivery{{
			Ref:    webhook.Ref{Owner: endpoint.Owner, Endpoint: endpoint.ID, Delivery: id},
			Event:  webhook.Event{ID: "evt_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", Type: webhook.PaymentConfirmed, At: now, Body: []byte(`{}`)},
			Status: webhook.Pending, NextAttemptAt: now, CreatedAt: now,
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	return endpoint
}

// empty deletes every item of a table with that key.
func empty(t *testing.T, db *dynamodb.Client, table string, key ...string) {
	t.Helper()
	found, err := db.Scan(t.Context(), &dynamodb.ScanInput{TableName: &table, ConsistentRead: aws.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range found.Items {
		which := map[string]types.AttributeValue{}
		for _, k := range key {
			which[k] = item[k]
		}
		if _, err := db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: &table, Key: which}); err != nil {
			t.Fatal(err)
		}
	}
}
