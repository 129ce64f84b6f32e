package operator

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"remit/internal/chain"
)

// A moment is a place in the chain: the number of a block, or a time. The zero moment
// is block 0.
type moment struct {
	block uint64
	at    time.Time
}

// UnmarshalText reads a number or an RFC 3339 time.
func (m *moment) UnmarshalText(text []byte) (err error) {
	if m.block, err = strconv.ParseUint(string(text), 10, 64); err == nil {
		return nil
	}
	if m.at, err = time.Parse(time.RFC3339, string(text)); err != nil {
		return fmt.Errorf("%q is neither the number of a block nor a time such as 2026-01-31T18:30:00Z", text)
	}
	return nil
}

// first returns the first block of the moment and later: by its time, one up to the
// block behind last. A time that is yet to come is an error.
func (m moment) first(ctx context.Context, nodes chain.Nodes, last uint64) (uint64, error) {
	switch {
	case m.at.IsZero():
		return m.block, nil
	case m.at.After(time.Now()):
		return 0, fmt.Errorf("%s is yet to come: is that the time zone that you mean?", m.at.Format(time.RFC3339))
	}
	return nodes.FirstSince(ctx, m.at, last)
}
