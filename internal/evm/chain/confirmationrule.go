package chain

import (
	"errors"
	"fmt"
	"strconv"
)

// ErrConfirmationRule reports a finality rule that cannot be read.
var ErrConfirmationRule = errors.New("invalid finality rule")

// A ConfirmationRule decides when a block is final: at a depth, or when the consensus layer gives
// it a tag. The zero ConfirmationRule is depth 0: a block is final once it is mined.
type ConfirmationRule struct {
	Tag   string // "safe", "finalized", or empty for a depth
	Depth uint64 // blocks that must follow, when Tag is empty
}

// ParseConfirmationRule reads "safe", "finalized" or a number of blocks.
func ParseConfirmationRule(s string) (ConfirmationRule, error) {
	if s == "safe" || s == "finalized" {
		return ConfirmationRule{Tag: s}, nil
	}
	depth, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return ConfirmationRule{}, fmt.Errorf(`%w %q: want a number of blocks, "safe" or "finalized"`, ErrConfirmationRule, s)
	}
	return ConfirmationRule{Depth: depth}, nil
}

func (f ConfirmationRule) String() string {
	if f.Tag != "" {
		return f.Tag
	}
	return strconv.FormatUint(f.Depth, 10)
}
