// Command verdict ends `make test`: gotestsum runs it after its summary, and fails when it does. A
// skipped test fails the run, since a test that did not run proves nothing, and so does a run
// without tests. Two skips are allowed. The message of one begins with "operating system: " and
// names a feature that this one lacks. The other begins with "needs " and names a tool that the
// machine lacks; such tests are counted and listed, and fail where CI=true, as a missing race
// detector does (NO_RACE names the requirement).
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

func main() {
	events, err := os.Open(os.Getenv("GOTESTSUM_JSONFILE"))
	if err == nil {
		err = judge(os.Stdout, events, os.Getenv)
	}
	if err != nil {
		log.SetFlags(0)
		log.Fatal("verdict: ", err)
	}
}

var errFailed = errors.New("not every test passed")

// An event is a line of `go test -json`. The message of a skip is output of its test.
type event struct{ Action, Package, Test, Output string }

// judge prints the tests' outcome, and returns errFailed unless all is well. TESTS_FAILED counts
// tests, and packages that failed without one.
func judge(w io.Writer, events io.Reader, getenv func(string) string) error {
	failed, err := strconv.Atoi(getenv("TESTS_FAILED"))
	if err != nil {
		return fmt.Errorf("reading TESTS_FAILED: %w", err)
	}
	passed, excused, needs, left := 0, map[string]bool{}, map[string]string{}, map[string]int{}
	for d := json.NewDecoder(events); d.More(); {
		var e event
		if err := d.Decode(&e); err != nil {
			return fmt.Errorf("reading the events of the tests: %w", err)
		}
		test := e.Package + " " + e.Test
		_, need, _ := strings.Cut(e.Output, ": needs ")
		switch {
		case e.Test == "":
		case e.Action == "pass":
			passed++
		case strings.Contains(e.Output, ": operating system: "):
			excused[test] = true
		case strings.Contains(need, ": "):
			needs[test] = strings.TrimSpace(need)
		case e.Action != "skip" || excused[test]:
		case needs[test] != "":
			left[needs[test]]++
		default:
			failed++
			fmt.Fprintln(w, "skipped, which counts as failed:", test)
		}
	}
	failed += list(w, left, passed, getenv)
	fmt.Fprintf(w, "%d passed, %d failed\n", passed, failed)
	if failed > 0 || passed == 0 {
		return errFailed
	}
	return nil
}

// list prints how many tests were left out, by their needs, and returns how many count as failed.
func list(w io.Writer, left map[string]int, passed int, getenv func(string) string) (failed int) {
	race, ci := getenv("NO_RACE"), getenv("CI")
	if len(left) == 0 && race == "" {
		return 0
	}
	end := ":"
	if ci != "" && ci != "false" {
		end = ", which counts as failed where CI=" + ci + ":"
	}
	fmt.Fprintln(w, "Left out, since this machine lacks what they need"+end)
	for _, need := range slices.Sorted(maps.Keys(left)) {
		fmt.Fprintf(w, "  %d tests: %s\n", left[need], need)
		failed += left[need]
	}
	if race != "" {
		fmt.Fprintf(w, "  the race detector, in all %d tests: %s\n", passed, race)
		failed++
	}
	if end == ":" {
		return 0
	}
	return failed
}
