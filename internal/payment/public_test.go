package payment_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"remit/internal/chain"
	"remit/internal/payment"
	"remit/internal/token"
)

func TestPublic(t *testing.T) {
	const (
		one = "0x0100000000000000000000000000000000000000000000000000000000000000"
		to  = "0xee00000000000000000000000000000000000000"
	)
	pending := `{"tx_hash":"` + one + `","status":"pending","amount":1000000,"wallet_address":"` + to + `","to":"` + to + `",` +
		`"token":"USDC","decimals":6,"network":"net","reference":"inv-1","metadata":{"order":"2041"},` +
		`"onchain_tx_hash":null,"block_number":null,"failure":null,"version":1,"mode":"test",` +
		`"created_at":"2026-01-02T03:04:05.678Z","updated_at":"2026-01-02T03:04:05.678Z"}`
	got, err := json.Marshal(in(t, payment.Committed).Public())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(pending, string(got)); diff != "" {
		t.Errorf("a committed payment (-want +got):\n%s", diff)
	}

	p := in(t, payment.Failed)
	p.Reference, p.Metadata, p.Amount = "", nil, token.MaxAmount()
	view := p.Public()
	if view.Reference != nil || view.Metadata == nil || view.OnchainTxHash != nil || view.BlockNumber != nil || view.Failure == nil || view.Failure.Message == "" {
		t.Errorf("a payment whose nonce somebody else used: %+v", view)
	}
	if paid := in(t, payment.Confirmed).Public(); paid.OnchainTxHash == nil || *paid.OnchainTxHash != (chain.Hash{1}) || paid.BlockNumber == nil || *paid.BlockNumber != 5 {
		t.Errorf("a payment that was made: %+v", paid)
	}
	if got, err := json.Marshal(view.Amount); err != nil || string(got) != token.MaxAmount().String() {
		t.Errorf("the largest amount is written as %s, %v", got, err)
	}
}

func TestEvent(t *testing.T) {
	p := in(t, payment.Confirmed)
	if p.Event.ID != payment.EventID(p.ID, "payment.confirmed") || p.Event.Type != "payment.confirmed" {
		t.Errorf("event %s of type %s", p.Event.ID, p.Event.Type)
	}
	var body struct {
		ID, Type, Timestamp string
		Data                map[string]any
	}
	if err := json.Unmarshal(p.Event.Body, &body); err != nil {
		t.Fatal(err)
	}
	if body.ID != p.Event.ID || body.Type != p.Event.Type || body.Timestamp != "2026-01-02T03:04:05.678Z" {
		t.Errorf("body %s", p.Event.Body)
	}
	if body.Data["previous_status"] != "pending" || body.Data["status"] != "confirmed" || body.Data["version"] != 2.0 {
		t.Errorf("data %v", body.Data)
	}
	if again := in(t, payment.Confirmed); string(again.Event.Body) != string(p.Event.Body) {
		t.Errorf("two serialisations of one end differ:\n%s\n%s", p.Event.Body, again.Event.Body)
	}
	for _, code := range []payment.FailureCode{payment.ExecutionReverted, payment.TransferMissing, payment.NonceConsumed} {
		failed, err := in(t, payment.Committed).Fail(code, chain.Receipt{}, now)
		if err != nil || failed.Failure.Code != code || failed.Failure.Message == "" || failed.Event.Type != "payment.failed" {
			t.Errorf("failed with %s: %+v, %v", code, failed.Failure, err)
		}
	}
}

// TestEventIsWrittenAsItIs: a receiver finds the characters that the merchant
// sent, and not their escapes for HTML.
func TestEventIsWrittenAsItIs(t *testing.T) {
	p := in(t, payment.Committed)
	p.Reference = "<a & b>"
	p, err := p.Confirm(chain.Receipt{Tx: chain.Hash{1}, Block: 5}, now)
	if err != nil || !bytes.Contains(p.Event.Body, []byte(`"reference":"<a & b>"`)) {
		t.Errorf("%s, %v", p.Event.Body, err)
	}
}

func TestTime(t *testing.T) {
	zone := time.FixedZone("UTC+5", 5*3600)
	text, err := payment.Time(time.Date(2026, 1, 2, 3, 4, 5, 0, zone)).MarshalText()
	if err != nil || string(text) != "2026-01-01T22:04:05.000Z" {
		t.Errorf("%s, %v", text, err)
	}
}
