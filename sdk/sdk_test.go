// Package sdk_test runs the SDKs of every language, as their users install them.
package sdk_test

import (
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/proof/guidetest"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tooltest"
	"github.com/remit-payouts/remit/internal/sandbox/local/localtest"
)

var remitPath string // of the command

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(localtest.Main(m, &remitPath))
}

// A language runs programs of an SDK.
type language struct {
	name   string
	driver []string // the program that pays its input
	dir    string
	env    []string
}

// built returns the languages, with their SDKs built in a directory of the test.
func built(t *testing.T) []language {
	t.Helper()
	work := t.TempDir()
	must.OK(t, os.MkdirAll(filepath.Join(work, "sdk/typescript"), 0o700))
	node, at := tooltest.Program(t, "Node.js", "node"), filepath.Join(work, "sdk/typescript")
	ts := language{"typescript", []string{node, "test/driver.mjs"}, at, nil}
	for to, from := range map[string][]string{"": {"../LICENSE"}, "sdk": {"README.md", "testdata", "python"}, // but no build output
		"sdk/typescript": {"typescript/package.json", "typescript/tsconfig.json", "typescript/src", "typescript/test"}} {
		run(t, language{name: "the SDKs", dir: "."}, slices.Concat([]string{"cp", "-RP"}, from, []string{filepath.Join(work, to)})...)
	}
	modules := tooltest.Path(t, "the compiler of TypeScript", ".cache/sdk-node/node_modules")
	must.OK(t, os.Symlink(modules, filepath.Join(ts.dir, "node_modules")))
	run(t, ts, ts.driver[0], filepath.Join(modules, "typescript/bin/tsc"))
	rows := filepath.Join(work, "rows")
	run(t, language{"go", nil, "go", []string{"CGO_ENABLED=0"}}, "go", "test", "-c", "-o", rows, ".")
	return []language{
		{"go", []string{rows, "-drive"}, "go", nil}, ts,
		{"python", []string{tooltest.Path(t, "Python 3.11", ".cache/sdk/bin/python"), "tests/driver.py", "AsyncClient"},
			filepath.Join(work, "sdk/python"), []string{"PYTHONPATH=.", "PYTHONDONTWRITEBYTECODE=1"}},
	}
}

// command returns a program of a language.
func command(t *testing.T, l language, stderr io.Writer, words ...string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
	cmd.Dir, cmd.Stderr = l.dir, stderr
	cmd.Env = append(os.Environ(), l.env...)
	return cmd
}

func run(t *testing.T, l language, words ...string) (printed string) {
	t.Helper()
	cmd := command(t, l, nil, words...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", l.name, err, out)
	}
	return string(out)
}

// TestLanguages holds the SDKs that are not in Go to the rows that the one in Go is held to, runs their own tests,
// and holds that npm's and pip's packages have the licence and the page that registries show.
func TestLanguages(t *testing.T) {
	npm := tooltest.Program(t, "npm, which comes with Node.js", "npm")
	languages := built(t)
	ts, python := languages[1], languages[2]
	rows := func(l language, driver ...string) {
		run(t, l, languages[0].driver[0], "-test.run=^Test(Calls|Scenarios|Network|VerifyWebhook)$", "-driver", strings.Join(driver, " "))
	}
	rows(ts, ts.driver...)
	rows(python, python.driver...)
	rows(python, python.driver[0], python.driver[1], "Client")
	run(t, ts, ts.driver[0], "--test", "test/client.test.mjs")
	run(t, python, python.driver[0], "-W", "error", "-m", "unittest", "discover", "-s", "tests")
	for want, packed := range map[string]string{
		"(?s)kB LICENSE\n.*B README.md\n.*B dist/index.js\n": run(t, ts, npm, "pack", "--offline", "--dry-run"),
		"(?s)remit/py.typed.*licenses/LICENSE.*# Remit SDK": run(t, python, python.driver[0], "-c", `import zipfile
from setuptools.build_meta import build_wheel
wheel = zipfile.ZipFile(build_wheel("."))
print(wheel.namelist(), wheel.read("remit_sdk-0.1.0.dist-info/METADATA").decode())`),
	} {
		if !regexp.MustCompile(want).MatchString(packed) {
			t.Errorf("a package has no %s:\n%s", want, packed)
		}
	}
}

// TestGenerated: sdk/generate makes the generated files from openapi.yaml.
func TestGenerated(t *testing.T) {
	python := tooltest.Path(t, "the generators", ".cache/sdk/bin/python")
	tooltest.Path(t, "the generators", ".cache/bin/oapi-codegen")
	node := filepath.Dir(tooltest.Program(t, "Node.js", "node"))
	path := "PATH=" + node + string(os.PathListSeparator) + os.Getenv("PATH")
	run(t, language{"sdk/generate", nil, ".", []string{path}}, python, "generate", "--check")
}

// TestQuickstarts runs the programs of docs/clients.md, and installs the one in Go, as the page says.
func TestQuickstarts(t *testing.T) {
	page := func(start string) string { return guidetest.Read(t, "..", "docs/clients.md", start) }
	languages := built(t)
	_, api := localtest.Local(t, t.Output(), remitPath)
	checkout := must.Get(filepath.Abs(".."))(t)
	var ends []string
	for i, l := range languages {
		file := []string{"main.go", "pay.mjs", "pay.py"}[i]
		program := page([]string{"package main", "import { Client }", "import os"}[i])
		start := []string{page("go mod init"),
			"mkdir -p node_modules && ln -s " + l.dir + " node_modules/remit-sdk && " + l.driver[0] + " " + file,
			"PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$REMIT/sdk/python " + l.driver[0] + " " + file}[i]
		lines := page("export REMIT=") + "cat > " + file + " <<'END'\n" + program + "END\n" + start
		shop := t.TempDir()
		key := regexp.MustCompile(`remit_test_\w+`).FindString(lines)
		printed := guidetest.Run(t, lines, "$PWD", checkout, "http://127.0.0.1:8080", api.URL, "/tmp/shop", shop, key, api.Key)
		ends = append(ends, regexp.MustCompile(`confirmed 0x[0-9a-f]{64}`).FindString(printed))
		if ends[i] == "" || ends[i] != ends[0] {
			t.Errorf("%s ended with %q, Go with %q:\n%s", l.name, ends[i], ends[0], printed)
		}
	}
}
