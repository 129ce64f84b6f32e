package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
)

// An answerError is an answer whose status is not the wanted one.
type answerError struct {
	method, path string
	status       int
	body         []byte
}

func (e *answerError) Error() string {
	return fmt.Sprintf("%s %s answered %d %s", e.method, e.path, e.status, e.body)
}

// callAPI makes a request to a running stack and returns the answer's body if
// it has the wanted status, else an *answerError. header is names and values in
// turn.
func callAPI(ctx context.Context, url, key, method, path, body string, want int, header ...string) (map[string]any, error) {
	r, err := http.NewRequestWithContext(ctx, method, url+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("x-api-key", key)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("nothing listens at %s: start a stack there with remit local, or say where one is", url)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != want {
		return nil, &answerError{method, path, answer.StatusCode, text}
	}
	var value map[string]any
	return value, json.Unmarshal(text, &value)
}

// createMerchant makes a merchant at url, where the stack lets anybody, and
// returns its key.
func createMerchant(ctx context.Context, url, name string) (string, error) {
	body, err := callAPI(ctx, url, "", "POST", "/create-api-key", fmt.Sprintf(`{"merchant_name":%q}`, name), 201)
	if refused, ok := errors.AsType[*answerError](err); ok && refused.status == http.StatusForbidden {
		return "", fmt.Errorf("creating a merchant: %w: make a key with remit keys create and pass --key", err)
	}
	if err != nil {
		return "", fmt.Errorf("creating a merchant: %w", err)
	}
	key, _ := body["api_key"].(string)
	return key, nil
}
