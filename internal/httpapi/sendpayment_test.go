package httpapi_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"remit/internal/dispatch"
	"remit/internal/payment"
	"remit/internal/store"
	"remit/internal/token"
)

const maxAmount = "115792089237316195423570985008687907853269984665640564039457584007913129639935" // 2^256-1

// TestAmounts: a JSON number with an integral value above zero, up to 2^256-1.
func TestAmounts(t *testing.T) {
	for _, test := range []struct{ name, literal, want string }{ // want: the amount, or the type of the refusal
		{"a whole number", "1000000", "1000000"},
		{"the smallest", "1", "1"},
		{"a fraction of nothing", "1.0", "1"},
		{"a fraction of many nothings", "25.000", "25"},
		{"an exponent", "1e6", "1000000"},
		{"an exponent in capitals with a sign", "1E+6", "1000000"},
		{"an exponent that makes a fraction whole", "1.5e1", "15"},
		{"a negative exponent that takes zeros away", "1000e-3", "1"},
		{"an exponent with leading zeros", "1e0006", "1000000"},
		{"a negative exponent of zero", "7e-0", "7"},
		{"beyond 2^53, exactly", "9007199254740993", "9007199254740993"},
		{"beyond 64 bits, exactly", "18446744073709551617", "18446744073709551617"},
		{"2^256-1", maxAmount, maxAmount},
		{"2^256-1 with a fraction of nothing", maxAmount + ".0", maxAmount},
		{"a literal of 100 characters", "1." + strings.Repeat("0", 98), "1"},
		{"a number with 78 digits by exponent", "1e77", "1" + strings.Repeat("0", 77)},

		{"a literal of 101 characters", "1." + strings.Repeat("0", 99), "number_too_long"},
		{"a body full of digits", strings.Repeat("9", 60000), "number_too_long"},
		{"2^256", maxAmount[:77] + "6", "too_large"},
		{"ten times too much by exponent", "1e78", "too_large"},
		{"an exponent of three digits", "1e999", "too_large"},
		{"a huge exponent", "1e999999999", "number_too_long"},
		{"a huge negative exponent", "1e-999999999", "number_too_long"},
		{"zero with a huge exponent", "0e999999999", "number_too_long"},
		{"half a unit", "1.5", "not_integral"},
		{"less than a unit", "0.1", "not_integral"},
		{"a fraction by exponent", "1e-1", "not_integral"},
		{"a fraction at the hundredth place", "1." + strings.Repeat("0", 97) + "1", "not_integral"},
		{"zero", "0", "not_positive"},
		{"zero with a fraction", "0.000", "not_positive"},
		{"zero with an exponent", "0e5", "not_positive"},
		{"minus zero", "-0", "not_positive"},
		{"a negative number", "-1", "not_positive"},
		{"a string", `"1000000"`, "number_type"},
		{"a true value", "true", "number_type"},
		{"null", "null", "number_type"},
		{"a list", "[1]", "number_type"},
		{"an object", `{"units":1}`, "number_type"},
		{"a plus sign", "+1", "json_invalid"},
		{"a leading zero", "01", "json_invalid"},
		{"a hexadecimal number", "0x10", "json_invalid"},
		{"NaN", "NaN", "json_invalid"},
		{"a thousands separator", "1_000", "json_invalid"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := newAPI(t)
			got := a.post("/send-payment", `{"wallet_address":"`+alice+`","amount":`+test.literal+`}`)
			if test.want[0] >= 'a' {
				got.want(t, 422, `"type":"`+test.want+`"`)
				if test.want != "json_invalid" {
					got.want(t, 422, `"loc":["body","amount"]`)
				}
				return
			}
			got.want(t, 201, `"amount":`+test.want+`,`)
		})
	}
}

