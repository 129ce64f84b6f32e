package httpapi_test

import (
	"io"
	"strings"
	"testing"
)

// TestContentTypes: application/json or application/*+json in UTF-8, and not
// compressed.
func TestContentTypes(t *testing.T) {
	for _, test := range []struct {
		name    string
		headers []string
		loc     string // of the refusal; empty when accepted
	}{
		{"JSON", []string{"Content-Type: application/json"}, ""},
		{"JSON in UTF-8", []string{"Content-Type: application/json; charset=utf-8"}, ""},
		{"JSON in UTF-8, in capitals and quotes", []string{`Content-Type: Application/JSON; Charset="UTF-8"`}, ""},
		{"a kind of JSON", []string{"Content-Type: application/vnd.merchant+json"}, ""},
		{"JSON with a parameter of its own", []string{"Content-Type: application/json; version=1"}, ""},
		{"the coding that is none", []string{"Content-Encoding: identity"}, ""},

		{"no type", []string{"Content-Type: (none)"}, "content-type"},
		{"an empty type", []string{"Content-Type: "}, "content-type"},
		{"a form", []string{"Content-Type: application/x-www-form-urlencoded"}, "content-type"},
		{"text", []string{"Content-Type: text/plain"}, "content-type"},
		{"text that ends in json", []string{"Content-Type: text/x+json"}, "content-type"},
		{"something like JSON", []string{"Content-Type: application/jsonp"}, "content-type"},
		{"a suffix without a name", []string{"Content-Type: application/+json"}, "content-type"},
		{"JSON in Latin-1", []string{"Content-Type: application/json; charset=iso-8859-1"}, "content-type"},
		{"JSON in UTF-16", []string{"Content-Type: application/json; charset=utf-16"}, "content-type"},
		{"two types", []string{"Content-Type: application/json", "Content-Type: application/json"}, "content-type"},
		{"two types in one header", []string{"Content-Type: application/json, text/plain"}, "content-type"},
		{"what is no media type", []string{"Content-Type: ;;;"}, "content-type"},
		{"gzip", []string{"Content-Encoding: gzip"}, "content-encoding"},
		{"gzip after none", []string{"Content-Encoding: identity", "Content-Encoding: gzip"}, "content-encoding"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := newAPI(t).post("/send-payment", goodBody, test.headers...)
			if test.loc == "" {
				got.want(t, 201)
				return
			}
			got.want(t, 422, `"loc":["header","`+test.loc+`"]`)
		})
	}
	newAPI(t).post("/send-payment", goodBody, "Content-Type: x/y", "Content-Encoding: gzip").want(t, 422, "content-type", "content-encoding")
}

