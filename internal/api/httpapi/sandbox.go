package httpapi

import (
	"context"
	"net/http"
)

// Sandbox serves GET /sandbox, on local stacks only. facts returns its body,
// which openapi.yaml describes.
func Sandbox(newID func() string, facts func(context.Context) (any, error)) Endpoint {
	return endpoint("Sandbox", newID, func(c *call) (answer, error) {
		body, err := facts(c.Context())
		return answer{status: http.StatusOK, body: body}, err
	})
}
