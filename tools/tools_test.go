// Package tools_test runs the scripts that install tools, in a directory of their own with
// commands that only pretend.
package tools_test

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tooltest"
)

// everyTool lists the names that tools/install takes.
const everyTool = "dynamodb aws webhooks browser race golangci-lint govulncheck cfnlint checkov schemathesis sdk nodes"

// machine is a machine on which `tools/install check` finds everything: each
// command with the shell script that pretends to be it.
var machine = map[string]string{
	"java": `echo 'openjdk version "17.0.9"' >&2`, "mvn": "", "python3": "echo python3", "npm": "", "node": "",
	"cc": "", "go": "echo cc", "uname": "echo Linux x86_64",
}

// missing stands for the script of a command that is not there.
const missing = "-"

// TestInstallNamesWhatTheMachineLacks takes one thing at a time from the machine.
func TestInstallNamesWhatTheMachineLacks(t *testing.T) {
	tooltest.Shell(t)
	unsaid := map[string]bool{}
	for _, m := range regexp.MustCompile(`\|\|\s+echo "([^"]+)"`).FindAllStringSubmatch(read(t, "install"), -1) {
		unsaid[m[1]] = true
	}
	for _, row := range []struct {
		name string
		with map[string]string
		want []string // beginnings of the lines
	}{
		{name: "everything is there"},
		{name: "neither Java nor Node.js", with: map[string]string{"java": missing, "mvn": missing, "node": missing, "npm": missing}},
		{name: "no Python", with: map[string]string{"python3": missing}, want: []string{"Python 3.10"}},
		{name: "Python that is too old or has no venv", with: map[string]string{"python3": "exit 1"}, want: []string{"Python 3.10"}},
		{name: "Python that is too old for the SDK", with: map[string]string{"python3": `case $2 in *"(3, 11)"*) exit 1 ;; esac; echo python3`},
			want: []string{"Python 3.11"}},
		{name: "no C compiler", with: map[string]string{"cc": missing}, want: []string{"a C compiler"}},
		{name: "a Mac without Chromium", with: map[string]string{"uname": "echo Darwin arm64"}, want: []string{"Chromium", "Linux on"}},
		{name: "a Mac with a browser", with: map[string]string{"uname": "echo Darwin arm64", "google-chrome": ""}, want: []string{"Linux on"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			commands := maps.Clone(machine)
			for name, script := range row.with {
				commands[name] = script
				if script == missing {
					delete(commands, name)
				}
			}
			out, err := run(t, "install", commands, nil, append([]string{"check"}, strings.Fields(everyTool)...)...)
			if failed := err != nil; failed != (len(row.want) > 0) {
				t.Errorf("exit: %v\n%s", err, out)
			}
			var got []string
			for line := range strings.Lines(out) {
				if said, ok := strings.CutPrefix(line, "  "); ok {
					got = append(got, strings.TrimSpace(said))
					delete(unsaid, strings.TrimSpace(said))
				}
			}
			if len(got) != len(row.want) {
				t.Fatalf("says %q, want %q", got, row.want)
			}
			for i, line := range got {
				if !strings.HasPrefix(line, row.want[i]) {
					t.Errorf("says %q, want %q", line, row.want[i])
				}
			}
		})
	}
	for line := range unsaid {
		t.Errorf("no row makes tools/install say %q", line)
	}
}

// TestVulnSaysWhenItCheckedNothing holds the exit statuses of tools/vuln, which
// .ci/run tells apart.
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

// run runs a copy of a script of this directory, in a directory of its own and
// with no commands in PATH but those given and the few of every machine. A
// command with a slash is put there below the root of that directory. run returns
// the output of both kinds.
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

// TestRelease: a release has one binary for each platform, which knows its version, and a checksum for each.
func TestRelease(t *testing.T) {
	commands := map[string]string{"go": `case "$*" in *main.version=v0.1.0*) ;; *) exit 1 ;; esac; while [ "$1" != -o ]; do shift; done; echo "$GOOS $GOARCH" > "$2"`}
	for _, name := range []string{"rm", "mkdir", "sha256sum", "cat"} {
		commands[name] = `PATH=/usr/bin:/bin exec ` + name + ` "$@"`
	}
	out, err := run(t, "release", commands, nil, "v0.1.0")
	if err != nil {
		t.Fatal(err, out)
	}
	for _, platform := range []string{"linux amd64", "linux arm64", "darwin amd64", "darwin arm64"} {
		sum := fmt.Sprintf("%x  remit-v0.1.0-%s", sha256.Sum256([]byte(platform+"\n")), strings.ReplaceAll(platform, " ", "-"))
		if !strings.Contains(out, sum) {
			t.Errorf("no %s in\n%s", sum, out)
		}
	}
	if out, err := run(t, "release", commands, nil, "0.2"); err == nil || !strings.Contains(out, "write it as v0.1.0") {
		t.Errorf("0.2 is a version: %s", out)
	}
}
