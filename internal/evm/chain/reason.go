package chain

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// maxReason is the most characters of a contract's reason.
const maxReason = 200

// A RevertError is ErrReverted with the contract's reason, as it stands in the revert data.
type RevertError struct{ Reason string }

func (e *RevertError) Error() string { return fmt.Sprintf("%v: %q", ErrReverted, e.Reason) }

// Is implements the interface of errors.Is.
func (e *RevertError) Is(target error) bool { return target == ErrReverted }

// Reason returns the contract's reason to refuse a call in a block, in printable ASCII, or "" if no node gives one
// within two seconds: nodes drop old states. It is one node's word, for people.
func (n Nodes) Reason(ctx context.Context, call Call, block uint64) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	call.At = block
	for _, node := range n.inOrder() {
		_, err := node.Estimate(ctx, call)
		if reverted, ok := errors.AsType[*RevertError](err); ok && reverted.Reason != "" {
			return printable(reverted.Reason)
		}
	}
	return ""
}

func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
	return text[:min(len(text), maxReason)]
}
