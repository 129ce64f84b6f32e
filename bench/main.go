// Command bench measures Remit: how fast it starts, pays, settles and tells
// merchants, what that costs, and whether it survives being broken.
//
//	go run ./bench             every benchmark but chaos, then docs/performance.md
//	go run ./bench post load   these two
//	go run ./bench -list       what there is
//
// Each writes bench/results/NAME.json and its plots, and prints whether its
// targets are met.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"remit/bench/lab"
	"remit/bench/report"
)

// A benchmark is one thing to measure.
type benchmark struct {
	name, title string
	run         func(ctx context.Context, b *bench) (*report.Result, error)
	alone       bool // only when asked for by name
}

// bench is what all benchmarks are given.
type bench struct {
	root    string
	results string
	quick   bool
	length  time.Duration // of chaos
	rate    int
	seed    uint64
	say     func(format string, args ...any)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// errMissed makes the command fail when what must never fail did.
var errMissed = errors.New("a promise was broken")

func run(ctx context.Context) error {
	root, err := lab.Root()
	if err != nil {
		return err
	}
	slog.SetDefault(slog.New(slog.DiscardHandler)) // what goes wrong is in the answers, which are checked
	b := &bench{root: root, results: filepath.Join(root, "bench", "results"), say: progress()}
	list := flag.Bool("list", false, "list the benchmarks")
	page := flag.Bool("page", false, "only write docs/performance.md from the results there are")
	flag.BoolVar(&b.quick, "quick", false, "measure less of everything: to try the benchmarks, not to quote them")
	flag.DurationVar(&b.length, "for", 10*time.Minute, "how long chaos lasts")
	flag.IntVar(&b.rate, "rate", 40, "payments a second of chaos")
	flag.Uint64Var(&b.seed, "seed", uint64(time.Now().UnixNano()), "what chaos draws from")
	flag.Parse()
	if *list {
		for _, mark := range benchmarks() {
			fmt.Printf("  %-10s %s\n", mark.name, mark.title)
		}
		return nil
	}
	if *page {
		return b.page()
	}
	chosen, err := choose(flag.Args())
	if err != nil {
		return err
	}
	return b.all(ctx, chosen)
}

// choose returns the named benchmarks, or all that do not have to be named.
func choose(names []string) ([]benchmark, error) {
	var chosen []benchmark
	for _, mark := range benchmarks() {
		if len(names) == 0 && !mark.alone {
			chosen = append(chosen, mark)
		}
	}
	for _, name := range names {
		found := false
		for _, mark := range benchmarks() {
			if mark.name == name {
				chosen, found = append(chosen, mark), true
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no benchmark %q; -list shows what there is", name)
		}
	}
	return chosen, nil
}

// all runs benchmarks one after the other, and says at the end which targets
// were met.
func (b *bench) all(ctx context.Context, chosen []benchmark) error {
	if err := os.MkdirAll(b.results, 0o755); err != nil {
		return err
	}
	var targets []report.Target
	broken := false
	for i, mark := range chosen {
		b.say("[%d/%d] %s: %s", i+1, len(chosen), mark.name, mark.title)
		begin, here := time.Now(), report.Here()
		r, err := mark.run(ctx, b)
		if err != nil {
			return fmt.Errorf("%s: %w", mark.name, err)
		}
		if r == nil {
			continue // it has printed what there is
		}
		r.Name, r.Title, r.Conditions = mark.name, mark.title, here
		r.At, r.Took = begin.UTC().Truncate(time.Second), time.Since(begin).Round(time.Millisecond).Seconds()
		r.Print(os.Stdout)
		if err := r.Save(b.results); err != nil {
			return err
		}
		targets = append(targets, r.Targets...)
		for _, t := range r.Targets {
			broken = broken || mark.alone && !t.Met
		}
	}
	if len(chosen) > 1 {
		t := report.TargetTable(targets)
		t.Title = "All targets"
		t.Print(os.Stdout)
	}
	if err := b.page(); err != nil {
		return err
	}
	if broken {
		return errMissed
	}
	return nil
}

// progress says how far the command is, on standard error.
func progress() func(format string, args ...any) {
	begin := time.Now()
	return func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "%6.1f s  %s\n", time.Since(begin).Seconds(), fmt.Sprintf(format, args...))
	}
}
