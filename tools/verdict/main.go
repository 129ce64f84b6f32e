// Command verdict runs `go test -json` with its arguments, prints each package as it ends, and counts the tests.
// Packages follow "--". Without -all, tooltest leaves out every test that needs more than Go. With -all, only packages
// with such tests run, and with -race also most that share memory (list). All yield to the longest.
//
// A skipped test fails the run, since it proves nothing, and so does a run without tests. Two skips are allowed:
// "operating system: " and a feature that this one lacks, and tooltest's, "needs TOOL: REMEDY".
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

func main() {
	log.SetFlags(0)
	if err := run(os.Args[1:]); err != nil {
		log.Fatal("verdict: ", err)
	}
}

var errFailed = errors.New("not every test passed")

func run(args []string) error {
	all := len(args) > 0 && args[0] == "-all"
	if all {
		args = args[1:]
	}
	split := slices.Index(args, "--")
	if split < 0 {
		return errors.New("name the packages after --")
	}
	flags, patterns := args[:split], args[split+1:]
	packages, shared, err := list(patterns, all)
	if err != nil {
		return fmt.Errorf("listing the packages: %w", err)
	}
	if !all || !slices.Contains(flags, "-race") {
		shared = nil
	}
	packages = slices.DeleteFunc(packages, func(p string) bool { return slices.Contains(shared, p) })
	rest := slices.DeleteFunc(slices.Clone(packages), drives)
	if len(packages)+len(shared) == 0 {
		return fmt.Errorf("no package has such tests in %v", patterns)
	}
	fmt.Printf("Compiling the tests of %d packages, and running each when it is compiled.\n", len(packages)+len(shared))
	t := newTally(os.Stdout)
	ended := make(chan struct{})
	defer close(ended)
	go t.report(len(packages)+len(shared), ended)
	if !all {
		err = t.test(nil, []string{"REMIT_TEST_TOOLS=none"}, flags, packages)
		return cmp.Or(t.end(all, ""), err) // err: a failure that no event shows
	}
	skip := func(tests []string) []string { return []string{"-skip=^(" + strings.Join(tests, "|") + ")$"} }
	plain := slices.DeleteFunc(slices.Clone(flags), func(f string) bool { return f == "-race" })
	plain = append(skip(once), plain...)
	beside := make(chan error, 1)
	go func() {
		err := t.test([]string{"nice", "-n", "3"}, []string{"CGO_ENABLED=1"}, append(skip(once), flags...), shared)
		beside <- cmp.Or(err, t.test([]string{"nice", "-n", "3"}, nil, plain, rest))
	}()
	err = cmp.Or(t.test(nil, nil, plain, slices.DeleteFunc(packages, func(p string) bool { return !drives(p) })), <-beside)
	return cmp.Or(t.end(all, os.Getenv("NO_RACE")), err)
}

// once are long tests of `make test` that -all does not repeat: they drive other processes, compute alone, or repeat
// at length the work of shorter tests of their packages.
var once = []string{"TestABusThatIsDown", "TestCostOfSettling", "TestEveryFault", "TestGuides", "TestMoveUnknown",
	"TestPagesFitIntoAnAnswer", "TestPayBatches", "TestPayBatchesAfterAFailure", "TestPayFileSavedAgain", "TestPayKilledAtRandom",
	"TestPaymentsGoFirst", "TestReadsTransfersFromAnyNode", "TestReplay", "TestSeeds", "TestSignsAsGoEthereumDoes"}

// unraced has tools and wrappers of AWS, which share little. The race detector slows a database's tests tenfold.
var unraced = []string{"internal/aws/", "internal/deployment/", "tools/"}

// drives reports whether a package's tests do no more than drive other processes. They take longest.
func drives(pkg string) bool {
	return slices.Contains([]string{"e2e", "e2e/browser", "sdk"}, short(pkg))
}

