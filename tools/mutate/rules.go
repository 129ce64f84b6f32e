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
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// A rule protects money or webhooks, and can be taken out of the source.
type rule struct {
	name string
	pkg  string // of the test
	test string // the test that must fail without the rule
	file string
	old  []string // lines that the file has exactly once, whatever their indentation
	new  []string // their replacement without the rule; it compiles
}

//go:embed rules.txt
var rulesText string

// form matches a rule in the form that the table's own head describes.
var form = regexp.MustCompile(`(?m)^rule (.+)\ntest (\S+) (\S+)\nfile (\S+)\n((?:[-+ \t].*\n)+)`)

// parseRules reads a table of rules.
func parseRules(text string) (rules []rule, err error) {
	for _, m := range form.FindAllStringSubmatch(text, -1) {
		r := rule{name: m[1], pkg: m[2], test: m[3], file: m[4]}
		for line := range strings.Lines(m[5]) {
			if line = strings.TrimSuffix(line, "\n"); line[0] != '+' {
				r.old = append(r.old, line[1:])
			}
			if line[0] != '-' {
				r.new = append(r.new, line[1:])
			}
		}
		rules = append(rules, r)
	}
	if n := strings.Count(text, "\nrule "); n != len(rules) {
		return nil, fmt.Errorf("rules.txt: %d of %d rules have the form that its head describes", len(rules), n)
	}
	return rules, nil
}

// without returns the source of the rule's file less the rule.
func (r rule) without(source string) (string, error) {
	lines := strings.Split(source, "\n")
	same := func(a, b string) bool { return strings.TrimSpace(a) == strings.TrimSpace(b) }
	at, found := 0, 0
	for i := range len(lines) - len(r.old) + 1 {
		if slices.EqualFunc(lines[i:i+len(r.old)], r.old, same) {
			at, found = i, found+1
		}
	}
	if found != 1 || len(r.old) == 0 {
		return "", fmt.Errorf("rules.txt: %q: %s has its lines %d times, want once:\n%s", r.name, r.file, found,
			strings.Join(r.old, "\n"))
	}
	return strings.Join(slices.Concat(lines[:at], r.new, lines[at+len(r.old):]), "\n"), nil
}

// checkRules takes the rules out one at a time. A rule whose test passes without it is not needed, or not tested.
func checkRules(ctx context.Context, b bench, o options) error {
	rules, err := parseRules(rulesText)
	if err != nil {
		return err
	}
	rules = slices.DeleteFunc(rules, func(r rule) bool { return !strings.Contains(r.name+" "+r.test+" "+r.file, o.only) })
	began := time.Now()
	results, err := o.each(ctx, len(rules), func(ctx context.Context, i int) (result, error) {
		end, err := b.remove(ctx, rules[i], i)
		if err != nil && ctx.Err() == nil {
			end.note, err = "NOT TRIED: "+err.Error(), nil // the other rules are tried all the same
		}
		return end, err
	})
	if err != nil {
		return err
	}
	results = slices.DeleteFunc(results, func(r result) bool { return r.caught != "" })
	fmt.Printf("%d rules taken out in %s: %d noticed, %d not noticed or not tried\n",
		len(rules), time.Since(began).Round(time.Second), len(rules)-len(results), len(results))
	for _, r := range results {
		fmt.Printf("%s: %s\n\tgo run ./tools/mutate rules -only %s\n", r.name, cmp.Or(r.note, survives), quoted(r.name))
	}
	if len(rules) == 0 || len(results) > 0 {
		return errors.New("not every change was noticed")
	}
	return nil
}

// maximum is the most that a test may take.
const maximum = 2 * time.Minute

// remove compiles the rule's test without the rule, and runs it.
func (b bench) remove(ctx context.Context, r rule, n int) (result, error) {
	end, dir := result{name: r.name}, filepath.Join(b.dir, fmt.Sprint(n))
	source, err := b.source(r.file)
	if err != nil {
		return end, err
	}
	changed, err := r.without(source)
	if err != nil {
		return end, err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return end, err
	}
	overlay, err := b.overlay(dir, map[string]string{r.file: changed})
	if err != nil {
		return end, err
	}
	t := trial{pkg: r.pkg, binary: filepath.Join(dir, "tests"), tests: []string{r.test}, timeout: maximum}
	if err = b.compile(ctx, r.pkg, overlay, t.binary); err == nil {
		end.caught, end.output, err = b.run(ctx, t)
	}
	return end, err
}

// A bench compiles and runs tests of a changed tree.
type bench struct {
	root string // of the repository
	dir  string // for everything that is written
}

// source returns the text of a file of the repository.
func (b bench) source(file string) (string, error) {
	text, err := os.ReadFile(filepath.Join(b.root, file))
	return string(text), err
}

// overlay writes changed files, by their names in the repository, and returns the file that has the compiler take them.
func (b bench) overlay(dir string, changed map[string]string) (string, error) {
	replace := map[string]string{}
	for file, text := range changed {
		path := filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(b.root, file)] = path
	}
	plan, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, plan, 0o600)
}

// compile builds the tests of a package into the file binary. Without debug information and without the tests against
// an embedded EVM (the tag noevm) it links in a fifth of the time.
func (b bench) compile(ctx context.Context, pkg, overlay, binary string) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-p=1", "-vet=off", "-tags=noevm", "-ldflags=-s -w",
		"-overlay="+overlay, "-o="+binary, "./"+pkg)
	cmd.Dir = b.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go test -c: %w\n%s", err, bytes.TrimSpace(out))
	}
	return nil
}

// memory is the most that a test may take, in KiB: a change may make a loop endless that appends.
const memory = 8 << 20

// A trial is one run of a test binary.
type trial struct {
	pkg, binary string
	tests       []string
	env         []string
	timeout     time.Duration
}

// arguments are those of a package's tests.
var arguments = map[string][]string{"internal/proof/simulation": {"-seeds=1000", "-singles"}}

var (
	hung    = regexp.MustCompile(`panic: test timed out after`)
	failure = regexp.MustCompile(`(?m)^\s*--- FAIL: (\w+)`)
	crashed = regexp.MustCompile(`(?m)^(panic|fatal error): .*`)
)

// run returns the test that failed, or how the process ended without one; it is empty when all passed.
func (b bench) run(ctx context.Context, t trial) (failed, output string, err error) {
	args := append([]string{"-c", fmt.Sprintf(`ulimit -v %d; exec "$0" "$@"`, memory), t.binary, "-test.failfast",
		"-test.timeout=" + t.timeout.String(), "-test.run=^(" + strings.Join(t.tests, "|") + ")$"}, arguments[t.pkg]...)
	cmd := exec.CommandContext(ctx, "sh", args...)
	cmd.Dir = filepath.Join(b.root, t.pkg)
	cmd.Env = append(append(os.Environ(), "GOMAXPROCS=1", "RAPID_NOFAILFILE=1"), t.env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	output = out.String()
	if err == nil || ctx.Err() != nil {
		return "", output, context.Cause(ctx)
	}
	for _, how := range []*regexp.Regexp{hung, failure, crashed} {
		if m := how.FindStringSubmatch(output); m != nil {
			return m[len(m)-1], output, nil
		}
	}
	return "", output, fmt.Errorf("the tests did not run: %w\n%s", err, output)
}

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
	note   string // how it ended without a failed test; empty: survives
	output string // of the test that failed
}

const survives = "SURVIVES"

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
				end = cmp.Or(r.note, survives)
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
