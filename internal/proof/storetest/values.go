package storetest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// noon is the present of the suites. Payments keep milliseconds; a store keeps every other time to the nanosecond.
var noon = time.Date(2026, time.January, 2, 12, 0, 0, 123_000_000, time.UTC)

var usdc = token.Token{Symbol: "USDC", Decimals: 6, Contract: token.Address{0xc0, 19: 0x11}}

func rail(chainID uint64) token.Coin { return token.Coin{ChainID: chainID, Contract: usdc.Contract} }

func offer(id wallet.ID, at time.Time, r payment.Request) payment.Payment {
	p := payment.New(payment.KeyID(r.Merchant, r.Mode, r.IdempotencyKey), r, usdc, "base-sepolia", at)
	if len(r.Entries) > 1 {
		p.BatchContract = token.Address{0xba, 19: 0xba}
	}
	return p.AssignedTo(id.Address, unsigned(id, p, 7))
}

func unsigned(id wallet.ID, p payment.Payment, tip uint64) chain.Tx {
	units, _ := p.Amount.Uint64()
	return chain.Tx{
		GasUnit: chain.GasUnit(units % 2 * 1000), // of every other payment the token pays gas
		ChainID: id.ChainID, To: p.Call(id.Address, false).To, Data: p.Call(token.Address{}, tip%2 == 1).Data, Gas: 65_000,
		Fees: chain.Fees{Tip: token.Units(tip), Cap: token.Units(1000 + tip)}, L1Fee: token.Units(30 * tip),
	}
}

// signed replaces a key: a transaction at a nonce always gives the same bytes, and any other transaction gives others.
func signed(revision string, nonce uint64, tip token.Amount) chain.Signed {
	raw := binary.BigEndian.AppendUint64([]byte("signed "+revision+tip.String()), nonce)
	return chain.Signed{Nonce: nonce, Hash: chain.Hash(sha256.Sum256(raw)), Raw: raw}
}

// noop returns the pending transaction of a no-op at nonce, not yet stored.
func noop(id wallet.ID, nonce uint64) wallet.PendingTx {
	tx := chain.Noop(id.ChainID, id.Address, chain.Fees{Tip: token.Units(1), Cap: token.Units(50)})
	return wallet.PendingNoop(id, tx, signed("no-op of "+id.Address.String(), nonce, tx.Fees.Tip), noon)
}

func idOf(p payment.Payment) wallet.ID { return wallet.ID{ChainID: p.Tx.ChainID, Address: p.Wallet} }

// need asks for a reservation that ties up 10 units and 3 wei.
func need(w wallet.Wallet, id payment.ID) wallet.Need {
	return wallet.Need{Wallet: w.ID, Payment: id, For: "revision", Amount: token.Units(10), Gas: token.Units(3), At: noon.Add(456)}
}

// numbered returns a request. No two have the same amount, and so the same bytes.
func numbered(n int) payment.Request {
	return payment.Request{Merchant: "mer_a", Mode: "test", IdempotencyKey: fmt.Sprint("made ", n),
		To: token.Address{0xaa}, Amount: token.Units(uint64(n) + 1), Reference: "inv-2041"}
}

// committed returns p committed at nonce, and bumped p with another attempt. Neither is stored.
func committed(p payment.Payment, nonce uint64) payment.Payment {
	p, _ = p.Commit(signed(p.Revision, nonce, p.Tx.Fees.Tip), noon.Add(time.Second+789))
	return p
}

func bumped(p payment.Payment, tip token.Amount) payment.Payment {
	tx := p.Tx
	tx.Fees = chain.Fees{Tip: tip, Cap: tip}
	p, _ = p.Bump(signed(p.Revision, p.Nonce, tip), tx, noon.Add(time.Minute))
	return p
}

// newEndpoint returns an endpoint, and newDelivery a pending delivery, that is created at at.
func newEndpoint(o webhook.Owner, id string) webhook.Endpoint {
	return webhook.Endpoint{Owner: o, ID: id, URL: "https://example.com/hook?a=%20b", Status: webhook.Enabled,
		Secret: webhook.MintSecret(Random(1)), CreatedAt: noon, EnabledAt: noon, Version: 1}
}

func newDelivery(o webhook.Owner, at time.Time) webhook.Delivery {
	return webhook.Delivery{Ref: webhook.Ref{Owner: o, Endpoint: "we_a", Delivery: webhook.FirstID(at)},
		Status: webhook.Pending, NextAttemptAt: at,
		CreatedAt: at, Event: webhook.Event{Merchant: o.Merchant, Mode: o.Mode, ID: "evt_1", Type: webhook.PaymentConfirmed, At: at,
			Body: []byte("{\"id\":\"evt_1\" , \"data\":\"Söđ 🧁 \\u0000\u2028\"}")}}
}

// tried returns d after another failed attempt, due an hour later.
func tried(d webhook.Delivery, at time.Time, parked bool) webhook.Delivery {
	d.Attempts = append(d.Attempts[:len(d.Attempts):len(d.Attempts)], webhook.Attempt{At: at.Add(123456789),
		StatusCode: 500, Duration: 1234 * time.Millisecond, Error: "the endpoint answered", Response: "nö\x00\n"})
	d.NextAttemptAt, d.Parked = at.Add(time.Hour), parked
	return d
}

// newKey returns a key that is minted from a seed, of one of two merchants.
func newKey(seed int) apikey.Key {
	s := apikey.Mint(Random(byte(seed)), apikey.Test)
	return apikey.Key{Hash: s.Hash(), ID: s.ID(), MerchantID: owners[1+seed%2], MerchantName: "Crème & Søn 🧁",
		Mode: s.Mode(), Prefix: s.Prefix(), Last4: s.Last4(), CreatedAt: noon, Grant: apikey.Full()}
}

// Random returns a source of bytes that is the same for the same seed, for tests that mint keys.
func Random(seed byte) io.Reader {
	return mathrand.NewChaCha8([32]byte(bytes.Repeat([]byte{seed}, 32)))
}

// long returns n of the longest characters in UTF-8.
func long(n int) string { return strings.Repeat("🧾", n) }

// merchants returns the longest names of n merchants, each with a nonce.
func merchants(n int) map[string]uint64 {
	all := map[string]uint64{}
	for i := range n {
		all[fmt.Sprintf("mer_%026d", i)] = 1
	}
	return all
}

// reservations returns n reservations, none of which a wallet with few nonces makes itself.
func reservations(n int) map[payment.ID]wallet.Reservation {
	all := map[payment.ID]wallet.Reservation{}
	for i := range n {
		all[payment.ID(fmt.Sprintf("pay_%032d", i))] = wallet.Reservation{Nonce: 1<<63 + uint64(i), At: noon,
			For: strings.Repeat("r", 32)}
	}
	return all
}

// byEquality compares types with hidden fields by ==.
var byEquality = cmpopts.EquateComparable(token.Amount{}, webhook.Secret{})

// wholeBytes compares byte slices at once: a diff of a megabyte takes seconds.
var wholeBytes = cmp.FilterValues(func(a, b []byte) bool { return len(a)+len(b) > 0 }, cmp.Comparer(bytes.Equal))
