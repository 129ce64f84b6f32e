// Package tooltest finds test tools beside Go. It installs nothing: tools/install does. In `make
// test`, where REMIT_TEST_TOOLS=none, every test that asks for something is left out, also if the
// machine has it: `make test-all` runs these.
package tooltest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/proof/must"
)

// Path returns the absolute path of a file that tools/install puts there, below the root
// of the repository. Without it the test ends: see Missing.
func Path(t testing.TB, what, name string) string {
	t.Helper()
	leaveOut(t, what)
	path := filepath.Join(root(t), name)
	if _, err := os.Stat(path); err != nil {
		Missing(t, what, advice)
	}
	return path
}

// Program returns the path of a program of the machine, or, if the machine's is missing or too old,
// of the program that tools/install installs. Without either the test ends.
func Program(t testing.TB, what, name string) string {
	t.Helper()
	leaveOut(t, what)
	path, err := exec.LookPath(filepath.Join(root(t), ".cache/path", name))
	if err == nil {
		return path
	}
	if path, err = exec.LookPath(name); err != nil {
		Missing(t, what, advice)
	}
	return path
}

// Shell returns the path of the shell that runs the lines of pages and scripts. Without it, or
// a program of each machine that they use, the test ends.
func Shell(t testing.TB) string {
	t.Helper()
	leaveOut(t, "a shell with its programs")
	for _, name := range []string{"grep", "sed", "awk", "bash"} {
		path, err := exec.LookPath(name)
		if err != nil {
			Missing(t, "a shell with its programs", "install them (Debian: bash grep sed mawk)")
		}
		if name == "bash" {
			return path
		}
	}
	return ""
}

const advice = "run 'make tools', with Python 3.10 or later and venv (Debian: python3-venv)"

// leaveOut ends a test of `make test`.
func leaveOut(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("REMIT_TEST_TOOLS") == "none" {
		t.Skipf("needs %s: run make test-all", what)
	}
}

// Missing ends a test on a machine without the tool, and prints the remedy. The test is
// skipped, and tools/verdict counts it; with CI=true it fails.
func Missing(t testing.TB, what, remedy string) {
	t.Helper()
	leaveOut(t, what)
	if ci := os.Getenv("CI"); ci != "" && ci != "false" {
		t.Fatalf("needs %s: %s", what, remedy)
	}
	t.Skipf("needs %s: %s", what, remedy)
}

// root returns the root of the repository, above every test's directory. bench and e2e have a go.mod of their own.
func root(t testing.TB) string {
	t.Helper()
	dir := must.Get(os.Getwd())(t)
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "template.yaml")); err == nil {
			return at
		}
		if strings.HasSuffix(at, string(filepath.Separator)) {
			t.Fatalf("no template.yaml above %s", dir)
		}
	}
}