// TestRecipients: "0x" and 40 hex digits of one case or as EIP-55 has them, of an
// address that a payment can be meant for.
func TestRecipients(t *testing.T) {
	lower := strings.ToLower(alice)
	for _, test := range []struct{ name, fields, loc, want string }{ // want: the type of the refusal, empty when paid
		{"with its checksum", `"wallet_address":"` + alice + `"`, "", ""},
		{"all lower case", `"wallet_address":"` + lower + `"`, "", ""},
		{"all upper case", `"wallet_address":"0x` + strings.ToUpper(lower[2:]) + `"`, "", ""},
		{"under its other name", `"to":"` + alice + `"`, "", ""},
		{"under both names", `"wallet_address":"` + alice + `","to":"` + alice + `"`, "", ""},
		{"under both names, spelt differently", `"wallet_address":"` + lower + `","to":"` + alice + `"`, "", ""},
		{"digits only", `"to":"0x1111111111111111111111111111111111111111"`, "", ""},
		{"just above the precompiles", `"to":"0x0000000000000000000000000000000000000100"`, "", ""},

		{"not at all", `"reference":"x"`, "wallet_address", "missing"},
		{"a name in another case is another field", `"Wallet_Address":"` + alice + `"`, "wallet_address", "missing"},
		{"two that differ", `"wallet_address":"` + alice + `","to":"0x1111111111111111111111111111111111111111"`, "to", "recipient_mismatch"},
		{"a good one and a bad one", `"wallet_address":"` + alice + `","to":"0x1"`, "to", "address_invalid"},
		{"a bad one and a good one", `"wallet_address":"0x1","to":"` + alice + `"`, "wallet_address", "address_invalid"},
		{"a wrong checksum", `"to":"0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"`, "to", "address_checksum"},
		{"the prefix in capitals", `"to":"0X` + lower[2:] + `"`, "to", "address_invalid"},
		{"no prefix", `"to":"` + lower[2:] + `"`, "to", "address_invalid"},
		{"39 digits", `"to":"` + lower[:41] + `"`, "to", "address_invalid"},
		{"41 digits", `"to":"` + lower + `0"`, "to", "address_invalid"},
		{"a letter that is no digit", `"to":"` + lower[:41] + `g"`, "to", "address_invalid"},
		{"a blank before", `"to":" ` + lower + `"`, "to", "address_invalid"},
		{"a line feed behind", `"to":"` + lower + `\n"`, "to", "address_invalid"},
		{"an ENS name", `"to":"vitalik.eth"`, "to", "address_invalid"},
		{"digits of another script", `"to":"0x` + strings.Repeat("١", 40) + `"`, "to", "address_invalid"},
		{"nothing in it", `"to":""`, "to", "address_invalid"},
		{"null", `"wallet_address":null`, "wallet_address", "string_type"},
		{"null beside a good one", `"wallet_address":null,"to":"` + alice + `"`, "wallet_address", "string_type"},
		{"a number", `"to":1`, "to", "string_type"},
		{"the zero address", `"to":"0x0000000000000000000000000000000000000000"`, "to", "recipient_refused"},
		{"the first precompile", `"to":"0x0000000000000000000000000000000000000001"`, "to", "recipient_refused"},
		{"the last precompile", `"wallet_address":"0x00000000000000000000000000000000000000ff"`, "wallet_address", "recipient_refused"},
		{"the token contract", `"to":"` + asset.Contract.String() + `"`, "to", "recipient_refused"},
		{"our own wallet", `"to":"` + ownWallet.String() + `"`, "to", "recipient_refused"},
		{"our own wallet under the first name", `"wallet_address":"` + ownWallet.String() + `"`, "wallet_address", "recipient_refused"},
		{"our own wallet under both names", `"wallet_address":"` + ownWallet.String() + `","to":"` + ownWallet.String() + `"`, "wallet_address", "recipient_refused"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := newAPI(t).post("/send-payment", `{`+test.fields+`,"amount":1}`)
			if test.want == "" {
				got.want(t, 201)
				return
			}
			got.want(t, 422, `{"detail":[{"type":"`+test.want+`","loc":["body","`+test.loc+`"],"msg":`)
			if strings.Count(got.body, `"type"`) != 1 {
				t.Errorf("tells more than what is wrong: %s", got.body)
			}
		})
	}
}

