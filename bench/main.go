// Command bench runs the benchmarks of bench/measure, and keeps their results in
// bench/results in Go's benchmark format. docs/performance.md has the targets.
//
//	go run ./bench            every benchmark but chaos
//	go run ./bench post load  these two
//	go run ./bench -quick     less of everything, which is printed and not kept
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal("bench: ", err)
	}
}

// fullChaos is the shortest chaos whose results are kept; a shorter one is a check.
const fullChaos = 10 * time.Minute

func run(ctx context.Context) error {
	quick := flag.Bool("quick", false, "measure less, and keep no results: to try the benchmarks, not to quote them")
	count := flag.Int("count", 1, "how often each benchmark runs; the targets are held to medians")
	length := flag.Duration("for", fullChaos, "how long chaos lasts; the results of less are not kept")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "the seed of chaos")
	flag.Parse()
	const everything = "coldstart post wallets store proposals load gas batches"
	chosen := flag.Args()
	if len(chosen) == 0 {
		chosen = strings.Fields(everything)
	}
	commit, err := head(ctx)
	if err != nil && !*quick {
		return err
	}
	for _, name := range chosen {
		args := []string{"./bench/measure", "-run=^$", "-benchtime=1x", "-bench=^Benchmark(?i:" + name + ")$", fmt.Sprint("-count=", *count),
			fmt.Sprint("-short=", *quick), fmt.Sprint("-for=", *length), fmt.Sprint("-seed=", *seed)}
		text, err := measure(ctx, commit, args...)
		if err == nil && !*quick && (name != "chaos" || *length >= fullChaos) {
			err = os.WriteFile(filepath.Join("bench/results", name+".txt"), text, 0o644)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// ofFormat matches the lines of the benchmark format that a result file keeps: the
// results, and the configuration of the machine and of the run.
var ofFormat = regexp.MustCompile(`(?m)^(Benchmark|(goos|goarch|cpu|seed|for): ).*$`)

// head returns the commit that is measured. Changes of the code that are not committed are an error.
func head(ctx context.Context) (string, error) {
	changed, err := exec.CommandContext(ctx, "git", "status", "--porcelain", "--", "*.go", "template.yaml", "go.mod").Output()
	if err == nil && len(changed) > 0 {
		return "", fmt.Errorf("results name a commit; commit these first, or use -quick to keep none:\n%s", changed)
	}
	commit, err := exec.CommandContext(ctx, "git", "rev-parse", "HEAD").Output()
	return strings.TrimSpace(string(commit)), err
}

// measure runs benchmarks and returns their results after the conditions that they were measured under.
func measure(ctx context.Context, commit string, args ...string) ([]byte, error) {
	var out bytes.Buffer
	load, _ := os.ReadFile("/proc/loadavg") // first, the processes that ran or waited in the minute before
	begin := time.Now()
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-timeout=0"}, args...)...)
	cmd.Stdout, cmd.Stderr = io.MultiWriter(os.Stdout, &out), os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	kept := fmt.Sprintf("commit: %s\ndate: %s\ntook: %.0f s\nload: %s\ncores: %d\ngo: %s\n",
		commit, begin.UTC().Format("2006-01-02 15:04 UTC"),
		time.Since(begin).Seconds(), strings.Fields(string(load) + " unknown")[0], runtime.NumCPU(), runtime.Version())
	results := ofFormat.FindAllString(out.String(), -1)
	if !strings.Contains(out.String(), "\nBenchmark") {
		return nil, errors.New("there is no such benchmark")
	}
	return []byte(kept + strings.Join(results, "\n") + "\n"), nil
}
