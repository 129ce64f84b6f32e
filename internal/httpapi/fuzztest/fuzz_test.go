package fuzztest_test

import (
	"encoding/json"
	"maps"
	"math/big"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"remit/internal/httpapi"
)

// FuzzAmount compares the amounts that the endpoint takes with arithmetic on
// rationals.
func FuzzAmount(f *testing.F) {
	for _, seed := range []string{"1", "1.0", "1e6", "1.5", "-1", "0", "-0", "1e77", "1e78", "1e999", "1e-3", "1000e-3", "0.1e1", maxAmount,
		maxAmount + "0",
		"1." + strings.Repeat("0", 98), "1." + strings.Repeat("0", 99), "1E+0006", "0e5", `"1"`, "true", "null", "01", "1e99999999999", "[1]",
		""} {
		f.Add(seed)
	}
	limit, _ := new(big.Int).SetString(maxAmount, 10)
	f.Fuzz(func(t *testing.T, literal string) {
		asked, answer := pay(t, `{"to":"`+alice+`","amount":`+literal+`}`)
		want := wantAmount(literal, limit)
		if want == nil && asked != nil && strings.Contains(literal, `"`) {
			return // further fields follow a good amount: not this test's matter
		}
		if (asked != nil) != (want != nil) {
			t.Fatalf("amount %q: answered %d %s, want %v", literal, answer.Code, answer.Body, want)
		}
		if want != nil && (asked.Amount.String() != want.String() || !strings.Contains(answer.Body.String(), `"amount":`+want.String()+`,`)) {
			t.Fatalf("amount %q: answered %s, want %s", literal, answer.Body, want)
		}
	})
}

var plainLiteral = regexp.MustCompile(`^[ \t\r\n]*(-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?)[ \t\r\n]*$`)

// wantAmount is the oracle: nil when the literal is no amount.
func wantAmount(literal string, limit *big.Int) *big.Int {
	m := plainLiteral.FindStringSubmatch(literal)
	if m == nil || len(m[1]) > 100 {
		return nil
	}
	if power := strings.TrimLeft(strings.TrimLeft(m[4], "eE+-"), "0"); len(power) > 3 {
		return nil
	}
	r, ok := new(big.Rat).SetString(m[1])
	if !ok || !r.IsInt() || r.Sign() <= 0 || r.Num().Cmp(limit) > 0 {
		return nil
	}
	return r.Num()
}

// FuzzCursor: the endpoint takes only cursors that it gave out, and no query is
// answered with a 5xx.
func FuzzCursor(f *testing.F) {
	for _, seed := range []string{"", "abcd", "cursor", strings.Repeat("A", 200), "bnVsbA", "\n", "%ff", "limit=1"} {
		f.Add(seed)
	}
	e := httpapi.ListTransactions(newID, history{}, history{})
	f.Fuzz(func(t *testing.T, cursor string) {
		var page struct {
			NextCursor string `json:"next_cursor"`
		}
		first := serve(t, e, "GET", "/transactions", "limit=1", "")
		if err := json.Unmarshal(first.Body.Bytes(), &page); err != nil || page.NextCursor == "" {
			t.Fatalf("%v: %s", err, first.Body)
		}
		given := page.NextCursor
		for _, c := range []string{cursor, given + cursor, cursor + given, given[:len(given)/2] + cursor + given[len(given)/2:]} {
			got := serve(t, e, "GET", "/transactions", "cursor="+url.QueryEscape(c), "")
			if want := map[bool]int{true: 200, false: 422}[c == given]; got.Code != want {
				t.Fatalf("cursor %q: answered %d %s, want %d", c, got.Code, got.Body, want)
			}
		}
		serve(t, e, "GET", "/transactions", cursor, "")
	})
}

// FuzzBody: no body is answered with a 5xx, and the engine is asked for the
// payment that encoding/json reads from the body.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{`{"to":"` + alice + `","amount":1}`, `{}`, `[]`,
		`{"to":"` + alice + `","amount":1e6,"reference":"r","metadata":{"k":"v"}}`, `{"amount":1,"amount":2}`, "\xff",
		`{"metadata":{"\ud83d":""}}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		asked, _ := pay(t, body)
		var read struct {
			Reference string            `json:"reference"`
			Metadata  map[string]string `json:"metadata"`
		}
		if asked == nil || !exact(body) {
			return
		}
		if err := json.Unmarshal([]byte(body), &read); err != nil {
			t.Fatalf("%q was taken: %v", body, err)
		}
		if asked.Reference != read.Reference || len(asked.Metadata) != len(read.Metadata) || len(read.Metadata) > 0 &&
			!maps.Equal(asked.Metadata, read.Metadata) {
			t.Fatalf("%q: asked for %+v, want %+v", body, asked, read)
		}
	})
}

// exact reports whether no name of body differs from ours by its case only,
// which encoding/json would take.
func exact(body string) bool {
	for _, name := range []string{"reference", "metadata"} {
		if strings.Count(strings.ToLower(body), name) != strings.Count(body, name) || strings.Contains(body, `\u`) {
			return false
		}
	}
	return true
}
