package tooltest_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/proof/tooltest"
)

// TestMain: the tests below ask for things that this machine has, also in `make test`.
func TestMain(m *testing.M) {
	if os.Getenv("TOOLTEST_CHILD") == "" {
		_ = os.Unsetenv("REMIT_TEST_TOOLS")
	}
	os.Exit(m.Run())
}

// TestAMissingToolFailsUnderCI runs this binary once more, with and without CI, and as `make test` does,
// which leaves out tests that ask for something, under CI too.
func TestAMissingToolFailsUnderCI(t *testing.T) {
	if os.Getenv("TOOLTEST_CHILD") != "" {
		t.Run("file", func(t *testing.T) { tooltest.Path(t, "a moon", ".cache/moon") })
		t.Run("program", func(t *testing.T) { tooltest.Program(t, "a moon", "moon") })
		t.Run("there", func(t *testing.T) { tooltest.Program(t, "Go", "go") })
		return
	}
	for env, want := range map[string]string{
		"CI=":                           "SKIP SKIP PASS needs a moon: run 'make tools'",
		"CI=false":                      "SKIP SKIP PASS needs a moon: run 'make tools'",
		"CI=true":                       "FAIL FAIL PASS needs a moon: run 'make tools'",
		"CI=1":                          "FAIL FAIL PASS needs a moon: run 'make tools'",
		"CI=true REMIT_TEST_TOOLS=none": "SKIP SKIP SKIP needs a moon: run make test-all",
	} {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAMissingToolFailsUnderCI$", "-test.v")
		child.Env = append(append(os.Environ(), "TOOLTEST_CHILD=1"), strings.Fields(env)...)
		out, err := child.CombinedOutput()
		ends := strings.SplitN(want, " ", 4)
		for i, name := range []string{"file", "program", "there"} {
			if !strings.Contains(string(out), "--- "+ends[i]+": TestAMissingToolFailsUnderCI/"+name) {
				t.Errorf("%s: %s should %s", env, name, ends[i])
			}
		}
		if (err != nil) != strings.Contains(want, "FAIL") || strings.Count(string(out), ends[3]) != 2 {
			t.Errorf("%s: %v, want twice %q:\n%s", env, err, ends[3], out)
		}
	}
}
