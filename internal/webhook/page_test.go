package webhook_test

import (
	"context"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"remit/internal/webhook"
	"remit/internal/webhook/guard"
)

// page is the merchants' documentation.
const page = "../../docs/webhooks.md"

// snippet returns the page's only block of a language.
func snippet(t *testing.T, language string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	must(t, err)
	blocks := regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) != 1 {
		t.Fatalf("%s has %d blocks of %s", page, len(blocks), language)
	}
	return blocks[0][1]
}

// TestReceiversOfThePage runs the page's receivers as they stand there, and posts
// to them as Remit does.
func TestReceiversOfThePage(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("node is missing: install Node.js 18 or later (Debian: nodejs)")
	}
	for _, test := range []struct {
		language, file string
		command        func(file string) *exec.Cmd
	}{
		{"go", "main.go", func(file string) *exec.Cmd {
			exe := strings.TrimSuffix(file, ".go")
			if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", exe, file).CombinedOutput(); err != nil {
				t.Fatalf("building it: %v\n%s", err, out)
			}
			return exec.CommandContext(t.Context(), exe)
		}},
		{"python", "receiver.py", func(file string) *exec.Cmd {
			return exec.CommandContext(t.Context(), tool(t, "py/bin/python"), file)
		}},
		{"javascript", "receiver.js", func(file string) *exec.Cmd {
			cmd := exec.CommandContext(t.Context(), node, file)
			cmd.Env = append(os.Environ(), "NODE_PATH="+tool(t, "node/node_modules"))
			return cmd
		}},
	} {
		t.Run(test.language, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), test.file)
			must(t, os.WriteFile(file, []byte(snippet(t, test.language)), 0o600))
			receives(t, test.command(file))
		})
	}
}

// receives runs a receiver and checks that it takes genuine messages and no
// others, from the guarded client, through whole deliveries and while the secret
// rotates.
func receives(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	w := newFixture(t)
	w.clock = time.Now()
	address := free(t)
	url := "http://" + address + "/remit"
	e := w.register(mine, url)
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	_, port, _ := net.SplitHostPort(address)
	cmd.Env = append(cmd.Env, "WEBHOOK_SECRET="+e.Secret.Reveal(), "PORT="+port)
	var printed strings.Builder
	cmd.Stdout, cmd.Stderr = &printed, &printed
	must(t, cmd.Start())
	stop := func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	defer stop()
	await(t, address)

	client := guard.NewClient(true)
	deliverer := webhook.NewDeliverer(w.store, w, client, webhook.NoMeter{}, time.Now, func() float64 { return 0.5 })
	deliver := func(n int) webhook.Attempt {
		w.mustPublish(w.numbered(n))
		job, _ := w.pop()
		must(t, deliverer.Deliver(context.WithoutCancel(t.Context()), job))
		ref, err := webhook.ParseRef(job)
		must(t, err)
		_, d, err := w.store.Load(t.Context(), ref)
		must(t, err)
		a, _ := d.LastAttempt()
		return a
	}
	if a := deliver(1); a.StatusCode != 204 {
		t.Errorf("an event: %+v", a)
	}
	if _, err := w.registry.RotateSecret(t.Context(), mine, e.ID, time.Hour); err != nil {
		t.Fatal(err)
	}
	if a := deliver(2); a.StatusCode != 204 {
		t.Errorf("an event while rotating: %+v", a)
	}
	if _, err := w.registry.RotateSecret(t.Context(), mine, e.ID, 0); err != nil {
		t.Fatal(err)
	}
	if a := deliver(3); a.StatusCode != 401 {
		t.Errorf("an event signed with another secret: %+v", a)
	}
	for _, m := range messages(t, time.Now()) { // all signed for other endpoints
		h := http.Header{}
		for k, v := range m.Headers {
			h.Set(k, v)
		}
		if a, err := client.Post(t.Context(), url, h, []byte(m.Body)); err != nil || a.StatusCode != 401 {
			t.Errorf("%s, of another endpoint: %d, %v", m.Name, a.StatusCode, err)
		}
	}
	stop()
	if t.Failed() {
		t.Logf("it printed:\n%s", printed.String())
	}
}

// free returns an address at which no server listens.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

// await returns when a server listens at address.
func await(t *testing.T, address string) {
	t.Helper()
	for range 200 {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			_ = conn.Close()
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("no server listens at %s", address)
}
