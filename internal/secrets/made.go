package secrets

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
)

// A Made is something made of a secret's value, such as a client of the nodes
// it names, and made again when the value changes.
type Made[T any] struct {
	value func(context.Context) ([]byte, error)
	make  func([]byte) (T, error)

	mu   sync.Mutex
	from []byte // the value that was tried last
	have bool   // made is good
	made T
	err  error // of the last try
}

// Make returns what maker makes of the value; nothing is read or made yet.
// value is a Secret's method of that name.
func Make[T any](value func(context.Context) ([]byte, error), maker func([]byte) (T, error)) *Made[T] {
	return &Made[T]{value: value, make: maker}
}

// Get returns what was made of the secret's present value. Once something was
// made it goes on being returned, after a warning is logged, while the value
// cannot be had or nothing can be made of it.
func (m *Made[T]) Get(ctx context.Context) (T, error) {
	value, err := m.value(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	tried := err != nil
	if err == nil && (m.from == nil || !bytes.Equal(value, m.from)) {
		m.from, tried = bytes.Clone(value), true
		var made T
		if made, m.err = m.make(value); m.err == nil {
			m.made, m.have = made, true
		}
	}
	if err == nil {
		err = m.err
	}
	if err != nil && m.have {
		if tried {
			slog.WarnContext(ctx, "using what an earlier value of a secret gave", "err", err)
		}
		return m.made, nil
	}
	return m.made, err
}
