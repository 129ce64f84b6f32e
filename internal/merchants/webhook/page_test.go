package webhook_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/merchants/webhook/guard"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tooltest"
)

// page is the merchants' documentation.
const page = "../../../docs/webhooks.md"

// snippet returns the page's only block of a language.
func snippet(t *testing.T, language string) string {
	t.Helper()
	text := must.Get(os.ReadFile(page))(t)
	blocks := regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(blocks) != 1 {
		t.Fatalf("%s has %d blocks of %s", page, len(blocks), language)
	}
	return blocks[0][1]
}

// TestReceiversOfThePage runs the page's receivers as they stand there, each with
// its language's Standard Webhooks library, and posts to them as Remit does.
func TestReceiversOfThePage(t *testing.T) {
	const what = "the libraries of Standard Webhooks"
	for _, test := range []struct {
		language, file string
		interpreter    func(*testing.T) string
	}{
		{"go", "receiver.go", nil},
		{"python", "receiver.py", func(t *testing.T) string { return tooltest.Path(t, what, ".cache/py/bin/python") }},
		{"javascript", "receiver.js", func(t *testing.T) string {
			t.Setenv("NODE_PATH", tooltest.Path(t, what, ".cache/node/node_modules"))
			return tooltest.Program(t, what, "node")
		}},
	} {
		t.Run(test.language, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), test.file)
			must.OK(t, os.WriteFile(file, []byte(snippet(t, test.language)), 0o600))
			if test.interpreter != nil {
				receives(t, exec.CommandContext(t.Context(), test.interpreter(t), file))
				return
			}
			exe := strings.TrimSuffix(file, ".go")
			if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", exe, file).CombinedOutput(); err != nil {
				t.Fatalf("building it: %v\n%s", err, out)
			}
			receives(t, exec.CommandContext(t.Context(), exe))
		})
	}
}

// receives runs a receiver and checks that it takes genuine messages and no others, from
// the guarded client, also while the secret rotates.
func receives(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	address := l.Addr().String()
	must.OK(t, l.Close()) // the receiver listens there
	own, other, now := mint(t), mint(t), time.Now()
	cmd.Env = append(os.Environ(), "WEBHOOK_SECRET="+own.Reveal(), "PORT="+address[strings.LastIndex(address, ":")+1:])
	var printed strings.Builder
	cmd.Stdout, cmd.Stderr = &printed, &printed
	must.OK(t, cmd.Start())
	stop := sync.OnceFunc(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	defer stop()
	for range 1200 {
		if conn, err := net.Dial("tcp", address); err == nil {
			_ = conn.Close()
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	client := guard.NewClient(true, false)
	post := func(name string, status int, at time.Time, signed, sent string, secrets ...webhook.Secret) {
		h := http.Header{}
		h.Set(webhook.HeaderID, "evt_1")
		h.Set(webhook.HeaderTimestamp, fmt.Sprint(at.Unix()))
		h.Set(webhook.HeaderSignature, must.Get(webhook.Sign(secrets, "evt_1", at, []byte(signed)))(t))
		if a, err := client.Post(t.Context(), "http://"+address+"/remit", h, []byte(sent)); err != nil || a.StatusCode != status {
			t.Errorf("%s: %d, %v; want %d", name, a.StatusCode, err, status)
		}
	}
	const body = `{"id":"evt_1","type":"x","data":{"reference":"Söđ 🧁  </script>"}}`
	post("one secret", 204, now, body, body, own)
	post("while rotating", 204, now, body, body, other, own)
	post("another secret", 401, now, body, body, other)
	post("a clock that is 4 minutes fast", 204, now.Add(4*time.Minute), body, body, own)
	post("a message of 6 minutes ago: a replay", 401, now.Add(-6*time.Minute), body, body, own)
	post("a body written again by a JSON library", 401, now, body, strings.ReplaceAll(body, ":", ": "), own)
	if stop(); t.Failed() {
		t.Logf("it printed:\n%s", printed.String())
	}
}