// TestAttachments: reference and metadata. Lengths are code points.
func TestAttachments(t *testing.T) {
	pairs := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`"k%d":"v"`, i))
		}
		return "{" + strings.Join(list, ",") + "}"
	}
	for _, test := range []struct{ name, field, want, kept string }{ // want: the type of the refusal; kept: part of the answer
		{"no reference", `"x":1`, "", `"reference":null,"metadata":{}`},
		{"a reference that is null", `"reference":null`, "", `"reference":null`},
		{"a reference", `"reference":"inv-2041"`, "", `"reference":"inv-2041"`},
		{"a reference is not trimmed", `"reference":" a "`, "", `"reference":" a "`},
		{"128 characters of four bytes", `"reference":"` + strings.Repeat("😀", 128) + `"`, "", "😀"},
		{"128 escaped characters", `"reference":"` + strings.Repeat(`\ud83d\ude00`, 128) + `"`, "", "😀"},
		{"129 characters", `"reference":"` + strings.Repeat("a", 129) + `"`, "string_too_long", ""},
		{"an empty reference", `"reference":""`, "string_too_short", ""},
		{"a reference that is a number", `"reference":5`, "string_type", ""},
		{"half a surrogate pair in a reference", `"reference":"\ud83d"`, "json_invalid", ""},
		{"no metadata in it", `"metadata":{}`, "", `"metadata":{}`},
		{"metadata that is null", `"metadata":null`, "", `"metadata":{}`},
		{"20 pairs", `"metadata":` + pairs(20), "", `"k19":"v"`},
		{"21 pairs", `"metadata":` + pairs(21), "too_many", ""},
		{"a name of 40 characters", `"metadata":{"` + strings.Repeat("é", 40) + `":"v"}`, "", "é"},
		{"a name of 41 characters", `"metadata":{"` + strings.Repeat("é", 41) + `":"v"}`, "metadata_name", ""},
		{"an empty name", `"metadata":{"":"v"}`, "metadata_name", ""},
		{"a value of 500 characters", `"metadata":{"k":"` + strings.Repeat("é", 500) + `"}`, "", "é"},
		{"a value of 501 characters", `"metadata":{"k":"` + strings.Repeat("é", 501) + `"}`, "metadata_value", ""},
		{"an empty value", `"metadata":{"k":""}`, "", `"k":""`},
		{"a value that is a number", `"metadata":{"k":1}`, "metadata_value", ""},
		{"a value that is null", `"metadata":{"k":null}`, "metadata_value", ""},
		{"a value that is an object", `"metadata":{"k":{}}`, "metadata_value", ""},
		{"metadata that is a list", `"metadata":[]`, "object_type", ""},
		{"a name given twice", `"metadata":{"k":"1","k":"2"}`, "json_invalid", ""},
		{"unknown fields are ignored", `"currency":{"deep":[1]}`, "", `"tx_hash"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := newAPI(t).post("/send-payment", `{"to":"`+alice+`","amount":1,`+test.field+`}`)
			if test.want == "" {
				got.want(t, 201, test.kept)
				return
			}
			got.want(t, 422, `"type":"`+test.want+`"`)
		})
	}
}

// TestEverythingWrongIsToldAtOnce: one answer names every bad field.
func TestEverythingWrongIsToldAtOnce(t *testing.T) {
	got := newAPI(t).post("/send-payment", `{"wallet_address":1,"to":"x","amount":true,"reference":"","metadata":[]}`)
	got.want(t, 422, `["body","wallet_address"]`, `["body","to"]`, `["body","amount"]`, `["body","reference"]`, `["body","metadata"]`)
}

// TestIdempotency: one key, one payment.
func TestIdempotency(t *testing.T) {
	const key = "Idempotency-Key: order-2041"
	a := newAPI(t)
	first := a.post("/send-payment", goodBody, key)
	first.want(t, 201)
	if _, there := first.header["Idempotent-Replayed"]; there {
		t.Error("the first answer says that it is a replay")
	}
	for _, test := range []struct{ name, body, key string }{
		{"the same again", goodBody, key},
		{"the key in quotes", goodBody, `Idempotency-Key: "order-2041"`},
		{"the other name of the recipient", `{"to":"` + alice + `","amount":1000000}`, key},
		{"another spelling of the address", `{"to":"` + strings.ToLower(alice) + `","amount":1000000}`, key},
		{"another spelling of the amount", `{"wallet_address":"` + alice + `","amount":1e6}`, key},
		{"another order of fields", `{"amount":1000000,"wallet_address":"` + alice + `"}`, key},
		{"an unknown field", `{"amount":1000000,"wallet_address":"` + alice + `","note":1}`, key},
		{"empty metadata for none", `{"amount":1000000,"wallet_address":"` + alice + `","metadata":{}}`, key},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := a.post("/send-payment", test.body, test.key)
			got.want(t, 201)
			if got.body != first.body || got.header.Get("Idempotent-Replayed") != "true" {
				t.Errorf("replayed %q: %s", got.header.Get("Idempotent-Replayed"), got.body)
			}
		})
	}
	for name, body := range map[string]string{
		"another amount":    strings.Replace(goodBody, "1000000", "1000001", 1),
		"another recipient": `{"to":"0x1111111111111111111111111111111111111111","amount":1000000}`,
		"a reference":       `{"to":"` + alice + `","amount":1000000,"reference":"r"}`,
		"metadata":          `{"to":"` + alice + `","amount":1000000,"metadata":{"k":"v"}}`,
	} {
		t.Run("other content: "+name, func(t *testing.T) {
			a.post("/send-payment", body, key).want(t, 422, `"type":"idempotency_key_reused","loc":["header","idempotency-key"]`)
		})
	}
	t.Run("case counts", func(t *testing.T) {
		if got := a.post("/send-payment", goodBody, "Idempotency-Key: ORDER-2041"); got.header.Get("Idempotent-Replayed") != "" {
			t.Error("a key in another case is the same key")
		}
	})
	t.Run("without a key every request is a payment, even of the same reference", func(t *testing.T) {
		body := `{"to":"` + alice + `","amount":5,"reference":"r"}`
		if one, two := a.post("/send-payment", body), a.post("/send-payment", body); one.body == two.body {
			t.Error("two payments without a key are one")
		}
	})
	t.Run("a rotated API key is the same merchant", func(t *testing.T) {
		m, err := a.keys.Rotate(t.Context(), a.merchant, a.keyID(), 0)
		must(t, err)
		got := a.post("/send-payment", goodBody, key, "X-Api-Key: "+m.Secret.Reveal())
		if got.body != first.body {
			t.Errorf("answered %s", got.body)
		}
	})
	t.Run("another merchant's key is another key", func(t *testing.T) {
		m := a.otherMerchant()
		got := a.post("/send-payment", goodBody, key, "X-Api-Key: "+m.Secret.Reveal())
		if got.status != 201 || got.body == first.body {
			t.Errorf("answered %d %s", got.status, got.body)
		}
	})
}

// TestReplayTellsToday: a replay is 201 with the payment as it is by now.
func TestReplayTellsToday(t *testing.T) {
	a := newAPI(t)
	a.post("/send-payment", goodBody, "Idempotency-Key: k").want(t, 201, `"status":"pending"`)
	a.confirm()
	got := a.post("/send-payment", goodBody, "Idempotency-Key: k")
	got.want(t, 201, `"status":"confirmed"`, `"version":2`)
	if got.header.Get("Idempotent-Replayed") != "true" {
		t.Error("not called a replay")
	}
}

// TestIdempotencyKeys: 1 to 255 visible ASCII characters, raw or in one pair of
// quotes.
func TestIdempotencyKeys(t *testing.T) {
	for _, test := range []struct {
		name    string
		headers []string
		key     string // as dispatch gets it; empty when refused
	}{
		{"one character", []string{"k"}, "k"},
		{"255 characters", []string{strings.Repeat("k", 255)}, strings.Repeat("k", 255)},
		{"255 characters in quotes", []string{`"` + strings.Repeat("k", 255) + `"`}, strings.Repeat("k", 255)},
		{"every visible character but the quote", []string{"!#$%&'()*+,-./09:;<=>?@AZ[\\]^_`az{|}~"}, "!#$%&'()*+,-./09:;<=>?@AZ[\\]^_`az{|}~"},
		{"a UUID", []string{"7f1c1e9a-1f5e-4c1b-9a53-0d9f3d3f8a10"}, "7f1c1e9a-1f5e-4c1b-9a53-0d9f3d3f8a10"},

		{"an empty one", []string{""}, ""},
		{"a pair of quotes around nothing", []string{`""`}, ""},
		{"256 characters", []string{strings.Repeat("k", 256)}, ""},
		{"256 characters in quotes", []string{`"` + strings.Repeat("k", 256) + `"`}, ""},
		{"a blank inside", []string{"a b"}, ""},
		{"a blank before", []string{" a"}, ""},
		{"a tab inside", []string{"a\tb"}, ""},
		{"an opening quote alone", []string{`"a`}, ""},
		{"a closing quote alone", []string{`a"`}, ""},
		{"one quote", []string{`"`}, ""},
		{"a quote inside", []string{`a"b`}, ""},
		{"a quote inside quotes", []string{`"a"b"`}, ""},
		{"two pairs of quotes", []string{`""a""`}, ""},
		{"a character above ASCII", []string{"é"}, ""},
		{"a control character", []string{"a\x7f"}, ""},
		{"two headers", []string{"a", "b"}, ""},
		{"the same header twice", []string{"a", "a"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := newAPI(t)
			r := a.request("POST", "/send-payment", goodBody)
			r.Header["Idempotency-Key"] = test.headers
			got := a.serve(a.router, r)
			if test.key == "" {
				got.want(t, 400, `"code":"idempotency_key_invalid"`)
				return
			}
			got.want(t, 201)
			if a.payments.got[0].IdempotencyKey != test.key {
				t.Errorf("key %q, want %q", a.payments.got[0].IdempotencyKey, test.key)
			}
		})
	}
}

