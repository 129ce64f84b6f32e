// Package httpapitest holds every response that a test receives against
// openapi.yaml, so that nothing undocumented can be sent unnoticed.
package httpapitest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/config"
	"github.com/pb33f/libopenapi-validator/schema_validation"
	"github.com/pb33f/libopenapi/datamodel/high/base"

	"remit/internal/httpapi"
)

// A Contract is openapi.yaml, ready to be held against exchanges. It is safe
// for concurrent use.
type Contract struct {
	validator validator.Validator
	event     *base.Schema
}

// NewContract reads openapi.yaml. An error says that it is no valid OpenAPI
// document.
func NewContract() (*Contract, error) {
	document, err := libopenapi.NewDocument(httpapi.Description)
	if err != nil {
		return nil, fmt.Errorf("reading openapi.yaml: %w", err)
	}
	// Strict: a property that is not documented is an error.
	v, errs := validator.NewValidator(document, config.WithStrictMode(),
		config.WithStrictIgnorePaths("$.body.**.metadata.*", "$.body.metadata.*"),
		config.WithFormatAssertions(), config.WithoutSecurityValidation())
	if len(errs) > 0 {
		return nil, fmt.Errorf("reading openapi.yaml: %w", errors.Join(errs...))
	}
	if ok, errs := v.ValidateDocument(); !ok {
		return nil, fmt.Errorf("openapi.yaml is not valid: %v", errs)
	}
	model, err := document.BuildV3Model()
	if err != nil {
		return nil, fmt.Errorf("reading openapi.yaml: %w", err)
	}
	event, ok := model.Model.Components.Schemas.Get("PaymentEvent")
	if !ok {
		return nil, errors.New("openapi.yaml has no PaymentEvent")
	}
	return &Contract{v, event.Schema()}, nil
}

// CheckEvent reports where the body of a payment's event differs from the schema
// in openapi.yaml.
func (c *Contract) CheckEvent(body []byte) error {
	if ok, errs := schema_validation.NewSchemaValidator().ValidateSchemaBytes(c.event, body); !ok {
		return fmt.Errorf("%v: %s", errs, body)
	}
	return nil
}

// The fixed bodies of answers that belong to no route.
const (
	notFound         = `{"detail":"Not Found"}`
	methodNotAllowed = `{"detail":"Method Not Allowed","code":"method_not_allowed"}`
	unauthorized     = `{"detail":"Invalid API Key"}`
	malformed        = `{"detail":"This is not a well-formed HTTP request.","code":"request_malformed"}`
)

var requestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// Check reports all parts of the answer to r that the contract does not allow.
// It reads the answer's body and puts it back.
func (c *Contract) Check(r *http.Request, answer *http.Response) error {
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	_ = answer.Body.Close()
	defer func() { answer.Body = io.NopCloser(bytes.NewReader(body)) }()
	if err := checkHeader(r, answer); err != nil {
		return fmt.Errorf("%w\n%s", err, body)
	}
	if done, err := checkFixed(r, answer, string(body)); done {
		return err
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	if ok, errs := c.validator.ValidateHttpResponse(r, answer); !ok {
		var all []string
		for _, err := range errs {
			all = append(all, fmt.Sprint(err.Message, ": ", err.Reason))
			for _, detail := range err.SchemaValidationErrors {
				all = append(all, fmt.Sprint("  ", detail.FieldPath, ": ", detail.Reason))
			}
		}
		return fmt.Errorf("%s %s answered %d, which openapi.yaml does not describe:\n%s\n%s",
			r.Method, r.URL.Path, answer.StatusCode, strings.Join(all, "\n"), body)
	}
	return nil
}

// checkHeader checks the headers that every response has.
func checkHeader(r *http.Request, answer *http.Response) error {
	wantType, wantCache := "application/json", "no-store"
	if r.URL.Path == "/docs" && answer.StatusCode == http.StatusOK {
		wantType, wantCache = "text/html; charset=utf-8", "no-cache"
	}
	if answer.StatusCode == http.StatusOK && r.URL.Path == "/transactions" && r.Header.Get("Accept") == "text/csv" {
		wantType = "text/csv; charset=utf-8"
	}
	for name, want := range map[string]string{"Content-Type": wantType, "Cache-Control": wantCache} {
		if got := answer.Header.Values(name); len(got) != 1 || got[0] != want {
			return fmt.Errorf("%s is %q, want exactly %q", name, got, want)
		}
	}
	if id := answer.Header.Values("X-Request-Id"); len(id) != 1 || !requestID.MatchString(id[0]) {
		return fmt.Errorf("X-Request-Id is %q", id)
	}
	if wait := answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode == http.StatusServiceUnavailable; wait &&
		answer.Header.Get("Retry-After") == "" {
		return fmt.Errorf("%d without Retry-After", answer.StatusCode)
	}
	return nil
}

// checkFixed checks an answer whose bytes are fixed, and reports whether this is
// one. openapi.yaml has no place for the answers of unknown paths and methods.
func checkFixed(r *http.Request, answer *http.Response, body string) (done bool, err error) {
	want := ""
	switch answer.StatusCode {
	case http.StatusMethodNotAllowed:
		want = methodNotAllowed
		if answer.Header.Get("Allow") == "" {
			return true, fmt.Errorf("%s %s: 405 without Allow", r.Method, r.URL.Path)
		}
	case http.StatusUnauthorized:
		want = unauthorized
	case http.StatusNotFound:
		if strings.Contains(body, `"code"`) {
			return false, nil
		}
		want = notFound
	case http.StatusBadRequest:
		return body == malformed, nil
	case http.StatusOK:
		return r.URL.Path == "/openapi.json", nil // any object will do
	default:
		return false, nil
	}
	if body != want && (r.Method != http.MethodHead || body != "") {
		return true, fmt.Errorf("%s %s: %d with the body %s, want %s", r.Method, r.URL.Path, answer.StatusCode, body, want)
	}
	return true, nil
}
