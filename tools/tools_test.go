// Package tools_test runs the scripts that install tools, in a directory of their own with commands that only pretend.
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
		{name: "the mirror is out of reach", govulncheck: unreachable, env: []string{"GOVULNDB=https://mirror.example"}, status: 1,
			want: "no such host"},
		{name: "the code does not compile", govulncheck: "echo 'govulncheck: loading packages'; exit 1", status: 1, want: "loading packages"},
	} {
		t.Run(row.name, func(t *testing.T) {
			out, err := run(t, "vuln", map[string]string{".cache/bin/govulncheck": row.govulncheck}, row.env)
			status := 0
			if err != nil {
				status = err.(*exec.ExitError).ExitCode()
			}
			if status != row.status || !strings.Contains(out, row.want) {
				t.Errorf("exit status %d, want %d, printed:\n%s", status, row.status, out)
			}
		})
	}
}

// run runs a copy of a script of this directory, in a directory of its own and with no commands in PATH but those
// given and the few of every machine. A command with a slash is put there below the root of that directory. run
// returns the output of both kinds.
func run(t *testing.T, script string, commands map[string]string, env []string, args ...string) (string, error) {
	t.Helper()
	tooltest.Shell(t)
	root := t.TempDir()
	path := filepath.Join(root, "tools", script)
	write(t, path, read(t, script))
	for _, name := range []string{"bash", "dirname", "sort", "grep"} {
		found := must.Get(exec.LookPath(name))(t)
		write(t, filepath.Join(root, "bin", name), "#!/bin/sh\nexec "+found+` "$@"`)
	}
	for name, script := range commands {
		if !strings.Contains(name, "/") {
			name = filepath.Join("bin", name)
		}
		write(t, filepath.Join(root, name), "#!/bin/sh\n"+script)
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = append([]string{"PATH=" + filepath.Join(root, "bin")}, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func read(t *testing.T, path string) string {
	t.Helper()
	text := must.Get(os.ReadFile(path))(t)
	return string(text)
}

// write writes a file that can be executed.
func write(t *testing.T, path, text string) {
	t.Helper()
	must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must.OK(t, os.WriteFile(path, []byte(text), 0o755))
}
