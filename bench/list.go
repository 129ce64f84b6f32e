package main

import (
	"context"
	"os"
	"path/filepath"

	"remit/bench/capacity"
	"remit/bench/chaos"
	"remit/bench/coldstart"
	"remit/bench/cost"
	"remit/bench/hooks"
	"remit/bench/lab"
	"remit/bench/load"
	"remit/bench/post"
	"remit/bench/report"
	"remit/bench/settle"
)

// benchmarks is everything that can be measured, in the order of the page.
func benchmarks() []benchmark {
	return []benchmark{
		{"coldstart", "Cold starts", runColdstart, false},
		{"post", "POST /send-payment", runPost, false},
		{"settle", "Settlement", runSettle, false},
		{"webhooks", "Webhooks", runWebhooks, false},
		{"store", "DynamoDB over a payment's life", runStore, false},
		{"load", "remit local under load", runLoad, false},
		{"cost", "What it costs", runCost, false},
		{"profile", "Where the time goes", runProfile, true},
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

func runPost(ctx context.Context, b *bench) (*report.Result, error) {
	return post.Run(ctx, b.quick, b.say)
}

// runProfile is `make profile`. It has no result but what it prints.
func runProfile(ctx context.Context, b *bench) (*report.Result, error) {
	dir := filepath.Join(b.root, ".cache", "profiles")
	if err := post.Profile(ctx, dir, os.Stdout); err != nil {
		return nil, err
	}
	return nil, settle.Profile(ctx, dir, os.Stdout)
}

func runLoad(ctx context.Context, b *bench) (*report.Result, error) {
	remit, err := lab.Build(ctx, "./cmd/remit", "remit", nil)
	if err != nil {
		return nil, err
	}
	return load.Run(ctx, remit, filepath.Join(b.root, ".cache", "bench"), b.quick, b.say)
}

func runColdstart(ctx context.Context, b *bench) (*report.Result, error) {
	return coldstart.Run(ctx, b.root, b.quick, b.say)
}

func runSettle(ctx context.Context, b *bench) (*report.Result, error) {
	return settle.Run(ctx, b.quick, b.say)
}

func runWebhooks(ctx context.Context, b *bench) (*report.Result, error) {
	remit, err := lab.Build(ctx, "./cmd/remit", "remit", nil)
	if err != nil {
		return nil, err
	}
	return hooks.Run(ctx, remit, filepath.Join(b.root, ".cache", "bench"), b.quick, b.say)
}

func runStore(ctx context.Context, b *bench) (*report.Result, error) {
	return capacity.Run(ctx, b.quick, b.say)
}

func runCost(ctx context.Context, b *bench) (*report.Result, error) {
	return cost.Run(ctx, b.root, b.results)
}
