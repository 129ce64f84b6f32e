// Package secrets reads secrets from AWS Secrets Manager while a function runs. It caches them in
// the process for minutes and never logs them.
package secrets

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager/types"
)

// ErrMissing reports a secret that does not exist or has no value: no operator has
// put one there yet, or one was taken away.
var ErrMissing = errors.New("the secret has no value")

const (
	// KeepFor is how long a value is used before it is read again, so how long
	// a change takes to be seen by all.
	KeepFor = 5 * time.Minute
	// retryAfter is how long a value whose refresh failed is used before the
	// next try.
	retryAfter = 15 * time.Second
	// refreshWithin bounds how long a caller waits for a refresh it can do
	// without.
	refreshWithin = 2 * time.Second
)

// A Secret is one secret and its last known value. It is safe for concurrent
// use; callers that come while it is read wait for that one read.
type Secret struct {
	client *secretsmanager.Client
	id     string // ARN or name
	now    func() time.Time

	mu      sync.Mutex
	value   []byte
	refresh time.Time // when value is to be read again; zero: there is none
}

// Open returns the secret of that ARN or name. Nothing is read yet.
func Open(cfg aws.Config, id string, now func() time.Time) *Secret {
	return &Secret{client: secretsmanager.NewFromConfig(cfg), id: id, now: now}
}

// Value returns the secret's value, at most KeepFor old. While Secrets Manager
// cannot be asked, a value that was read before goes on being used, however
// old, and a warning is logged. ErrMissing is an answer and not an outage: the
// value read before is forgotten.
//
// The caller must not change the bytes.
func (s *Secret) Value(ctx context.Context) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now().Before(s.refresh) {
		return s.value, nil
	}
	reading, cancel := ctx, context.CancelFunc(func() {})
	if s.value != nil {
		reading, cancel = context.WithTimeout(ctx, refreshWithin)
	}
	defer cancel()
	value, err := s.read(reading)
	switch {
	case errors.Is(err, ErrMissing):
		s.value, s.refresh = nil, time.Time{}
	case err != nil && s.value != nil:
		slog.WarnContext(ctx, "secret not refreshed, using the one read before", "secret", s.id, "err", err)
		s.refresh = s.now().Add(retryAfter)
		return s.value, nil
	case err == nil:
		s.value, s.refresh = value, s.now().Add(KeepFor)
	}
	if err != nil {
		return nil, fmt.Errorf("reading secret %s: %w", s.id, err)
	}
	return value, nil
}

func (s *Secret) read(ctx context.Context) ([]byte, error) {
	out, err := s.client.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &s.id})
	if _, ok := errors.AsType[*types.ResourceNotFoundException](err); ok {
		return nil, ErrMissing
	}
	if err != nil {
		return nil, err
	}
	if out.SecretString != nil {
		out.SecretBinary = []byte(*out.SecretString)
	}
	if len(out.SecretBinary) == 0 {
		return nil, ErrMissing
	}
	return out.SecretBinary, nil
}

// A Cached keeps the T that was derived from a secret's value, such as a client
// of the nodes it names, and derives it again when the value changes.
type Cached[T any] struct {
	value  func(context.Context) ([]byte, error)
	derive func([]byte) (T, error)

	mu   sync.Mutex
	from []byte // the value that was tried last
	have bool   // kept is good
	kept T
	err  error // of the last try
}

// Cache returns a Cached that has neither read the value nor derived anything
// yet. value is a Secret's method of that name.
func Cache[T any](value func(context.Context) ([]byte, error), derive func([]byte) (T, error)) *Cached[T] {
	return &Cached[T]{value: value, derive: derive}
}

// Get returns the T of the secret's present value. Once one was derived it is
// returned, after a warning is logged, as long as the value cannot be read or
// no T can be derived from it.
func (c *Cached[T]) Get(ctx context.Context) (T, error) {
	value, err := c.value(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	tried := err != nil
	if err == nil && (c.from == nil || !bytes.Equal(value, c.from)) {
		c.from, tried = bytes.Clone(value), true
		var fresh T
		if fresh, c.err = c.derive(value); c.err == nil {
			c.kept, c.have = fresh, true
		}
	}
	if err == nil {
		err = c.err
	}
	if err != nil && c.have {
		if tried {
			slog.WarnContext(ctx, "an earlier value of a secret stays in use", "err", err)
		}
		return c.kept, nil
	}
	return c.kept, err
}

// ErrRPC reports an RPC secret that cannot be used. Errors that match it quote
// nothing of it: URLs of nodes carry a provider's key.
var ErrRPC = errors.New("unusable RPC secret")

// RPC reads the RPC secret,
//
//	{"urls": ["https://…", …]}
//
// and returns the URLs, of which there is at least one. All are http or https.
func RPC(value []byte) ([]string, error) {
	var secret struct {
		URLs []string `json:"urls"`
	}
	if err := json.Unmarshal(value, &secret); err != nil {
		return nil, fmt.Errorf(`%w: want {"urls":["https://…"]}`, ErrRPC) // the cause quotes the secret
	}
	if len(secret.URLs) == 0 {
		return nil, fmt.Errorf("%w: no urls", ErrRPC)
	}
	for i, text := range secret.URLs {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			return nil, fmt.Errorf("%w: urls[%d] is not an http or https URL", ErrRPC, i)
		}
	}
	return secret.URLs, nil
}
