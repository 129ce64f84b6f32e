// Command mutate breaks the code on purpose and checks that a test notices.
//
//	go run ./tools/mutate rules      take out each rule of rules.txt in turn: its test must fail
//	go run ./tools/mutate mutants    make each small mistake in the code that moves money
//
// Flags come after the word: -only TEXT for those whose name, test or file contains TEXT (the tests' output is shown if
// it is only one), and -p N for N at a time. The tree is never touched: the compiler is given an overlay.
//
// go-gremlins v0.6.0 runs under Go 1.26, but leaves out no statement, negates no condition
// without an operator, runs the mutated package's tests alone and links once a mutant: in
// dispatch it makes 276 mutants instead of 745, and takes seven seconds for each.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// errUsage reports a command line that names neither kind of change.
var errUsage = errors.New("usage: mutate rules|mutants [-only TEXT] [-p N]")

func run(ctx context.Context, args []string) error {
	if len(args) == 0 || args[0] != "rules" && args[0] != "mutants" {
		return errUsage
	}
	var o options
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	flags.StringVar(&o.only, "only", "", "only those whose name, test or file contains this")
	flags.IntVar(&o.width, "p", runtime.NumCPU(), "how many at a time")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return errUsage
	}
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	module, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("looking for go.mod: %w", err)
	}
	b := bench{root: filepath.Dir(strings.TrimSpace(string(module))), dir: dir}
	if args[0] == "rules" {
		return checkRules(ctx, b, o)
	}
	return checkMutants(ctx, b, o)
}

// Options are the flags of a run.
type options struct {
	only  string // part of a name, test or file; empty: all
	width int    // how many at a time
}

// A result is the end of one change.
type result struct {
	name   string
	caught string // the test that failed; empty: the change survived
	note   string // said of a survivor
	output string // of the test that failed
}

// each makes the n changes that change knows by number, o.width at a time,
// prints a line for each as it ends, and returns the results in order.
func (o options) each(ctx context.Context, n int, change func(ctx context.Context, i int) (result, error)) ([]result, error) {
	results, done, mu := make([]result, n), 0, sync.Mutex{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(o.width)
	for i := range n {
		group.Go(func() error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			began := time.Now()
			r, err := change(ctx, i)
			if err != nil {
				return fmt.Errorf("%s: %w", r.name, err)
			}
			end := r.caught + " fails"
			if r.caught == "" {
				end = "SURVIVES" + r.note
			}
			if n == 1 {
				end += "\n" + strings.TrimSpace(r.output) + "\n"
			}
			mu.Lock()
			defer mu.Unlock()
			results[i] = r
			done++
			fmt.Printf("[%*d/%d] %5.1f s  %s: %s\n", len(fmt.Sprint(n)), done, n, time.Since(began).Seconds(), r.name, end)
			return nil
		})
	}
	err := group.Wait()
	return results, err
}

// quoted writes a name as a word of the shell.
func quoted(name string) string { return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'" }