// TestBodies: one strict JSON object of at most 64 KiB.
func TestBodies(t *testing.T) {
	const min = `{"merchant_name":"x"}`
	for _, test := range []struct {
		name, body string
		status     int
		part       string
	}{
		{"64 KiB", min + strings.Repeat(" ", 65536-len(min)), 201, ""},
		{"64 KiB and a byte", min + strings.Repeat(" ", 65537-len(min)), 413, `"code":"body_too_large"`},
		{"nothing", "", 422, `{"detail":[{"type":"missing","loc":["body"],"msg":"Field required"}]}`},
		{"blanks", "  ", 422, `{"detail":[{"type":"json_invalid","loc":["body",2],"msg":"JSON ends too early"}]}`},
		{"a list", `[]`, 422, `"type":"object_type","loc":["body"]`},
		{"a string", `"x"`, 422, `"type":"object_type","loc":["body"]`},
		{"null", `null`, 422, `"type":"object_type","loc":["body"]`},
		{"two objects", min + min, 422, `"type":"json_invalid","loc":["body",21]`},
		{"a name given twice", `{"merchant_name":"x","merchant_name":"y"}`, 422, `"json_invalid"`},
		{"an unknown name given twice", `{"merchant_name":"x","y":1,"y":1}`, 422, `"json_invalid"`},
		{"a name in another case", `{"Merchant_name":"x"}`, 422, `"type":"missing","loc":["body","merchant_name"]`},
		{"unknown fields", `{"merchant_name":"x","y":[1,{"z":null}]}`, 201, ""},
		{"eight levels", `{"merchant_name":"x","y":[[[[[[[1]]]]]]]}`, 201, ""},
		{"nine levels", `{"merchant_name":"x","y":[[[[[[[[1]]]]]]]]}`, 422, `"msg":"JSON is nested too deeply"`},
		{"a body of brackets", strings.Repeat("[", 65536), 422, `"json_invalid"`},
		{"a huge number in an unknown field", `{"merchant_name":"x","y":1e999999999}`, 201, ""},
		{"half a surrogate pair in an unknown field", `{"merchant_name":"x","y":"\udc00"}`, 422, `"json_invalid"`},
		{"a byte order mark", "\ufeff" + min, 422, `"json_invalid"`},
		{"bytes that are not UTF-8", `{"merchant_name":"` + "\xff" + `"}`, 400, `"code":"body_not_utf8"`},
		{"Latin-1 behind broken JSON", `{,` + "\xe9", 400, `"code":"body_not_utf8"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			newAPI(t).post("/create-api-key", test.body, "Content-Type: application/json").want(t, test.status, test.part)
		})
	}
}

// TestBodyOfUnknownLength: a chunked body is held to the same limits.
func TestBodyOfUnknownLength(t *testing.T) {
	a := newAPI(t)
	for body, want := range map[string]int{goodBody: 201, goodBody + strings.Repeat(" ", 65536): 413} {
		r := a.request("POST", "/send-payment", "")
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), -1
		a.serve(a.router, r).want(t, want)
	}
	r := a.request("POST", "/send-payment", "")
	r.Body, r.ContentLength = io.NopCloser(io.MultiReader(strings.NewReader(`{"to":`), broken{})), -1
	a.serve(a.router, r).want(t, 422, `"json_invalid"`, `["body",6]`)
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestActions: endpoints that need no input take an empty body for {}.
func TestActions(t *testing.T) {
	for _, path := range []string{"/api-keys/{key}/rotate", "/api-keys/{key}/revoke", "/webhooks/{hook}/rotate-secret", "/webhooks/{hook}/test",
		"/webhooks/{hook}/deliveries/dlv_1/resend", "/webhooks/{hook}/delete"} {
		for _, test := range []struct {
			name, body string
			headers    []string
			status     int
		}{
			{"an empty object", `{}`, nil, 0},
			{"nothing", ``, nil, 0},
			{"nothing, called a form", ``, []string{"Content-Type: application/x-www-form-urlencoded"}, 0},
			{"unknown fields", `{"x":1}`, nil, 0},
			{"blanks", ` `, nil, 422},
			{"a list", `[]`, nil, 422},
			{"null", `null`, nil, 422},
			{"an object, called text", `{}`, []string{"Content-Type: text/plain"}, 422},
			{"too much", `{` + strings.Repeat(" ", 65536), nil, 413},
			{"too much, called text", `{` + strings.Repeat(" ", 65536), []string{"Content-Type: text/plain"}, 422},
			{"bad UTF-8", "\xff", nil, 400},
		} {
			t.Run(path+" "+test.name, func(t *testing.T) {
				a := newAPI(t).hooked()
				path := strings.NewReplacer("{key}", a.keyID(), "{hook}", exampleHook).Replace(path)
				got := a.post(path, test.body, test.headers...)
				if want := test.status; want == 0 && got.status/100 != 2 || want != 0 && got.status != want {
					t.Errorf("answered %d %s", got.status, got.body)
				}
			})
		}
	}
	for _, test := range []struct {
		name, contentType, body string
		status                  int
	}{
		{"nothing, of unknown length", "", "", 200},
		{"an object, of unknown length", "application/json", "{}", 200},
		{"an object, of unknown length, called text", "text/plain", "{}", 422},
		{"too much, of unknown length", "application/json", strings.Repeat(" ", 65537), 413},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := newAPI(t)
			r := a.request("POST", "/api-keys/"+a.keyID()+"/revoke", "")
			r.Header.Set("Content-Type", test.contentType)
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(test.body)), -1
			a.serve(a.router, r).want(t, test.status)
		})
	}
}
