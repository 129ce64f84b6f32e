package httpapi

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/remit-payouts/remit/internal/api/strictjson"
)

// parameters are the parameters that the GET routes with a key know, by Handler.
var parameters = map[string][]string{
	"GetBalance":       {"asset"},
	"ListTransactions": {"idempotency_key", "reference", "status", "asset", "created_after", "created_before", "limit", "cursor"},
	"ListProposals":    {"status", "idempotency_key", "created_by", "limit", "cursor"},
	"ListRecipients":   {"limit", "cursor"},
	"ListDeliveries":   {"status", "limit", "cursor"},
}

// showable is the name of an unknown parameter that a 422 shows.
var showable = regexp.MustCompile(`^[A-Za-z0-9_.\[\]-]{1,64}$`)

// parseQuery reads a query string as a form of strings, and notes each parameter that is not known. Unlike
// url.ParseQuery it keeps mangled values: a parameter that is mangled is an error, not its default.
func parseQuery(raw string, known []string) *form {
	q := &form{object: strictjson.Value{Kind: strictjson.Object}, at: []any{"query"}, spoilt: map[string]invalid{}}
	for pair := range strings.SplitSeq(raw, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		if loc := []any{"query", name}; !slices.Contains(known, name) {
			if err != nil || !showable.MatchString(name) {
				loc = loc[:1]
			}
			if !slices.ContainsFunc(q.bad, func(i invalid) bool { return slices.Equal(i.Loc, loc) }) {
				q.bad.add("unknown_parameter", "This route does not know the parameter", loc...)
			}
			continue
		}
		value, err = url.QueryUnescape(value)
		_, again := q.object.Member(name)
		switch {
		case err != nil || !utf8.ValidString(value):
			q.spoilt[name] = invalid{Type: "encoding_invalid", Msg: "Must be percent-encoded UTF-8"}
		case again && q.spoilt[name].Type == "":
			q.spoilt[name] = invalid{Type: "repeated", Msg: "Must be given once"}
		}
		sent := strictjson.Value{Kind: strictjson.String, Text: value}
		q.object.Members = append(q.object.Members, strictjson.Member{Name: name, Value: sent})
	}
	return q
}

// idempotencyKey returns a key as a payment shows it, without quotes, empty if it was not sent.
func (f *form) idempotencyKey() string {
	sent, ok := f.given("idempotency_key")
	if key, err := parseKey(sent.Text); ok && (err != nil || key != sent.Text) {
		f.refuse("idempotency_key", "idempotency_key_invalid", "Must be 1 to 255 visible ASCII characters without blanks and quotes")
	}
	return sent.Text
}

func (f *form) pageLimit(otherwise int) int {
	sent, ok := f.given("limit")
	if !ok {
		return otherwise
	}
	n, err := strconv.Atoi(sent.Text)
	if err != nil || n < 1 || n > maxPage || strconv.Itoa(n) != sent.Text {
		f.refuse("limit", "integer_range", "Must be a whole number from 1 to "+strconv.Itoa(maxPage))
	}
	return n
}
