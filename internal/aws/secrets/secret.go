// Package secrets reads secrets from AWS Secrets Manager, keeps them in the process for minutes and never logs them.
package secrets

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager/types"
)

// ErrMissing reports a secret that does not exist or has no value: none was put there yet, or it was taken away.
var ErrMissing = errors.New("the secret has no value")

const (
	// KeepFor is how long a value is used before it is read again, so how long a change takes to be seen by all.
	KeepFor = 5 * time.Minute
	// RetryAfter is how long a value whose refresh failed is used before the next try.
	RetryAfter = 15 * time.Second
	// refreshWithin bounds how long a caller waits for a refresh it can do without.
	refreshWithin = 2 * time.Second
)

// A Secret is one secret and the T that was derived from its value, such as a client of the nodes it names. It is
// safe for concurrent use; callers that come while it is read wait for that one read.
type Secret[T any] struct {
	client *secretsmanager.Client
	id     string // ARN or name
	now    func() time.Time
	derive func([]byte) (T, error)

	mu    sync.Mutex
	value []byte
	kept  T             // of value
	asked time.Time     // when the secret was read last, or could not be; zero: nothing is kept
	keep  time.Duration // for how long nobody asks again
}

// Open returns the secret of that ARN or name. Nothing is read yet.
func Open[T any](cfg aws.Config, id string, now func() time.Time, derive func([]byte) (T, error)) *Secret[T] {
	return &Secret[T]{client: secretsmanager.NewFromConfig(cfg), id: id, now: now, derive: derive}
}

// Get returns the T of the secret's value, which is at most KeepFor old; the same one as long as the value does not
// change. One that was derived before goes on being used, however old, and a warning is logged, as long as the secret
// cannot be read or no T can be derived from it.
func (s *Secret[T]) Get(ctx context.Context) (T, error) { return s.Within(ctx, KeepFor) }

// Within is Get of a value that is at most age old.
func (s *Secret[T]) Within(ctx context.Context, age time.Duration) (T, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now().Before(s.asked.Add(min(age, s.keep))) {
		return s.kept, nil
	}
	reading, cancel := ctx, context.CancelFunc(func() {})
	if s.value != nil {
		reading, cancel = context.WithTimeout(ctx, refreshWithin)
	}
	defer cancel()
	keep, err := KeepFor, s.renew(reading)
	if err != nil {
		err = fmt.Errorf("reading secret %s: %w", s.id, err)
		if s.value == nil {
			return s.kept, err
		}
		slog.WarnContext(ctx, "an earlier value of a secret stays in use", "err", err)
		keep = RetryAfter
	}
	s.asked, s.keep = s.now(), keep
	return s.kept, nil
}

func (s *Secret[T]) renew(ctx context.Context) error {
	value, err := s.read(ctx)
	if err != nil || bytes.Equal(value, s.value) {
		return err
	}
	fresh, err := s.derive(value)
	if err == nil {
		s.value, s.kept = value, fresh
	}
	return err
}

func (s *Secret[T]) read(ctx context.Context) ([]byte, error) {
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

// ErrRPC reports an unusable RPC secret. Errors that match it quote nothing of it: nodes' URLs carry a provider's key.
var ErrRPC = errors.New("unusable RPC secret")

// RPC reads the RPC secret, {"8453": {"urls": ["https://…", …]}, "137": {"urls": […]}}, and returns the URLs of each
// chain. Where one has none, or bad ones, that concerns no other chain: ethrpc.Open refuses those.
func RPC(value []byte) (map[uint64][]string, error) {
	var named map[string]json.RawMessage
	err := json.Unmarshal(value, &named)
	lists := map[uint64][]string{}
	for name, text := range named {
		id, unread := strconv.ParseUint(name, 10, 64)
		if unread != nil || id == 0 {
			continue
		}
		var of struct {
			URLs []string `json:"urls"`
		}
		if json.Unmarshal(text, &of) != nil {
			of.URLs = []string{string(text)} // JSON, and so no URL
		}
		lists[id] = of.URLs
	}
	if err != nil || len(lists) == 0 {
		return nil, fmt.Errorf(`%w: want {"8453":{"urls":["https://…"]}}`, ErrRPC) // the cause quotes the secret
	}
	return lists, nil
}

// WithChain returns the RPC secret with the nodes of a chain replaced.
func WithChain(value []byte, chainID uint64, urls []string) (string, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(value, &all); err != nil {
		return "", fmt.Errorf("%w: it is no JSON object", ErrRPC)
	}
	nodes, err := json.Marshal(map[string][]string{"urls": urls})
	if err != nil {
		return "", err
	}
	all[strconv.FormatUint(chainID, 10)] = nodes
	text, err := json.Marshal(all)
	return string(text), err
}
