package sdk_test

import (
	"bytes"
	"context"
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
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tooltest"
	"github.com/remit-payouts/remit/internal/sandbox/local/localtest"
	remit "github.com/remit-payouts/remit/sdk/go"
)

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
	for range 600 {
		if answer, err := http.Get(s.url + "/orders/none"); err == nil {
			_ = answer.Body.Close()
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("the program takes no orders within 30 s")
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
		"PYTHONPATH=" + must.Get(filepath.Abs("python"))(t), "PYTHONDONTWRITEBYTECODE=1"}
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
	for range 600 {
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
	t.Fatalf("order %s is %s after 30 s", id, text)
}