// TestRefusals: dispatch's refusals, and the Retry-After of those that may be
// tried again.
func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		name       string
		err        error
		status     int
		code       string
		retryAfter string
	}{
		{"no wallet can pay", dispatch.ErrInsufficient, 400, "insufficient_funds", ""},
		{"below the minimum", dispatch.ErrAmountBelow, 400, "amount_below_minimum", ""},
		{"above the maximum", dispatch.ErrAmountAbove, 400, "amount_above_maximum", ""},
		{"above the merchant's day", store.ErrDailyLimit, 400, "daily_limit_exceeded", ""},
		{"the token refuses the recipient", dispatch.ErrRecipient, 400, "recipient_not_allowed", ""},
		{"in flight in another request", dispatch.ErrInProgress, 409, "idempotency_in_progress", "1"},
		{"nodes are down before the reservation", dispatch.ErrUnavailable, 503, "payment_rail_unavailable", "5"},
		{"nodes are down, and why is not told", errors.Join(dispatch.ErrUnavailable, errBroken), 503, "payment_rail_unavailable", "5"},
		{"an unknown outcome", errBroken, 500, "internal_error", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := newAPI(t)
			a.payments.refuse = fmt.Errorf("sending: %w", test.err)
			got := a.post("/send-payment", goodBody)
			got.want(t, test.status, `"code":"`+test.code+`"`)
			if got.header.Get("Retry-After") != test.retryAfter {
				t.Errorf("Retry-After %q, want %q", got.header.Get("Retry-After"), test.retryAfter)
			}
			if strings.Contains(got.body, "arn:") || strings.Contains(got.body, "sending") {
				t.Errorf("tells what is for the log: %s", got.body)
			}
		})
	}
}

