package httpapi

import (
	_ "embed"
	"net/http"
)

// Description is openapi.yaml, the one description of this API.
//
//go:embed openapi.yaml
var Description []byte

// Docs serves GET /docs, on local stacks only: html is the whole explorer.
func Docs(newID func() string, html []byte) Endpoint {
	return endpoint("Docs", newID, func(*call) (answer, error) {
		return answer{status: http.StatusOK, body: page{"text/html; charset=utf-8", "no-cache", html}}, nil
	})
}

// OpenAPI serves GET /openapi.json, on local stacks only: json is Description in
// JSON, with the server's own URL.
func OpenAPI(newID func() string, json []byte) Endpoint {
	return endpoint("OpenAPI", newID, func(*call) (answer, error) {
		return answer{status: http.StatusOK, body: page{"application/json", "no-store", json}}, nil
	})
}
