// Package httpapitest holds every response that a test receives against
// openapi.yaml, so that nothing undocumented can be sent unnoticed.
package httpapitest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"

	"github.com/remit-payouts/remit/internal/api/httpapi"
)

// A Contract is openapi.yaml, ready to be compared with exchanges. It is safe for concurrent use.
type Contract struct {
	document map[string]any
	text     *yaml.Node

	mu      sync.Mutex
	schemas *jsonschema.Compiler
}

// name is the URL of openapi.yaml among schemas.
const name = "remit:openapi.yaml"

// NewContract reads openapi.yaml. An error means that it is no YAML document.
func NewContract() (*Contract, error) {
	var node yaml.Node
	if err := yaml.Unmarshal(httpapi.Description, &node); err != nil {
		return nil, fmt.Errorf("reading openapi.yaml: %w", err)
	}
	c := &Contract{document: strict(node.Content[0]).(map[string]any), text: node.Content[0], schemas: jsonschema.NewCompiler()}
	c.schemas.AssertFormat()
	if err := c.schemas.AddResource(name, c.document); err != nil {
		return nil, fmt.Errorf("reading openapi.yaml: %w", err)
	}
	return c, nil
}

// strict returns a node as JSON has it. Objects take described properties only: openapi.yaml leaves them open.
func strict(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
		object := map[string]any{}
		for pair := range slices.Chunk(n.Content, 2) {
			object[pair[0].Value] = strict(pair[1])
		}
		if object["properties"] != nil && object["type"] != nil {
			object["additionalProperties"] = false
		}
		return object
	case yaml.SequenceNode:
		list := []any{}
		for _, item := range n.Content {
			list = append(list, strict(item))
		}
		return list
	}
	if n.Tag == "!!int" || n.Tag == "!!float" { // 2^256-1 is not a float
		return json.Number(n.Value)
	}
	var value any
	_ = n.Decode(&value) // a scalar that the parser has read
	return value
}

// at returns the object at keys from an object of the document, and its place, or nil. A $ref leads on.
func (c *Contract) at(from map[string]any, pointer string, keys ...string) (map[string]any, string) {
	for _, key := range keys {
		from, _ = from[key].(map[string]any)
		pointer += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
		if ref, _ := from["$ref"].(string); ref != "" {
			return c.at(c.document, "", strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
		}
	}
	return from, pointer
}

// Line names the line of openapi.yaml that a JSON pointer leads to, or as near to it as the pointer leads.
func (c *Contract) Line(pointer string) string {
	at := c.text
	for key := range strings.SplitSeq(pointer, "/") {
		for pair := range slices.Chunk(at.Content, 2) {
			if pair[0].Value == strings.NewReplacer("~1", "/", "~0", "~").Replace(key) {
				at = pair[1]
				break
			}
		}
	}
	return fmt.Sprint("openapi.yaml:", at.Line)
}

// validate checks a value against the schema at a place of the document.
func (c *Contract) validate(pointer string, value any) error {
	c.mu.Lock()
	schema, err := c.schemas.Compile(name + "#" + pointer)
	c.mu.Unlock()
	if err != nil {
		return err
	}
	err = schema.Validate(value)
	if failed, is := errors.AsType[*jsonschema.ValidationError](err); is {
		for len(failed.Causes) > 0 {
			failed = failed.Causes[0]
		}
		_, pointer, _ = strings.Cut(failed.SchemaURL, "#")
		return fmt.Errorf("%s: %w", c.Line(pointer), err)
	}
	return err
}

func (c *Contract) validateJSON(pointer string, text []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return c.validate(pointer, value)
}

// eventSchema is where openapi.yaml describes the body of an event.
const eventSchema = "/paths/~1webhooks/post/callbacks/event/%7B$request.body%23~1url%7D/post/requestBody/content/application~1json/schema"

// CheckEvent reports where the body of an event differs from the schema in openapi.yaml.
func (c *Contract) CheckEvent(body []byte) error {
	if err := c.validateJSON(eventSchema, body); err != nil {
		return fmt.Errorf("%w: %s", err, body)
	}
	return nil
}

// The fixed bodies of answers that belong to no route.
const (
	notFound         = `{"detail":"Not Found","code":"not_found"}`
	methodNotAllowed = `{"detail":"Method Not Allowed","code":"method_not_allowed"}`
	unauthorized     = `{"detail":"Invalid API Key"}`
	malformed        = `{"detail":"This is not a well-formed HTTP request.","code":"request_malformed"}`
)

var requestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// Check reports all parts of the answer to r that the contract does not allow. It puts the answer's body back.
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
	if err := c.described(r, answer, body); err != nil {
		return fmt.Errorf("%s %s answered %d, which openapi.yaml does not describe: %w\n%s", r.Method, r.URL.Path,
			answer.StatusCode, err, body)
	}
	return nil
}