// TestNothingIsStartedForARefusedRequest: dispatch never sees a request that is
// refused for its content.
func TestNothingIsStartedForARefusedRequest(t *testing.T) {
	a := newAPI(t)
	for _, body := range []string{``, `{`, `{}`, `{"to":"` + alice + `"}`, `{"amount":1}`, `{"to":"0x1","amount":1}`, `{"to":"` + alice + `","amount":0}`} {
		a.post("/send-payment", body)
	}
	a.post("/send-payment", goodBody, "Idempotency-Key: a b")
	if len(a.payments.got) > 0 {
		t.Errorf("dispatch was asked for %+v", a.payments.got)
	}
}

// TestRequestReachesTheEngine: field by field.
func TestRequestReachesTheEngine(t *testing.T) {
	a := newAPI(t)
	a.post("/send-payment", `{"wallet_address":"`+alice+`","amount":12,"reference":"r","metadata":{"k":"v"}}`, "Idempotency-Key: i").want(t, 201)
	to, err := token.ParseAddress(alice)
	must(t, err)
	want := payment.Request{Merchant: a.merchant, Mode: "test", IdempotencyKey: "i", To: to, Amount: token.Units(12), Reference: "r", Metadata: map[string]string{"k": "v"}}
	if got := a.payments.got[0]; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("asked for %+v, want %+v", got, want)
	}
}
