package webhook_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
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

// receives runs a receiver and checks that it takes genuine messages and no
// others, from the guarded client, through whole deliveries and while the secret
// rotates.
func receives(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	w := newFixture(t)
	w.clock = time.Now()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	address := l.Addr().String()
	must.OK(t, l.Close()) // the receiver listens there
	e := w.register(mine, "http://"+address+"/remit")
	cmd.Env = append(os.Environ(), "WEBHOOK_SECRET="+e.Secret.Reveal(), "PORT="+address[strings.LastIndex(address, ":")+1:])
	var printed strings.Builder
	cmd.Stdout, cmd.Stderr = &printed, &printed
	must.OK(t, cmd.Start())
	stop := func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	defer stop()
	for range 1200 {
		if conn, err := net.Dial("tcp", address); err == nil {
			_ = conn.Close()
			break
		}
		time.Sleep(50 * time.Millisecond)
	}

	client := guard.NewClient(true, false)
	deliverer := webhook.NewDeliverer(w.store, w, client, webhook.NoMeter{}, time.Now, half)
	deliver := func(n, status int) {
		t.Helper()
		w.mustPublish(w.numbered(n))
		job, _ := w.pop()
		must.OK(t, deliverer.Deliver(context.WithoutCancel(t.Context()), job))
		if a, _ := w.newest(e).LastAttempt(); a.StatusCode != status {
			t.Errorf("event %d: %+v, want %d", n, a, status)
		}
	}
	rotate := func(overlap time.Duration) {
		must.Get(w.registry.RotateSecret(t.Context(), mine, e.ID, overlap))(t)
		w.clock = w.clock.Add(time.Millisecond)
	}
	deliver(1, 204)
	rotate(time.Hour)
	deliver(2, 204)
	rotate(0)
	deliver(3, 401)
	for _, m := range messages(t, e.Secret, time.Now()) {
		if a, err := client.Post(t.Context(), e.URL, m.header, []byte(m.body)); err != nil || a.StatusCode != m.status {
			t.Errorf("%s: %d, %v; want %d", m.name, a.StatusCode, err, m.status)
		}
	}
	stop()
	if t.Failed() {
		t.Logf("it printed:\n%s", printed.String())
	}
}

// A message is one to a receiver, which must answer it with status.
type message struct {
	name   string
	header http.Header
	body   string
	status int
}

// messages returns messages to a receiver that knows the secret own. They are
// signed by this package, and some are meddled with then, in one way each.
func messages(t *testing.T, own webhook.Secret, now time.Time) (list []message) {
	t.Helper()
	other, foreign := mint(t), mint(t)
	sign := func(name string, status int, at time.Time, secrets ...webhook.Secret) {
		body := `{"id":"evt_1","type":"x","data":{"reference":"Söđ 🧁  </script>","amount":115792089237316195423570985008687907853269984665640564039457584007913129639935}}`
		signature := must.Get(webhook.Sign(secrets, "evt_1", at, []byte(body)))(t)
		h := http.Header{}
		h.Set(webhook.HeaderID, "evt_1")
		h.Set(webhook.HeaderTimestamp, fmt.Sprint(at.Unix()))
		h.Set(webhook.HeaderSignature, signature)
		list = append(list, message{name, h, body, status})
	}
	sign("one secret", 204, now, own)
	sign("while rotating, by a receiver with the new secret", 204, now, own, other)
	sign("while rotating, by a receiver with the old secret", 204, now, other, own)
	sign("another endpoint's secrets", 401, now, other, foreign)
	sign("after the rotation, by a receiver with the old secret", 401, now, other)
	sign("a clock that is 4 minutes slow", 204, now.Add(-4*time.Minute), own)
	sign("a clock that is 4 minutes fast", 204, now.Add(4*time.Minute), own)
	sign("a message of 6 minutes ago: a replay", 401, now.Add(-6*time.Minute), own)
	sign("a message from 6 minutes ahead", 401, now.Add(6*time.Minute), own)
	meddle := func(name string, change func(*message)) {
		sign(name, 401, now, own)
		change(&list[len(list)-1])
	}
	meddle("a changed byte in the body", func(m *message) { m.body = strings.Replace(m.body, "evt_1", "evt_2", 1) })
	meddle("a body written again by a JSON library", func(m *message) { m.body = strings.ReplaceAll(m.body, ":", ": ") })
	meddle("another id", func(m *message) { m.header.Set(webhook.HeaderID, "evt_2") })
	meddle("another timestamp", func(m *message) { m.header.Set(webhook.HeaderTimestamp, fmt.Sprint(now.Unix()+1)) })
	meddle("no signature", func(m *message) { m.header.Del(webhook.HeaderSignature) })
	meddle("a signature of another version", func(m *message) {
		m.header.Set(webhook.HeaderSignature, strings.Replace(m.header.Get(webhook.HeaderSignature), "v1,", "v2,", 1))
	})
	return list
}
