// Package sdk_test runs the SDKs of every language, as their users install them.
package sdk_test

import (
	"bytes"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/proof/guidetest"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
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
	for to, from := range map[string][]string{"": {"../LICENSE"}, "sdk": {"README.md", "testdata", "python"},
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
			filepath.Join(work, "sdk/python"), []string{"PYTHONPATH=.", "PYTHONDONTWRITEBYTECODE=1",
				"no_proxy=", "http_proxy=http://127.0.0.1:1"}}, // which gets no key
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
	out, err := command(t, l, nil, words...).CombinedOutput()
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

// TestGenerators holds the table of docs/clients.md: a client that is generated from the file as it is served pays
// 5,000 of a token with 6 decimals, and reads an amount of one with 18.
func TestGenerators(t *testing.T) {
	t.Parallel()
	node := filepath.Dir(tooltest.Program(t, "Node.js", "node"))
	modules := tooltest.Path(t, "openapi-typescript", ".cache/sdk-node/node_modules")
	oapi := tooltest.Path(t, "oapi-codegen", ".cache/bin/oapi-codegen")
	python := tooltest.Path(t, "the other generators", ".cache/generators/bin/python")
	_, api := localtest.Local(t, io.Discard, remitPath)
	served := must.Get(api.Call(t.Context(), "GET", "/openapi.json", ""))(t)
	front := httputil.NewSingleHostReverseProxy(must.Get(url.Parse(api.URL))(t))
	front.ModifyResponse = func(r *http.Response) error {
		body, err := io.ReadAll(r.Body)
		if r.Request.Method == http.MethodGet { // as if the token had 18 decimals
			body = bytes.ReplaceAll(body, []byte("5000000000"), []byte("123456789012345678901"))
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Length", strconv.Itoa(len(body)))
		return err
	}
	server := httptest.NewServer(front)
	t.Cleanup(server.Close)
	page := string(must.Get(os.ReadFile("../docs/clients.md"))(t))
	tabletest.Run(t, nil, func(t *testing.T, c tabletest.Case) {
		name, version, compile := c.Name, c.In[0], c.In[1]
		t.Parallel()
		for _, tool := range []string{"mvn", "javac"} {
			if _, err := exec.LookPath(tool); err != nil && strings.Contains(compile, tool+" ") {
				tooltest.Missing(t, "Maven with a JDK", "install them (Debian: maven default-jdk-headless)")
			}
		}
		at := language{name, nil, t.TempDir(), []string{"GOWORK=off",
			"GOFLAGS=-mod=mod", "CGO_ENABLED=0", "BIN=" + filepath.Dir(oapi), "PY=" + filepath.Dir(python),
			"PATH=" + node + ":" + os.Getenv("PATH"), "REMIT_URL=" + server.URL, "REMIT_API_KEY=" + api.Key}}
		must.OK(t, os.WriteFile(filepath.Join(at.dir, "openapi.json"), served.Body, 0o600))
		must.OK(t, os.Symlink(modules, filepath.Join(at.dir, "node_modules")))
		if from := "testdata/generators/" + name; c.Want != "none" {
			must.OK(t, os.CopyFS(at.dir, os.DirFS(from)))
		}
		compiled, paid := "no", "no"
		if run(t, at, "bash", "-c", compile); c.Want != "none" && !t.Failed() {
			compiled = "yes"
			if printed := run(t, at, "bash", "-c", c.Want); strings.TrimSpace(printed) == "5000000000 123456789012345678901" {
				paid = "yes"
			}
		}
		if row := "| " + strings.Join([]string{name, version, compiled, paid}, " | ") + " |"; !strings.Contains(page, row) {
			t.Errorf("docs/clients.md has no row %s", row)
		}
	})
}
