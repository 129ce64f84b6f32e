package post

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"remit/bench/profile"
	"remit/bench/rig"
	"remit/internal/memory"
)

// Profile records the POST path twice: whole, with 64 clients on the embedded
// chain, and Remit's own part alone, over a node that answers from memory.
func Profile(ctx context.Context, dir string, w io.Writer) error {
	const length = 5 * time.Second
	c, err := rig.StartChain(ctx, 17)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	stack, err := rig.NewStack(c, c.Wallets()[1:5], memory.NewPayments(), near)
	if err != nil {
		return err
	}
	load := func(h http.Handler) func() error {
		return func() error {
			run := rig.Load(ctx, h, 64, length)
			_, _ = fmt.Fprintf(w, "%.0f payments a second, %d failed\n", run.PerSecond(), run.Failed)
			return nil
		}
	}
	if err := profile.Record(ctx, dir, "post-with-chain", w, load(stack.Handler)); err != nil {
		return err
	}
	c.Pause()
	own, err := handler(c, &canned{}, memory.NewPayments())
	if err != nil {
		return err
	}
	return profile.Record(ctx, dir, "post", w, load(own))
}
