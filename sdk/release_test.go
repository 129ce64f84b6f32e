package sdk_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/proof/guidetest"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tooltest"
	"github.com/remit-payouts/remit/internal/sandbox/local/localtest"
)

// TestRelease makes a release and installs it as somebody does who has no checkout, each part in an empty directory and
// from indexes on loopback: remit and the SDK of each language. The installed SDKs pay one order, which a payment list
// of the installed remit then pays to another recipient. Other modules and packages are those installed here.
func TestRelease(t *testing.T) {
	npm, python := tooltest.Program(t, "npm, which comes with Node.js", "npm"), tooltest.Path(t, "Python 3.11", ".cache/sdk/bin/python")
	_, api := localtest.Local(t, t.Output(), remitPath)
	checkout := must.Get(filepath.Abs(".."))(t)
	printed := run(t, language{"tools/release", nil, "..", nil}, "tools/release", "v0.1.0", runtime.GOOS+"/"+runtime.GOARCH)
	release := filepath.Join(checkout, ".cache/release")
	sums := string(must.Get(os.ReadFile(filepath.Join(release, "SHA256SUMS")))(t))
	run(t, language{"sha256sum", nil, release, nil}, "sha256sum", "--check", "--quiet", "SHA256SUMS")
	script := string(must.Get(os.ReadFile("../tools/release"))(t))
	if !strings.Contains(script, "(($#)) || set -- linux/amd64 linux/arm64 darwin/amd64 darwin/arm64\n") {
		t.Error("a release is not for Linux and macOS on both processors")
	}
	refused := command(t, language{"tools/release", nil, "..", nil}, nil, "tools/release", "0.2")
	if err := refused.Run(); err == nil || refused.ProcessState.ExitCode() != 2 {
		t.Errorf("0.2 is a version: %v", err)
	}
	for _, want := range []string{"tgz", "whl", "sbom.json", "tags.bundle", "remit-v0.1.0-" + runtime.GOOS} {
		if !strings.Contains(sums, want) {
			t.Errorf("the release has no %s:\n%s", want, printed)
		}
	}
	tags := run(t, language{"git", nil, "..", nil}, "git", "bundle", "list-heads", filepath.Join(release, "tags.bundle"))
	if strings.Count(tags, "v0.1.0\n") != 2 || !strings.Contains(tags, "refs/tags/sdk/go/v0.1.0") {
		t.Errorf("the bundle has the tags\n%s", tags)
	}
	index := httptest.NewServer(registries(t, npm, release))
	t.Cleanup(index.Close)
	module := "github.com/remit-payouts/remit"
	goEnv := []string{"GOWORK=off", "GOFLAGS=-modcacherw -trimpath -buildvcs=false", "CGO_ENABLED=0",
		"GOSUMDB=off", "GOBIN=" + t.TempDir(), "GOPROXY=" + index.URL + "/proxy,file://" + strings.TrimSpace(run(t,
			language{"go", nil, ".", nil}, "go", "env", "GOMODCACHE")) + "/cache/download", "GOMODCACHE=" + t.TempDir()}
	pays := func(l language, file, start string, install ...[]string) string {
		l.dir = t.TempDir()
		l.env = append(l.env, "REMIT_URL="+api.URL, "REMIT_API_KEY="+api.Key)
		must.OK(t, os.WriteFile(filepath.Join(l.dir, file), []byte(guidetest.Read(t, "..", "docs/clients.md", start)), 0o600))
		for _, words := range install[:len(install)-1] {
			run(t, l, words...)
		}
		return run(t, l, install[len(install)-1]...)
	}
	ends := map[string]string{
		"go": pays(language{"go", nil, "", goEnv}, "main.go", "package main", []string{"go", "mod",
			"init", "example.com/shop"}, []string{"go", "get", module + "/sdk/go@v0.1.0"}, []string{"go", "run", "."}),
		"npm": pays(language{name: "npm"}, "pay.mjs", "import { Client }",
			[]string{npm, "install", "--no-audit", "--no-fund", "--cache", t.TempDir(), "--registry",
				index.URL + "/npm/", "remit-sdk"}, []string{tooltest.Program(t, "Node.js", "node"), "pay.mjs"}),
		"pip": pays(language{name: "pip"}, "pay.py", "import os", []string{python, "-m", "venv", "venv"},
			[]string{"venv/bin/pip", "install", "--no-cache-dir", "--index-url", index.URL + "/pip/", "remit-sdk"},
			[]string{"venv/bin/python", "pay.py"}),
	}
	hash := regexp.MustCompile(`(?m)^confirmed 0x[0-9a-f]{64}$`)
	for name, end := range ends {
		if got := hash.FindString(end); got == "" || got != hash.FindString(ends["go"]) {
			t.Errorf("%s ended with\n%s", name, end)
		}
	}
	tool := language{"remit", nil, t.TempDir(), append(goEnv, "REMIT_URL="+api.URL, "REMIT_API_KEY="+api.Key)}
	run(t, tool, "go", "install", module+"/cmd/remit@v0.1.0")
	installed := filepath.Join(strings.TrimPrefix(goEnv[4], "GOBIN="), "remit")
	must.OK(t, os.WriteFile(filepath.Join(tool.dir, "list.csv"),
		[]byte("address,amount\n0x3333333333333333333333333333333333333333,1\n"), 0o600))
	for program, want := range map[string]string{installed: "remit v0.1.0\n",
		filepath.Join(release, "remit-v0.1.0-"+runtime.GOOS+"-"+runtime.GOARCH): "remit v0.1.0\n"} {
		if got := run(t, tool, program, "--version"); got != want {
			t.Errorf("%s calls itself %s", program, got)
		}
	}
	if got := run(t, tool, installed, "pay", "list.csv", "--yes", "--wait"); !strings.Contains(got, "the row is confirmed, 1 USDC") {
		t.Errorf("the installed remit pays: %s", got)
	}
}

