package main

import (
	"context"
	"path/filepath"

	"remit/bench/chaos"
	"remit/bench/lab"
	"remit/bench/report"
)

// benchmarks is everything that can be measured, in the order of the page.
func benchmarks() []benchmark {
	return []benchmark{
		{"chaos", "Everything breaks", runChaos, true},
	}
}

// runChaos is `make chaos`.
func runChaos(ctx context.Context, b *bench) (*report.Result, error) {
	remit, err := lab.Build(ctx, "./cmd/remit", "remit", nil)
	if err != nil {
		return nil, err
	}
	return chaos.Run(ctx, chaos.Options{
		For: b.length, Rate: b.rate, Clients: 24, Wallets: 4, Seed: b.seed, Remit: remit,
		Dir: filepath.Join(b.root, ".cache", "chaos"), Say: b.say,
	})
}
