package chain

import (
	"errors"
	"fmt"
	"strconv"
)

// ErrFinality reports a finality rule that cannot be read.
var ErrFinality = errors.New("invalid finality rule")

// A Finality is the rule for when a block will not be re-organised away: a
// depth, or a block tag that the consensus layer vouches for. The zero
// Finality is depth 0: a block is final once it is mined.
type Finality struct {
	Tag   string // "safe", "finalized", or empty for a depth
	Depth uint64 // blocks that must follow, when Tag is empty
}

// ParseFinality reads "safe", "finalized" or a number of blocks.
func ParseFinality(s string) (Finality, error) {
	if s == "safe" || s == "finalized" {
		return Finality{Tag: s}, nil
	}
	depth, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return Finality{}, fmt.Errorf(`%w %q: want a number of blocks, "safe" or "finalized"`, ErrFinality, s)
	}
	return Finality{Depth: depth}, nil
}

// String returns what ParseFinality reads.
func (f Finality) String() string {
	if f.Tag != "" {
		return f.Tag
	}
	return strconv.FormatUint(f.Depth, 10)
}
