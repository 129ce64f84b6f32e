package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// allowedSkip begins the message of a skip that is no failure.
const allowedSkip = "operating system: "

// An event is a line of `go test -json`, as `go doc test2json` describes it.
// Output of the compiler names ImportPath, everything else Package.
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
	Elapsed    float64 // seconds
}

type testName struct{ pkg, test string }

// A summary counts tests, subtests included, and keeps what a test printed
// until it is known whether anybody needs to see it.
type summary struct {
	w       io.Writer
	printed map[testName]*strings.Builder
	passes  map[string]int // by package
	bad     map[string]int // failed, by package
	passed  int
	failed  int
	skipped []testName // those that are not allowed
	excused []testName
}

func newSummary(w io.Writer) *summary {
	return &summary{w: w, printed: map[testName]*strings.Builder{}, passes: map[string]int{}, bad: map[string]int{}}
}

// read takes in the whole stream. A line that is not JSON, such as the go
// command's own complaint, is printed as it is.
func (s *summary) read(r io.Reader) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil {
				fmt.Fprint(s.w, line)
			} else {
				s.add(e)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (s *summary) add(e event) {
	name := testName{e.Package, e.Test}
	switch {
	case e.Action == "build-output":
		fmt.Fprint(s.w, e.Output)
	case e.Action == "output":
		if s.printed[name] == nil {
			s.printed[name] = new(strings.Builder)
		}
		s.printed[name].WriteString(e.Output)
	case e.Test == "":
		s.endPackage(e)
	case e.Action == "pass":
		s.passed++
		s.passes[e.Package]++
		delete(s.printed, name)
	case e.Action == "fail":
		s.failed++
		s.bad[e.Package]++
		s.show(name)
	case e.Action == "skip":
		s.endSkip(name)
	}
}

func (s *summary) endPackage(e event) {
	switch e.Action {
	case "pass":
		fmt.Fprintf(s.w, "ok    %-44s %7.1f s %6d tests\n", e.Package, e.Elapsed, s.passes[e.Package])
	case "fail":
		// What no test is blamed for: a panic, a time-out, a build error.
		if s.bad[e.Package] == 0 {
			s.failed++
		}
		s.show(testName{e.Package, ""})
		for name := range s.printed {
			if name.pkg == e.Package {
				s.show(name)
			}
		}
		fmt.Fprintf(s.w, "FAIL  %-44s %7.1f s\n", e.Package, e.Elapsed)
	}
}

func (s *summary) endSkip(name testName) {
	if out := s.printed[name]; out != nil && strings.Contains(out.String(), ": "+allowedSkip) {
		s.excused = append(s.excused, name)
		return
	}
	s.skipped = append(s.skipped, name)
	s.show(name)
}

// show prints what a test printed, once.
func (s *summary) show(name testName) {
	if out := s.printed[name]; out != nil {
		fmt.Fprint(s.w, out.String())
		delete(s.printed, name)
	}
}

// finish prints the closing lines and says whether all is well. No test at all
// is not well.
func (s *summary) finish() bool {
	for _, n := range s.excused {
		fmt.Fprintf(s.w, "not run, this operating system cannot: %s %s\n", n.pkg, n.test)
	}
	for _, n := range s.skipped {
		fmt.Fprintf(s.w, "skipped, which counts as failed: %s %s\n", n.pkg, n.test)
	}
	failed := s.failed + len(s.skipped)
	fmt.Fprintf(s.w, "%d passed, %d failed\n", s.passed, failed)
	return failed == 0 && s.passed > 0
}
