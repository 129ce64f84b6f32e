package httpapi

import (
	"context"
	_ "embed"
)

// Description is openapi.yaml, the one description of this API.
//
//go:embed openapi.yaml
var Description []byte

// Docs serves GET /docs, on local stacks only: html is the whole explorer.
func Docs(html []byte) Endpoint {
	return endpoint("Docs", func(*call) (answer, error) {
		return ok(page{"text/html; charset=utf-8", "no-cache", html}, nil)
	})
}

// OpenAPI serves GET /openapi.json, on local stacks only: json is Description in JSON, with the server's own URL.
func OpenAPI(json []byte) Endpoint {
	return endpoint("OpenAPI", func(*call) (answer, error) {
		return ok(page{"application/json", "no-store", json}, nil)
	})
}

// Sandbox serves GET /sandbox, on local stacks only. facts returns its body, which openapi.yaml describes.
func Sandbox(facts func(context.Context) (any, error)) Endpoint {
	return endpoint("Sandbox", func(c *call) (answer, error) {
		return ok(facts(c.Context()))
	})
}
