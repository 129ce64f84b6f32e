// Command bench runs the benchmarks under bench/ and writes their results, as
// files of Go's benchmark format, and docs/performance.md from them.
//
//	go run ./bench             every benchmark but chaos
//	go run ./bench post load   these two
//	go run ./bench -list       the names
//	go run ./bench -quick      less of everything, which is printed and not kept
//	go run ./bench -page       only the page, from the results there are
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A benchmark is one command line of `go test -bench`.
type benchmark struct {
	name, pkg, functions string
	time                 string // of -benchtime
	alone                bool   // runs only when it is named
}

var benchmarks = []benchmark{
	{"coldstart", "measure", "Coldstart", "1x", false},
	{"post", "measure", "Post", "1x", false},
	{"settle", "measure", "Settle|Told", "1x", false},
	{"webhooks", "measure", "Webhooks", "1x", false},
	{"store", "measure", "Store", "1x", false},
	{"load", "measure", "Load", "1x", false},
	{"chaos", "chaos", "Chaos", "1x", true},
}

const (
	resultsDir = "bench/results"
	pagePath   = "docs/performance.md"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	list := flag.Bool("list", false, "list the benchmarks")
	page := flag.Bool("page", false, "only write "+pagePath+" from the results there are")
	quick := flag.Bool("quick", false, "measure less, and keep no results: to try the benchmarks, not to quote them")
	count := flag.Int("count", 1, "how often each benchmark runs; the page shows medians")
	length := flag.Duration("for", 10*time.Minute, "how long chaos lasts")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "the seed of chaos")
	flag.Parse()
	var names []string
	for _, b := range benchmarks {
		if names = append(names, b.name); *list {
			fmt.Println(b.name)
		}
	}
	for _, name := range flag.Args() {
		if !slices.Contains(names, name) {
			return fmt.Errorf("there is no benchmark %q, only %q", name, names)
		}
	}
	for _, b := range benchmarks {
		if *list || *page || !slices.Contains(flag.Args(), b.name) && (b.alone || flag.NArg() > 0) {
			continue
		}
		args := []string{"test", "./bench/" + b.pkg, "-run=^$", "-bench=^Benchmark(" + b.functions + ")$", "-benchtime=" + b.time, "-timeout=0", fmt.Sprint("-count=", *count)}
		if *quick {
			args = append(args, "-short")
		}
		if b.pkg == "chaos" {
			args = append(args, fmt.Sprint("-for=", *length), fmt.Sprint("-seed=", *seed))
		}
		text, err := b.run(ctx, args)
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		if !*quick {
			if err := os.WriteFile(filepath.Join(resultsDir, b.name+".txt"), text, 0o644); err != nil {
				return err
			}
		}
	}
	if *list || *quick {
		return nil
	}
	return writePage()
}

// run runs the benchmark and returns its results after the conditions that they
// were measured under.
func (b benchmark) run(ctx context.Context, args []string) ([]byte, error) {
	var out, kept bytes.Buffer
	begin, load := time.Now(), "unknown"
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		load, _, _ = strings.Cut(string(text), " ") // processes that ran or waited, in the minute before
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stdout, cmd.Stderr = io.MultiWriter(os.Stdout, &out), os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	fmt.Fprintf(&kept, "date: %s\ntook: %.0f s\nload: %s\ncores: %d\ngo: %s\n", begin.UTC().Format("2006-01-02 15:04 UTC"), time.Since(begin).Seconds(),
		load, runtime.NumCPU(), runtime.Version())
	for line := range strings.Lines(out.String()) {
		if key, _, found := strings.Cut(line, ": "); strings.HasPrefix(line, "Benchmark") || found && strings.ToLower(key) == key && !strings.ContainsAny(key, " -\t") {
			kept.WriteString(line)
		}
	}
	return kept.Bytes(), nil
}