// described checks an answer against the response of its route and status.
func (c *Contract) described(r *http.Request, answer *http.Response, body []byte) error {
	paths, pointer := c.at(c.document, "", "paths")
	route, fixed := "", -1 // of the routes that match, the one with most fixed parts
	asked := strings.Split(r.URL.EscapedPath(), "/")
	for candidate := range paths {
		parts, same := strings.Split(candidate, "/"), 0
		for i, part := range parts {
			switch {
			case len(parts) != len(asked), asked[i] != part && !strings.HasPrefix(part, "{"):
				same = -1 - len(parts)
			case asked[i] == part:
				same++
			}
		}
		if same > fixed {
			route, fixed = candidate, same
		}
	}
	response, pointer := c.at(paths, pointer, route, strings.ToLower(r.Method), "responses", fmt.Sprint(answer.StatusCode))
	if response == nil {
		return errors.New("no such route or status")
	}
	if err := c.headers(response, pointer, answer.Header); err != nil {
		return err
	}
	kind, _, _ := strings.Cut(answer.Header.Get("Content-Type"), ";")
	media, pointer := c.at(response, pointer, "content", kind)
	switch {
	case media == nil:
		return fmt.Errorf("it is %s", kind)
	case kind != "application/json":
		return nil
	}
	return c.validateJSON(pointer+"/schema", body)
}

// headers checks that an answer has every header that the response requires, and none that the contract does not name.
func (c *Contract) headers(response map[string]any, pointer string, sent http.Header) error {
	all, pointer := c.at(response, pointer, "headers")
	for header := range all {
		described, at := c.at(all, pointer, header)
		text := sent.Get(header)
		if text == "" && described["required"] == true {
			return fmt.Errorf("it has no %s", header)
		}
		schema, _ := c.at(described, at, "schema")
		var value any = text
		if schema["type"] == "integer" {
			value = json.Number(text)
		}
		if err := c.validate(at+"/schema", value); text != "" && err != nil {
			return fmt.Errorf("%s: %w", header, err)
		}
	}
	for header := range sent {
		known := []string{"Content-Type", "Cache-Control", "X-Request-Id", "Content-Length", "Date", "Connection"}
		for documented := range all {
			known = append(known, http.CanonicalHeaderKey(documented))
		}
		if !slices.Contains(known, header) {
			return fmt.Errorf("%s is not described", header)
		}
	}
	return nil
}

func checkHeader(r *http.Request, answer *http.Response) error {
	wantType, wantCache := "application/json", "no-store"
	if r.URL.Path == "/docs" && answer.StatusCode == http.StatusOK {
		wantType, wantCache = "text/html; charset=utf-8", "no-cache"
	}
	if answer.StatusCode == http.StatusOK && r.URL.Path == "/transactions" && strings.HasPrefix(answer.Header.Get("Content-Type"), "text/") {
		wantType = "text/csv; charset=utf-8" // TestCSV knows when
	}
	for name, want := range map[string]string{"Content-Type": wantType, "Cache-Control": wantCache} {
		if got := answer.Header.Values(name); len(got) != 1 || got[0] != want {
			return fmt.Errorf("%s is %q, want exactly %q", name, got, want)
		}
	}
	if id := answer.Header.Values("X-Request-Id"); len(id) != 1 || !requestID.MatchString(id[0]) {
		return fmt.Errorf("X-Request-Id is %q", id)
	}
	if wait := answer.StatusCode == http.StatusTooManyRequests ||
		answer.StatusCode == http.StatusServiceUnavailable; wait && answer.Header.Get("Retry-After") == "" {
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
		if body != notFound {
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
		return true, fmt.Errorf("%s %s: %d with body %s, want %s", r.Method, r.URL.Path, answer.StatusCode, body, want)
	}
	return true, nil
}
