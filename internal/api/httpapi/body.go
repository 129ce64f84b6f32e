package httpapi

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/remit-payouts/remit/internal/api/strictjson"
)

const maxBody = 64 << 10

// readForm reads the body of r as one JSON object. It checks the size first, then that it is UTF-8, unless it is
// compressed, then the content type and coding, then the text. If it may be empty, an empty body of any content type
// means {}.
func readForm(r *http.Request, mayBeEmpty bool) (*form, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	compressed, headers := checkContent(r.Header)
	switch {
	case len(body) > maxBody:
		return nil, errTooLarge
	case mayBeEmpty && err == nil && len(body) == 0:
		return &form{object: strictjson.Value{Kind: strictjson.Object}, at: []any{"body"}}, nil
	case err == nil && !compressed && !utf8.Valid(body):
		return nil, errNotUTF8
	case headers != nil:
		return nil, headers
	case err != nil: // the connection ended, or a chunk is malformed
		return nil, invalids{{"json_invalid", []any{"body", len(body)}, "The body ends too early"}}
	}
	v, err := strictjson.Parse(body)
	if len(body) == 0 {
		return nil, invalids{{"missing", []any{"body"}, "Field required"}}
	}
	if syntax, ok := errors.AsType[*strictjson.SyntaxError](err); ok {
		return nil, invalids{{"json_invalid", []any{"body", syntax.Offset}, syntax.Reason}}
	}
	if v.Kind != strictjson.Object {
		return nil, invalids{{"object_type", []any{"body"}, "Must be a JSON object"}}
	}
	return &form{object: v, at: []any{"body"}}, nil
}

// checkContent refuses a body whose headers do not declare plain JSON in UTF-8.
func checkContent(h http.Header) (compressed bool, err error) {
	var bad invalids
	if types := h.Values("Content-Type"); len(types) != 1 || !isJSON(types[0]) {
		bad.add("content_type", "Must be application/json or application/*+json, in UTF-8", "header", "content-type")
	}
	for _, coding := range h.Values("Content-Encoding") {
		if !strings.EqualFold(coding, "identity") {
			bad.add("content_encoding", "The body must not be compressed", "header", "content-encoding")
			compressed = true
			break
		}
	}
	return compressed, bad.orNil()
}

// isJSON reports whether a Content-Type is application/json or application/*+json with the charset UTF-8 or none.
func isJSON(contentType string) bool {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return false
	}
	sub, ok := strings.CutPrefix(media, "application/")
	if suffixed, found := strings.CutSuffix(sub, "+json"); !ok || sub != "json" && (!found || suffixed == "") {
		return false
	}
	charset, given := params["charset"]
	return !given || strings.EqualFold(charset, "utf-8")
}