// test runs the tests of packages behind prefix, with more variables, and counts them.
func (t *tally) test(prefix, env, flags, packages []string) error {
	if len(packages) == 0 {
		return nil
	}
	words := slices.Concat(prefix, []string{"go", "test", "-json"}, flags, packages)
	tests := exec.Command(words[0], words[1:]...)
	tests.Stderr = os.Stderr
	tests.Env = append(os.Environ(), env...)
	events, err := tests.StdoutPipe()
	if err == nil {
		err = tests.Start()
	}
	if err != nil {
		return fmt.Errorf("running go test: %w", err)
	}
	return cmp.Or(t.read(events), tests.Wait())
}

// list returns the packages that have tests, or with some only those whose tests may ask tooltest. shared are all with
// tests whose own code, not the tests, imports sync, sync/atomic or errgroup.
func list(patterns []string, some bool) (packages, shared []string, err error) {
	const format = "{{.ImportPath}}\t{{.ForTest}}\t{{range .Imports}}={{.}} {{end}}{{range .Deps}}{{.}} {{end}}"
	cmd := exec.Command("go", append([]string{"list", "-test", "-f", format}, patterns...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	asks, shares := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(string(out)) {
		fields := strings.SplitN(line, "\t", 3)
		name := cmp.Or(fields[1], fields[0])
		if strings.HasSuffix(fields[0], ".test") {
			packages = append(packages, strings.TrimSuffix(fields[0], ".test"))
			continue
		}
		asks[name] = asks[name] || strings.Contains(fields[2], "/proof/tooltest ")
		for _, mark := range []string{"=sync ", "=sync/atomic ", "=golang.org/x/sync/errgroup "} {
			shares[name] = shares[name] || fields[1] == "" && strings.Contains(fields[2], mark)
		}
	}
	shared = slices.DeleteFunc(slices.Clone(packages), func(p string) bool {
		return !shares[p] || slices.ContainsFunc(unraced, func(dir string) bool { return strings.HasPrefix(short(p), dir) })
	})
	return slices.DeleteFunc(packages, func(p string) bool { return some && !asks[p] }), shared, err
}

// An event is a line of `go test -json`. The message of a skip is output of its test.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Key, Value                                string  // of an attribute, which is always printed (testing.T.Attr)
	Elapsed                                   float64 // seconds
	FailedBuild                               string  // the package that did not compile, of one that failed for it
}

// A tally is the result of the tests so far.
type tally struct {
	io.Writer
	mu             sync.Mutex // of all that follows, and of the writer
	passed, failed int
	output         map[string]string  // of tests and packages that run
	tests, broken  map[string]int     // of each package: passed, failed
	seconds        map[string]float64 // of each package, and of each test that is none of another
	left           map[string]int     // tests left out, by their need
	running        []string           // packages whose tests have started
	ended          int                // packages
	uncompiled     []string           // packages of which nothing ran
}

func newTally(w io.Writer) *tally {
	return &tally{Writer: w, output: map[string]string{}, tests: map[string]int{}, broken: map[string]int{},
		seconds: map[string]float64{}, left: map[string]int{}}
}

// read counts events, and prints the packages as they end.
func (t *tally) read(events io.Reader) error {
	for lines := bufio.NewReader(events); ; {
		line, err := lines.ReadBytes('\n')
		if len(line) == 0 && err == io.EOF {
			return nil
		} else if err != nil && err != io.EOF {
			return fmt.Errorf("reading the events of the tests: %w", err)
		}
		var e event
		t.mu.Lock()
		if json.Unmarshal(line, &e) == nil {
			t.add(e)
		} else { // of no test
			fmt.Fprintf(t, "%s", line)
		}
		t.mu.Unlock()
	}
}

// report prints twice a minute how far the tests of so many packages are.
func (t *tally) report(packages int, ended <-chan struct{}) {
	for seconds := 30; ; seconds += 30 {
		select {
		case <-ended:
			return
		case <-time.After(30 * time.Second):
		}
		t.mu.Lock()
		fmt.Fprintf(t, "after %d s: %d of %d packages tested; running: %s; the others compile or wait\n",
			seconds, t.ended, packages, cmp.Or(strings.Join(t.running, ", "), "none yet"))
		t.mu.Unlock()
	}
}

// add counts an event.
func (t *tally) add(e event) {
	id := e.Package + " " + e.Test
	said := t.output[id]
	_, need, _ := strings.Cut(said, ": needs ")
	need, _, _ = strings.Cut(need, "\n")
	switch e.Action {
	case "build-output":
		fmt.Fprint(t, e.Output)
		return
	case "output":
		t.output[id] += e.Output
		return
	case "attr":
		fmt.Fprintf(t, "      %s: %s %s\n", e.Test, e.Value, e.Key)
		return
	case "start":
		t.running = append(t.running, short(e.Package))
		return
	case "pass", "fail", "skip":
		delete(t.output, id)
	default:
		return
	}
	if e.Test != "" && !strings.Contains(e.Test, "/") {
		t.seconds[short(e.Package)+" "+e.Test] = e.Elapsed
	}
	switch {
	case e.Test == "":
		t.endPackage(e, said)
	case e.Action == "pass":
		t.passed++
		t.tests[e.Package]++
	case e.Action == "fail":
		t.failed++
		t.broken[e.Package]++
		fmt.Fprintf(t, "FAIL  %s\n%s", id, said)
	case strings.Contains(said, ": operating system: "):
	case strings.Contains(need, ": "):
		t.left[need]++
	default:
		t.failed++
		t.broken[e.Package]++
		fmt.Fprintf(t, "skipped, which counts as failed: %s\n%s", id, said)
	}
}

// endPackage prints a package that ended. One that failed without a failed test counts as one.
func (t *tally) endPackage(e event, said string) {
	t.ended++
	t.running = slices.DeleteFunc(t.running, func(name string) bool { return name == short(e.Package) })
	if e.Action == "skip" { // it has no tests
		return
	}
	mark := "ok  "
	if e.Action == "fail" {
		if mark = "FAIL"; t.broken[e.Package] == 0 {
			t.failed++
		}
		fmt.Fprint(t, said)
	}
	if e.FailedBuild != "" {
		t.uncompiled = append(t.uncompiled, short(e.Package))
		fmt.Fprintf(t, "%s  %-40s nothing ran: it does not compile\n", mark, short(e.Package))
		return
	}
	t.seconds[short(e.Package)] = e.Elapsed
	fmt.Fprintf(t, "%s  %-40s %5d passed %7.1f s\n", mark, short(e.Package), t.tests[e.Package], e.Elapsed)
}

// short returns the directory of a package of ours.
func short(pkg string) string { return strings.TrimPrefix(pkg, "github.com/remit-payouts/remit/") }

// end prints the slowest packages and tests, the tests that were left out, and the last line. It returns errFailed
// unless all is well. noRace names the missing requirement of the race detector.
func (t *tally) end(all bool, noRace string) error {
	slowest := slices.SortedFunc(maps.Keys(t.seconds), func(a, b string) int {
		return cmp.Or(cmp.Compare(t.seconds[b], t.seconds[a]), cmp.Compare(a, b))
	})
	fmt.Fprintln(t, "The slowest packages and tests:")
	for _, name := range slowest[:min(20, len(slowest))] {
		fmt.Fprintf(t, "  %-60s %7.1f s\n", name, t.seconds[name])
	}
	count := 0
	for _, need := range slices.Sorted(maps.Keys(t.left)) {
		if count += t.left[need]; all {
			fmt.Fprintf(t, "left out: %d tests need %s\n", t.left[need], need)
		}
	}
	switch {
	case !all && count > 0:
		fmt.Fprintf(t, "Left out: %d tests. make test-all runs them, and packages that share memory with the race "+
			"detector. It needs Python 3.10 with venv, a C compiler and Maven (CONTRIBUTING.md).\n", count)
	case noRace != "":
		fmt.Fprintln(t, "left out: the race detector, which needs", noRace)
	}
	if len(t.uncompiled) > 0 {
		fmt.Fprintf(t, "Nothing ran of %s: see the compiler's errors above.\n", strings.Join(t.uncompiled, ", "))
	}
	fmt.Fprintf(t, "%d passed, %d failed\n", t.passed, t.failed)
	if t.failed > 0 || t.passed == 0 {
		return errFailed
	}
	return nil
}
