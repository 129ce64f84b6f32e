package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"remit/internal/client"
	"remit/internal/httpapi/httpapitest"
	"remit/internal/local/localtest"
)

// binary is the command under test, built once.
var binary string

// TestMain builds the command. More tests run at once than there are processors: each
// waits for a stack of its own most of the time.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "remit")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "remit")
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as `make run` builds it
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building the command:", err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

const payee = "0x2222222222222222222222222222222222222222"

// A process is one running command.
type process struct {
	cmd    *exec.Cmd
	out    *localtest.Screen
	stderr *bytes.Buffer // read after the end
	ended  chan struct{} // closed when it has ended
	err    error         // how; read after ended
}

// launch starts the command; the test kills what is left of it at its end.
func launch(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(binary, args...), stderr: &bytes.Buffer{}, ended: make(chan struct{})}
	p.out = localtest.NewScreen(p.ended)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("remit %v wrote:\n%.3000s", args, p.stderr)
		}
	})
	return p
}

// kill ends the process with SIGKILL and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// interrupt ends the process as Ctrl-C does and returns how it ended.
func (p *process) interrupt() error {
	_ = p.cmd.Process.Signal(os.Interrupt)
	<-p.ended
	return p.err
}

// local starts `remit local` on free ports and returns where it serves.
func local(t *testing.T, args ...string) (*process, *merchant) {
	t.Helper()
	p := launch(t, append([]string{"local", "--listen", "127.0.0.1:0", "--chain-listen", "127.0.0.1:0", "--block-time", "250ms"}, args...)...)
	m := &merchant{t: t, url: strings.Fields(p.out.Await(t, "API"))[1]}
	p.out.Await(t, "Ctrl-C")
	return p, m
}

// A merchant talks to a running stack.
type merchant struct {
	t   *testing.T
	url string
	key string
}

// contract is openapi.yaml, which every answer is held against.
var contract = sync.OnceValues(httpapitest.NewContract)

// checked is a transport that holds every answer to openapi.yaml.
type checked struct {
	http.RoundTripper
	t *testing.T
}

// RoundTrip implements http.RoundTripper.
func (c checked) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := c.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	described, err := contract()
	if err != nil {
		return nil, err
	}
	if err := described.Check(r, answer); err != nil {
		c.t.Error(err)
	}
	return answer, nil
}

var transport = &http.Transport{MaxIdleConnsPerHost: 128}

// api returns a client with m's key.
func (m *merchant) api() *client.Client {
	return &client.Client{URL: m.url, Key: m.key, HTTP: &http.Client{Timeout: 30 * time.Second, Transport: checked{transport, m.t}}}
}

// must makes a request that has to succeed, and returns its answer.
func (m *merchant) must(method, path, body string) map[string]any {
	m.t.Helper()
	answer, err := m.api().Call(m.t.Context(), method, path, body)
	if err != nil || answer.Status >= 300 {
		m.t.Fatalf("%s %s: %d %s %v", method, path, answer.Status, answer.Body, err)
	}
	var value map[string]any
	if err := json.Unmarshal(answer.Body, &value); err != nil {
		m.t.Fatalf("%s %s: %v", method, path, err)
	}
	return value
}

// join makes m a new merchant.
func (m *merchant) join() {
	m.t.Helper()
	var err error
	if m.key, err = m.api().CreateKey(m.t.Context(), "Acme"); err != nil {
		m.t.Fatal(err)
	}
}

// awaitConfirmed waits until every payment whose hash is known is confirmed.
func (m *merchant) awaitConfirmed(hashes []string) {
	m.t.Helper()
	ctx, stop := context.WithTimeout(m.t.Context(), 5*time.Minute)
	defer stop()
	for _, hash := range hashes {
		for hash != "" {
			p, err := m.api().Transaction(ctx, hash)
			if err != nil {
				m.t.Fatalf("%s is not confirmed: %v", hash, err)
			}
			if p.Status == "confirmed" {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}
