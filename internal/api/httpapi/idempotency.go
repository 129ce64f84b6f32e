package httpapi

import (
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/remit-payouts/remit/internal/payments/dispatch"
)

// idempotencyKey returns a request's Idempotency-Key, "" for none. Anything but one well-formed header is errKeySyntax.
func idempotencyKey(h http.Header) (string, error) {
	sent := h.Values("Idempotency-Key")
	switch len(sent) {
	case 0:
		return "", nil
	case 1:
		return parseKey(sent[0])
	}
	return "", errKeySyntax
}

// notAfter returns the time of Remit-Not-After, zero for none. Package dispatch judges whether it is too far ahead.
func notAfter(h http.Header) (time.Time, error) {
	switch sent := h.Values("Remit-Not-After"); {
	case len(sent) == 0:
		return time.Time{}, nil
	case len(sent) > 1 || !seconds.MatchString(sent[0]):
		return time.Time{}, dispatch.ErrNotAfter
	default:
		n, err := strconv.ParseInt(sent[0], 10, 64)
		return time.Unix(n, 0).UTC(), err
	}
}

var seconds = regexp.MustCompile(`^[0-9]{1,10}$`)

// misplaced reports whether a request has an idempotency key, of any value, where none is read.
func misplaced(r *http.Request, f *form) bool {
	_, snake := f.object.Member("idempotency_key")
	_, camel := f.object.Member("idempotencyKey")
	_, query := parseQuery(r.URL.RawQuery, []string{"idempotency_key"}).object.Member("idempotency_key")
	return snake || camel || query || len(r.Header.Values("X-Idempotency-Key")) > 0 || len(r.Header.Values("Idempotency_Key")) > 0
}

var key = regexp.MustCompile(`^(?:"([!#-~]{1,255})"|([!#-~]{1,255}))$`)

// parseKey reads 1 to 255 visible ASCII characters, raw or in one pair of double quotes, which are not part of the
// key. A key holds no quote. Case counts; nothing is trimmed or unescaped.
func parseKey(s string) (string, error) {
	found := key.FindStringSubmatch(s)
	if found == nil {
		return "", errKeySyntax
	}
	return found[1] + found[2], nil
}
