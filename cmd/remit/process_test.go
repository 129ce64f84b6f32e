package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"remit/internal/client"
	"remit/internal/httpapi/httpapitest"
)

// binary is the command under test, built once.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "remit")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "remit")
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building the command:", err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// A process is one running command.
type process struct {
	cmd    *exec.Cmd
	stderr *bytes.Buffer
	done   chan struct{} // closed when it has ended
	err    error         // how; read after done
}

// launch starts the command; the test kills what is left of it at its end.
// Its first line on standard output that starts with until ends the wait; all
// lines up to there are returned.
func launch(t *testing.T, until string, args ...string) (*process, []string) {
	t.Helper()
	p := &process{cmd: exec.Command(binary, args...), stderr: &bytes.Buffer{}, done: make(chan struct{})}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.Stderr = p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	lines := make(chan []string, 1)
	go func() {
		var seen []string
		scanner := bufio.NewScanner(out)
		for sent := false; scanner.Scan(); {
			if !sent {
				seen = append(seen, scanner.Text())
				if strings.HasPrefix(scanner.Text(), until) {
					lines <- seen
					sent = true
				}
			}
		}
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	select {
	case seen := <-lines:
		return p, seen
	case <-p.done:
		t.Fatalf("remit %s ended before it was ready: %v\n%s", strings.Join(args, " "), p.err, p.stderr)
	case <-time.After(30 * time.Second):
		t.Fatalf("remit %s was not ready in 30 s:\n%s", strings.Join(args, " "), p.stderr)
	}
	return nil, nil
}

// kill ends the process with SIGKILL and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// interrupt ends the process as Ctrl-C does and returns how it ended.
func (p *process) interrupt() error {
	_ = p.cmd.Process.Signal(os.Interrupt)
	<-p.done
	return p.err
}

// local starts `remit local` on free ports and returns where it serves.
func local(t *testing.T, args ...string) (*process, *merchant) {
	t.Helper()
	p, lines := launch(t, "Ctrl-C", append([]string{"local", "--listen", "127.0.0.1:0"}, args...)...)
	for _, l := range lines {
		if url, ok := strings.CutPrefix(strings.TrimSpace(l), "API"); ok {
			return p, &merchant{t: t, url: strings.TrimSpace(url)}
		}
	}
	t.Fatalf("no API line in %q", lines)
	return nil, nil
}

// A merchant talks to a running stack.
type merchant struct {
	t   *testing.T
	url string
	key string

	count    atomic.Int64 // payments that were answered 201
	answered func(n int)  // told of each, if set
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
