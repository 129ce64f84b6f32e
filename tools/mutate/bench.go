package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

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

// overlay writes changed files, by their names in the repository, and returns
// the file that tells the compiler to take them.
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
		return fmt.Errorf("it does not compile: %w\n%s", err, out)
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
var arguments = map[string][]string{
	"internal/proof/simulation": {"-seeds=1000", "-singles"},
}

var (
	hung    = regexp.MustCompile(`panic: test timed out after`)
	failure = regexp.MustCompile(`(?m)^\s*--- FAIL: (\w+)`)
	crashed = regexp.MustCompile(`(?m)^(panic|fatal error): .*`)
)

// run returns the test that failed, or how the process ended without one; it is empty when all passed.
func (b bench) run(ctx context.Context, t trial) (failed, output string, err error) {
	args := append([]string{"-c", fmt.Sprintf(`ulimit -v %d; exec "$0" "$@"`, memory), t.binary,
		"-test.failfast", "-test.timeout=" + t.timeout.String(), "-test.run=^(" + strings.Join(t.tests, "|") + ")$"}, arguments[t.pkg]...)
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
