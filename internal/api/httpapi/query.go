package httpapi

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// parameters are the parameters that the GET routes with a key know, by Handler.
var parameters = map[string][]string{
	"GetBalance":       {"asset"},
	"ListTransactions": {"idempotency_key", "reference", "status", "asset", "created_after", "created_before", "limit", "cursor"},
	"ListProposals":    {"status", "idempotency_key", "created_by", "limit", "cursor"},
	"ListRecipients":   {"limit", "cursor"},
	"ListDeliveries":   {"status", "limit", "cursor"},
}

// A query is the query string of a request. Like a form, it notes all faults of the parameters that are read.
type query struct {
	values map[string][]string
	broken map[string]bool // could not be unescaped
	bad    invalids
}

// showable is the name of an unknown parameter that a 422 shows.
var showable = regexp.MustCompile(`^[A-Za-z0-9_.\[\]-]{1,64}$`)

// parseQuery splits a query string, and notes each parameter that is not known. Unlike
// url.ParseQuery it keeps mangled values: a parameter that is mangled is an error, not its default.
func parseQuery(raw string, known []string) *query {
	q := &query{values: map[string][]string{}, broken: map[string]bool{}}
	for pair := range strings.SplitSeq(raw, "&") {
		name, value, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		if loc := []any{"query", name}; pair != "" && !slices.Contains(known, name) {
			if err != nil || !showable.MatchString(name) {
				loc = loc[:1]
			}
			if !slices.ContainsFunc(q.bad, func(i invalid) bool { return slices.Equal(i.Loc, loc) }) {
				q.bad.add("unknown_parameter", "This route does not know the parameter", loc...)
			}
			continue
		}
		value, err = url.QueryUnescape(value)
		if err != nil || !utf8.ValidString(value) {
			q.broken[name] = true
		}
		q.values[name] = append(q.values[name], value)
	}
	return q
}

func (q *query) err() error { return q.bad.orNil() }

func (q *query) refuse(name, kind, msg string) { q.bad.add(kind, msg, "query", name) }

// given returns a parameter that was sent once, as percent-encoded UTF-8. It notes a fault if it was sent otherwise.
func (q *query) given(name string) (string, bool) {
	sent := q.values[name]
	switch {
	case len(sent) == 0:
		return "", false
	case q.broken[name]:
		q.refuse(name, "encoding_invalid", "Must be percent-encoded UTF-8")
		return "", false
	case len(sent) > 1:
		q.refuse(name, "repeated", "Must be given once")
		return "", false
	}
	return sent[0], true
}

// idempotencyKey returns a key as a payment shows it, without quotes, empty if it was not sent.
func (q *query) idempotencyKey() string {
	sent, ok := q.given("idempotency_key")
	if key, err := parseKey(sent); ok && (err != nil || key != sent) {
		q.refuse("idempotency_key", "idempotency_key_invalid", "Must be 1 to 255 visible ASCII characters without blanks and quotes")
	}
	return sent
}

func (q *query) limit(otherwise int) int {
	s, ok := q.given("limit")
	if !ok {
		return otherwise
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > maxPage || strconv.Itoa(n) != s {
		q.refuse("limit", "integer_range", "Must be a whole number from 1 to "+strconv.Itoa(maxPage))
		return otherwise
	}
	return n
}

func (q *query) word(name string, words ...string) string {
	s, ok := q.given(name)
	if !ok {
		return ""
	}
	if !slices.Contains(words, s) {
		q.refuse(name, "enum", "Must be one of "+strings.Join(words, ", "))
		return ""
	}
	return s
}

// instant reads an RFC 3339 time of any offset, in the years 1970 to 9999 of UTC.
func (q *query) instant(name string) time.Time {
	s, ok := q.given(name)
	if !ok {
		return time.Time{}
	}
	t, ok := parseInstant(s)
	if !ok {
		q.refuse(name, "datetime_invalid", instantMsg)
	}
	return t
}

const instantMsg = "Must be an RFC 3339 time such as 2026-01-02T15:04:05Z"

func parseInstant(s string) (time.Time, bool) {
	t, err := time.Parse(time.RFC3339, s)
	// time.Parse also takes a comma before the fraction and hours of one digit.
	if err != nil || s[len("2006-01-02T15")] != ':' || strings.Contains(s, ",") || t.Unix() < 0 || t.UTC().Year() > 9999 {
		return time.Time{}, false
	}
	return t.UTC(), true
}