// registries serves a release as a module proxy and as the indexes of npm and pip, with the packages that these need.
func registries(t *testing.T, npm, release string) http.Handler {
	mux, files := http.NewServeMux(), t.TempDir()
	mux.Handle("/proxy/", http.FileServer(http.Dir(release)))
	mux.Handle("/files/", http.StripPrefix("/files/", http.FileServer(http.Dir(files))))
	mux.Handle("/release/", http.StripPrefix("/release/", http.FileServer(http.Dir(release))))
	modules := tooltest.Path(t, "the compiler of TypeScript", ".cache/sdk-node/node_modules")
	pack := language{"npm pack", nil, files, nil}
	for _, name := range []string{"standardwebhooks", "fast-sha256", "@stablelib/base64"} {
		run(t, pack, npm, "pack", "--offline", "--ignore-scripts", filepath.Join(modules, name))
	}
	mux.HandleFunc("/npm/", func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/npm/")
		manifest, tarball := filepath.Join(modules, name, "package.json"), "/files/"+strings.NewReplacer("@", "", "/", "-").Replace(name)+"-"
		if name == "remit-sdk" {
			manifest, tarball = filepath.Join(release, "../../sdk/typescript/package.json"), "/release/remit-sdk-"
		}
		var is map[string]any
		text, err := os.ReadFile(manifest)
		if err != nil || json.Unmarshal(text, &is) != nil {
			http.NotFound(w, r)
			return
		}
		version := fmt.Sprint(is["version"])
		is["dist"] = map[string]any{"tarball": "http://" + r.Host + tarball + version + ".tgz"}
		_ = json.NewEncoder(w).Encode(map[string]any{"name": name, "dist-tags": map[string]any{"latest": version},
			"versions": map[string]any{version: is}})
	})
	site := must.Get(filepath.Glob(filepath.Join(modules, "../../sdk/lib/python3*/site-packages")))(t)
	wheel := zipped(t, os.DirFS(site[0]).(interface {
		ReadFile(string) ([]byte, error)
	}))
	must.OK(t, os.WriteFile(filepath.Join(files, "standardwebhooks-1.1.0-py3-none-any.whl"), wheel, 0o600))
	mux.HandleFunc("/pip/", func(w http.ResponseWriter, r *http.Request) {
		file := "/files/standardwebhooks-1.1.0-py3-none-any.whl"
		if r.URL.Path == "/pip/remit-sdk/" {
			file = "/release/remit_sdk-0.1.0-py3-none-any.whl"
		}
		_, _ = fmt.Fprintf(w, "<!DOCTYPE html><a href=%q>%s</a>", file, filepath.Base(file))
	})
	return mux
}

// zipped makes the wheel again of which the installed files of standardwebhooks came.
func zipped(t *testing.T, site interface{ ReadFile(string) ([]byte, error) }) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	info := "standardwebhooks-1.1.0.dist-info/"
	for _, name := range []string{"standardwebhooks/__init__.py", "standardwebhooks/exceptions.py", "standardwebhooks/webhooks.py",
		info + "METADATA", info + "WHEEL", info + "RECORD"} {
		text := must.Get(site.ReadFile(name))(t)
		if name == info+"RECORD" {
			text = regexp.MustCompile(`(?m)^.*(/INSTALLER|/REQUESTED|__pycache__|py\.typed|licenses).*\n`).ReplaceAll(text, nil)
		}
		must.Get(must.Get(w.Create(name))(t).Write(text))(t)
	}
	must.OK(t, w.Close())
	return b.Bytes()
}
