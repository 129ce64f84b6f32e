package deployed

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
)

// A Moment is a place in the chain: the number of a block, or a time. The zero Moment is block 0.
type Moment struct {
	Block uint64
	At    time.Time
}

// UnmarshalText reads a number or an RFC 3339 time.
func (m *Moment) UnmarshalText(text []byte) (err error) {
	if m.Block, err = strconv.ParseUint(string(text), 10, 64); err == nil {
		return nil
	}
	if m.At, err = time.Parse(time.RFC3339, string(text)); err != nil {
		return fmt.Errorf("%q is not a block or a time; use a number, or a time such as 2026-01-31T18:30:00Z", text)
	}
	return nil
}

// First returns the first block of the Moment and later: by time, up to last+1. A time in the future is an error.
func (m Moment) First(ctx context.Context, nodes chain.Nodes, last uint64) (uint64, error) {
	switch {
	case m.At.IsZero():
		return m.Block, nil
	case m.At.After(time.Now()):
		return 0, fmt.Errorf("%s is in the future; check the time zone", m.At.Format(time.RFC3339))
	}
	return nodes.FirstSince(ctx, m.At, last)
}
