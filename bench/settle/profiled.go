package settle

import (
	"context"
	"fmt"
	"io"
	"time"

	"remit/bench/profile"
	"remit/bench/rig"
)

// Profile records a round that settles ten thousand payments at once.
func Profile(ctx context.Context, dir string, w io.Writer) error {
	const pending = 10_000
	b, err := open(ctx, wallets, near)
	if err != nil {
		return err
	}
	defer func() { _ = b.chain.Close() }()
	b.chain.Pause()
	if err := rig.Many(ctx, b.stack.Handler, 1, 1); err != nil { // first sight of the wallets
		return err
	}
	if err := rig.Many(ctx, b.stack.Handler, 64, pending-1); err != nil {
		return err
	}
	wait(ctx, 2*rig.BlockTime)
	if err := b.mine(ctx, pending); err != nil {
		return err
	}
	return profile.Record(ctx, dir, "settle", w, func() error {
		begin := time.Now()
		report, err := b.settler.Round(ctx, "bench", true)
		_, _ = fmt.Fprintf(w, "%d payments settled in %s\n", report.Confirmed, time.Since(begin).Round(time.Millisecond))
		return err
	})
}
