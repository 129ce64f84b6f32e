package sdk_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/proof/guidetest"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tooltest"
	"github.com/remit-payouts/remit/internal/sandbox/local/localtest"
	remit "github.com/remit-payouts/remit/sdk/go"
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
	for _, program := range []string{installed, release + "/remit-v0.1.0-" + runtime.GOOS + "-" + runtime.GOARCH} {
		if got := run(t, tool, program, "--version"); got != "remit v0.1.0\n" {
			t.Errorf("%s calls itself %s", program, got)
		}
	}
	if got := run(t, tool, installed, "pay", "list.csv", "--yes", "--wait"); !strings.Contains(got, "confirmed: 1 row, 1 USDC") {
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
	for _, name := range []string{"standardwebhooks/__init__.py", "standardwebhooks/exceptions.py",
		"standardwebhooks/webhooks.py", info + "METADATA", info + "WHEEL", info + "RECORD"} {
		text := must.Get(site.ReadFile(name))(t)
		if name == info+"RECORD" {
			text = regexp.MustCompile(`(?m)^.*(/INSTALLER|/REQUESTED|__pycache__|py\.typed|licenses).*\n`).ReplaceAll(text, nil)
		}
		must.Get(must.Get(w.Create(name))(t).Write(text))(t)
	}
	must.OK(t, w.Close())
	return b.Bytes()
}

// TestExamples kills each program of examples/ when its payment is stored and it does not know that yet, or knows it
// and has not got the webhook: started again, it ends the order, which is paid once. A forged webhook ends none.
func TestExamples(t *testing.T) {
	languages := built(t)
	modules := tooltest.Path(t, "Express", ".cache/examples-node/node_modules")
	python := tooltest.Path(t, "FastAPI", ".cache/examples/bin/python")
	packages := filepath.Join(t.TempDir(), "node_modules")
	must.OK(t, os.Mkdir(packages, 0o700))
	for _, module := range must.Get(os.ReadDir(modules))(t) {
		must.OK(t, os.Symlink(filepath.Join(modules, module.Name()), filepath.Join(packages, module.Name())))
	}
	must.OK(t, os.Symlink(languages[1].dir, filepath.Join(packages, "remit-sdk")))
	must.OK(t, os.WriteFile(filepath.Join(packages, "..", "shop.mjs"), must.Get(os.ReadFile("../examples/express/shop.mjs"))(t), 0o600))
	worker := filepath.Join(t.TempDir(), "worker")
	run(t, language{"go", nil, "../examples/worker", []string{"CGO_ENABLED=0"}}, "go", "build", "-o", worker, ".")
	for name, program := range map[string][]string{
		"express": {languages[1].driver[0], filepath.Join(packages, "..", "shop.mjs")},
		"fastapi": {python, "-m", "uvicorn", "service:app", "--app-dir", "../examples/fastapi", "--log-level", "warning", "--port"},
		"worker":  {worker},
	} {
		t.Run(name, func(t *testing.T) { survives(t, program) })
	}
}

// A shop is a program of examples/, and where it takes orders.
type shop struct {
	program []string
	url     string
	port    string
	env     []string
	process *exec.Cmd
}

func (s *shop) start(t *testing.T) {
	t.Helper()
	words := s.program
	if words[len(words)-1] == "--port" {
		words = append(words, s.port)
	}
	s.process = exec.CommandContext(context.WithoutCancel(t.Context()), words[0], words[1:]...)
	s.process.Env, s.process.Stdout, s.process.Stderr = append(os.Environ(), s.env...), t.Output(), t.Output()
	must.OK(t, s.process.Start())
	for range 2400 {
		if answer, err := http.Get(s.url + "/orders/none"); err == nil {
			_ = answer.Body.Close()
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("the program takes no orders within two minutes")
}

func (s *shop) kill() {
	_ = s.process.Process.Kill()
	_ = s.process.Wait() // it was killed
}

func survives(t *testing.T, program []string) {
	_, api := localtest.Local(t, t.Output(), remitPath, "--block-time", "500ms")
	free := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := &shop{program: program, url: "http://" + free.Addr().String(), port: fmt.Sprint(free.Addr().(*net.TCPAddr).Port)}
	must.OK(t, free.Close())
	behind := must.Get(url.Parse(api.URL))(t)
	var cut atomic.Bool
	paid, noted := map[string]chan struct{}{}, map[string]func(){} // by Idempotency-Key
	for _, id := range []string{"1", "2"} {
		key, first := must.Get(remit.Key("order "+id))(t), make(chan struct{})
		paid[id], noted[key] = first, sync.OnceFunc(func() { close(first) })
	}
	proxy := httputil.NewSingleHostReverseProxy(behind)
	proxy.ModifyResponse = func(answer *http.Response) error {
		if answer.Request.URL.Path == "/send-payment" {
			defer noted[answer.Request.Header.Get("Idempotency-Key")]()
			if cut.Swap(false) {
				s.kill()
				return io.ErrUnexpectedEOF
			}
		}
		return nil
	}
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	front := httptest.NewServer(proxy)
	t.Cleanup(front.Close)
	hook := must.Get(api.CreateWebhook(t.Context(), remit.CreateWebhookRequest{URL: s.url + "/hook"}))(t)
	s.env = []string{"REMIT_URL=" + front.URL, "REMIT_API_KEY=" + api.Key,
		"WEBHOOK_SECRET=" + hook.Secret, "PORT=" + s.port, "ORDERS=" + filepath.Join(t.TempDir(), "orders"),
		"PYTHONPATH=" + must.Get(filepath.Abs("python"))(t),
		"PYTHONPYCACHEPREFIX=" + must.Get(filepath.Abs("../.cache/pycache"))(t)}
	s.start(t)
	t.Cleanup(func() { s.kill() })
	for _, id := range []string{"1", "2"} {
		before := id == "1" // the answer, or only the webhook
		cut.Store(before)
		order := fmt.Sprintf(`{"id":%q,"to":"0x2222222222222222222222222222222222222222","amount":"2500000"}`, id)
		if answer, err := http.Post(s.url+"/orders", "application/json", strings.NewReader(order)); err == nil {
			_ = answer.Body.Close()
		} // else it was killed before its answer
		<-paid[id]
		if !before {
			time.Sleep(100 * time.Millisecond) // in which it takes the answer
			s.kill()
		}
		s.start(t)
		s.await(t, id)
	}
	forged := must.Get(http.Post(s.url+"/hook", "application/json", strings.NewReader(`{"data":{"reference":"1","status":"failed"}}`)))(t)
	if _ = forged.Body.Close(); forged.StatusCode != http.StatusUnauthorized {
		t.Errorf("a forged webhook got %s", forged.Status)
	}
	s.await(t, "1")
	var made []string
	for p, err := range api.List(t.Context(), nil) {
		must.OK(t, err)
		made = append(made, p.Reference)
	}
	if len(made) != 2 || made[0] == made[1] {
		t.Errorf("the API made payments for %v", made)
	}
}

// await waits until an order is confirmed.
func (s *shop) await(t *testing.T, id string) {
	t.Helper()
	var text []byte
	for range 2400 {
		answer, err := http.Get(s.url + "/orders/" + id)
		if err == nil {
			text, _ = io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			if bytes.Contains(text, []byte(`"confirmed"`)) {
				return
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("order %s is %s after two minutes", id, text)
}
