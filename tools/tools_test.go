// Package tools_test runs tools/vuln in a directory of its own, with a govulncheck that only pretends.
package tools_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tooltest"
)

// TestVulnSaysWhenItCheckedNothing holds the exit statuses of tools/vuln, which .ci/run tells apart.
func TestVulnSaysWhenItCheckedNothing(t *testing.T) {
	tooltest.Shell(t)
	const unreachable = "echo 'govulncheck: fetching vulnerabilities: dial tcp: no such host'; exit 1"
	for _, row := range []struct {
		name, govulncheck string
		env               []string
		status            int
		want              string
	}{
		{name: "nothing found", govulncheck: "echo 'No vulnerabilities found.'", want: "No vulnerabilities found."},
		{name: "something found", govulncheck: "echo 'Vulnerability #1'; exit 3", status: 3, want: "Vulnerability #1"},
		{name: "the database is out of reach", govulncheck: unreachable, status: 75, want: "NOT CHECKED for known vulnerabilities"},
		{name: "the mirror is out of reach", govulncheck: unreachable, env: []string{"GOVULNDB=https://mirror.example"},
			status: 1, want: "no such host"},
		{name: "the code does not compile", govulncheck: "echo 'govulncheck: loading packages'; exit 1", status: 1, want: "loading packages"},
	} {
		t.Run(row.name, func(t *testing.T) {
			root := t.TempDir()
			script := filepath.Join(root, "tools", "vuln")
			write(t, script, string(must.Get(os.ReadFile("vuln"))(t)))
			write(t, filepath.Join(root, ".cache", "bin", "govulncheck"), "#!/bin/sh\n"+row.govulncheck)
			cmd := exec.CommandContext(t.Context(), script)
			cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, row.env...)
			out, _ := cmd.CombinedOutput()
			if status := cmd.ProcessState.ExitCode(); status != row.status || !strings.Contains(string(out), row.want) {
				t.Errorf("exit status %d, want %d, printed:\n%s", status, row.status, out)
			}
		})
	}
}

// write writes a file that can be executed.
func write(t *testing.T, path, text string) {
	t.Helper()
	must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.OK(t, os.WriteFile(path, []byte(text), 0o755))
}
