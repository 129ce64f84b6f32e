package dynamo

import (
	"bytes"
	"compress/flate"
	"io"
)

// eventWords are what most events have in common. Stored bodies refer to its bytes, so it never changes.
const eventWords = `"payment.failed","failure":{"code":"","message":""},` +
	`"progress":{"payments":[{"wallet_address":"0x","to":"0x","amount":"reference":"","metadata":{"mode":"live",` +
	`"base-sepolia","ethereum","polygon","previous_status":"broadcast"{"id":"evt_","type":"payment.confirmed",` +
	`"timestamp":"2026-12-01T00:00:00.000Z","data":{"tx_hash":"0x","status":"confirmed","amount":1000000,` +
	`"wallet_address":"0x","to":"0x","token":"USDC","decimals":6,"network":"base","reference":null,"metadata":{},` +
	`"onchain_tx_hash":"0x","block_number":,"network_fee":,"network_fee_unit":"wei","progress":null,"failure":null,` +
	`"version":3,"mode":"test","created_at":"2026-12-01T00:00:00.000Z","updated_at":"2026-12-01T00:00:00.000Z",` +
	`"amount_text":"1.000000","idempotency_key":"","network_fee_text":"0.0000","asset":"eip155:8453/erc20:0x",` +
	`"previous_status":"pending"}}`

// deflated returns an event's body for its item: with most events a delivery then fits into a kilobyte, for which
// DynamoDB bills one unit.
func deflated(body []byte) []byte {
	if body == nil {
		return nil
	}
	var out bytes.Buffer
	w, _ := flate.NewWriterDict(&out, flate.DefaultCompression, []byte(eventWords)) // no error: there is such a level
	_, _ = w.Write(body)                                                            // a buffer takes all
	_ = w.Close()
	return out.Bytes()
}

func inflated(stored []byte) ([]byte, error) {
	if stored == nil {
		return nil, nil
	}
	return io.ReadAll(flate.NewReaderDict(bytes.NewReader(stored), []byte(eventWords)))
}
