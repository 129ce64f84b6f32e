package httpapi

import (
	"context"
	"net/http"
)

// Sandbox serves GET /sandbox, on one machine only. facts returns what is to
// be written as its body: openapi.yaml says what it holds.
func Sandbox(newID func() string, facts func(context.Context) (any, error)) Endpoint {
	return endpoint("Sandbox", newID, func(c *call) (answer, error) {
		body, err := facts(c.Context())
		return answer{status: http.StatusOK, body: body}, err
	})
}
