// Command bench runs the benchmarks of bench/measure, keeps their results in Go's
// benchmark format, and writes docs/performance.md from them.
//
//	go run ./bench             every benchmark but chaos
//	go run ./bench post load   these two
//	go run ./bench scale       the simulated loads of docs/scale.md, in virtual time
//	go run ./bench -quick      less of everything, which is printed and not kept
//	go run ./bench -page       only the page, from the results there are
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

const resultsDir = "bench/results"

// pages are the pages that have results.
var pages = []string{"docs/performance.md", "docs/scale.md"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal("bench: ", err)
	}
}

func run(ctx context.Context) error {
	page := flag.Bool("page", false, "only write the pages from the results there are")
	quick := flag.Bool("quick", false, "measure less, and keep no results: to try the benchmarks, not to quote them")
	count := flag.Int("count", 1, "how often each benchmark runs; the page shows medians")
	length := flag.Duration("for", 10*time.Minute, "how long chaos lasts")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "the seed of chaos")
	baseline := flag.String("baseline", "", "a remit of another commit, which anvil measures beside this one")
	list := flag.Bool("list", false, "print the names of the benchmarks")
	flag.Parse()
	const everything = "coldstart post settle webhooks slow rates quorum store load fair repeats gas batches"
	virtual := map[string]string{"scale": "^TestCurves$", "slow": "^TestSlowEndpoints$", "rates": "^TestRates$", "quorum": "^TestQuorum$"} // tests, since virtual time is for tests
	if *list {
		fmt.Println(everything, "anvil chaos scale")
		return nil
	}
	chosen := flag.Args()
	if len(chosen) == 0 && !*page {
		chosen = strings.Fields(everything)
	}
	for _, name := range chosen {
		args := []string{"./bench/measure", "-run=^$", "-benchtime=1x", "-bench=^Benchmark(?i:" + name + ")$", fmt.Sprint("-count=", *count), fmt.Sprint("-short=", *quick), fmt.Sprint("-for=", *length), fmt.Sprint("-seed=", *seed), "-baseline=" + *baseline}
		if test := virtual[name]; test != "" {
			args = []string{"./bench/scale", "-v", "-count=1", "-run=" + test, fmt.Sprint("-curves=", !*quick)}
		}
		text, err := measure(ctx, args...)
		if err == nil && !*quick {
			err = os.WriteFile(filepath.Join(resultsDir, name+".txt"), text, 0o644)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if *quick {
		return nil
	}
	return writePage()
}

// ofFormat matches the lines of the benchmark format that a result file keeps: the
// results, and the configuration of the machine and of the run.
var ofFormat = regexp.MustCompile(`(?m)^(Benchmark|(goos|goarch|cpu|seed|for): ).*$`)

// measure runs benchmarks and returns their results after the conditions that they
// were measured under.
func measure(ctx context.Context, args ...string) ([]byte, error) {
	var out bytes.Buffer
	load, _ := os.ReadFile("/proc/loadavg") // first, the processes that ran or waited in the minute before
	begin := time.Now()
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-timeout=0"}, args...)...)
	cmd.Stdout, cmd.Stderr = io.MultiWriter(os.Stdout, &out), os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	kept := fmt.Sprintf("date: %s\ntook: %.0f s\nload: %s\ncores: %d\ngo: %s\n", begin.UTC().Format("2006-01-02 15:04 UTC"), time.Since(begin).Seconds(),
		strings.Fields(string(load) + " unknown")[0], runtime.NumCPU(), runtime.Version())
	results := ofFormat.FindAllString(out.String(), -1)
	if !strings.Contains(out.String(), "\nBenchmark") {
		return nil, errors.New("there is no such benchmark")
	}
	return []byte(kept + strings.Join(results, "\n") + "\n"), nil
}

// resultsOf returns the results in the repository at root, and the bills of its
// template.
func resultsOf(root string) (*results, error) {
	r, err := readResults(filepath.Join(root, resultsDir))
	if err != nil {
		return nil, err
	}
	template, err := os.ReadFile(filepath.Join(root, "template.yaml"))
	if err != nil {
		return nil, err
	}
	deployed, err := parse(template)
	r.addCost(deployed)
	r.addWalls(deployed)
	return r, err
}

// writePage writes the pages and their figures, and prints the verdicts on the
// targets.
func writePage() error {
	r, err := resultsOf(".")
	if err != nil {
		return err
	}
	for _, f := range figures {
		if err := f.save(r, resultsDir); err != nil {
			return fmt.Errorf("drawing %s: %w", f.file, err)
		}
	}
	fmt.Print(r.verdicts())
	for _, page := range pages {
		old, err := os.ReadFile(page)
		if err == nil {
			err = os.WriteFile(page, []byte(r.fill(string(old))), 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
