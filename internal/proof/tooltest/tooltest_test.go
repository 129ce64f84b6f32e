package tooltest_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/proof/tooltest"
)

// TestAMissingToolFailsUnderCI runs this binary once more, with and without CI.
func TestAMissingToolFailsUnderCI(t *testing.T) {
	if os.Getenv("TOOLTEST_CHILD") != "" {
		t.Run("file", func(t *testing.T) { tooltest.Path(t, "a moon", ".cache/moon") })
		t.Run("program", func(t *testing.T) { tooltest.Program(t, "a moon", "moon") })
		return
	}
	for _, ci := range []string{"", "false", "true", "1"} {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAMissingToolFailsUnderCI$", "-test.v")
		child.Env = append(os.Environ(), "TOOLTEST_CHILD=1", "CI="+ci)
		out, err := child.CombinedOutput()
		end := "--- SKIP"
		if ci == "true" || ci == "1" {
			end = "--- FAIL: TestAMissingToolFailsUnderCI/"
		}
		if (err != nil) != strings.Contains(end, "FAIL") || strings.Count(string(out), end) != 2 ||
			strings.Count(string(out), ": needs a moon: run 'make tools'") != 2 {
			t.Errorf("CI=%s: %v, want two %s:\n%s", ci, err, end, out)
		}
	}
}

func TestWhatIsThereIsFound(t *testing.T) {
	if path := tooltest.Path(t, "the sources", "internal/proof/tooltest/tooltest.go"); !strings.HasSuffix(path, "/tooltest.go") {
		t.Errorf("found %s", path)
	}
	if path := tooltest.Program(t, "Go", "go"); !strings.HasSuffix(path, "/go") {
		t.Errorf("found %s", path)
	}
}
