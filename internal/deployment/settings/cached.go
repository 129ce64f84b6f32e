package settings

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Cached is a value with settings that a process has read, for MaxAge at most. Its age counts from the moment at
// which it began to read, so that a process that was frozen meanwhile reads again.
type Cached[T any] struct {
	mu    sync.Mutex
	at    time.Time
	known bool
	value T
}

// Get returns the value that was read less than MaxAge before now, or else the result of read. It returns read's error
// rather than an older value, and keeps nothing of it. Two calls at once may both read; neither waits for the other.
func (c *Cached[T]) Get(ctx context.Context, now time.Time, read func(context.Context) (T, error)) (T, error) {
	c.mu.Lock()
	value, age, known := c.value, now.Round(0).Sub(c.at), c.known
	c.mu.Unlock()
	if known && age >= 0 && age < MaxAge {
		return value, nil
	}
	value, err := read(ctx)
	if err != nil {
		var none T
		return none, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known || age < 0 || c.at.Before(now) { // a later call may have read a newer value
		c.value, c.at, c.known = value, now.Round(0), true
	}
	return value, nil
}

// Note logs the version of settings that was read, or why none can be obeyed. An alarm reads the latter.
func Note(ctx context.Context, log *slog.Logger, of string, version uint64, err error) {
	if err != nil {
		log.ErrorContext(ctx, "settings unusable", "settings", of, "err", err)
		return
	}
	log.InfoContext(ctx, "settings read", "settings", of, "settings_version", version)
}
