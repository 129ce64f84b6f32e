package secrets

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
)

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
