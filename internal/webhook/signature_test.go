package webhook_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"remit/internal/webhook"
)

// A message is one to a receiver, and whether the receiver must accept it.
type message struct {
	Name    string            `json:"name"`
	Secret  string            `json:"secret"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	Accept  bool              `json:"accept"`
}

// messages are signed by this package at now and then meddled with in one way
// each.
func messages(t *testing.T, now time.Time) []message {
	t.Helper()
	current, previous, foreign := mint(t), mint(t), mint(t)
	body := `{"id":"evt_1","data":{"reference":"Söđ 🧁  </script>","amount":115792089237316195423570985008687907853269984665640564039457584007913129639935}}`
	sign := func(name string, receiver webhook.Secret, secrets []webhook.Secret, at time.Time, accept bool) message {
		signature, err := webhook.Sign(secrets, "evt_1", at, []byte(body))
		must(t, err)
		return message{name, receiver.Reveal(), map[string]string{
			webhook.HeaderID: "evt_1", webhook.HeaderTimestamp: fmt.Sprint(at.Unix()), webhook.HeaderSignature: signature,
		}, body, accept}
	}
	one, both := []webhook.Secret{current}, []webhook.Secret{current, previous}
	list := []message{
		sign("one secret", current, one, now, true),
		sign("while rotating, by a receiver with the new secret", current, both, now, true),
		sign("while rotating, by a receiver with the old secret", previous, both, now, true),
		sign("another endpoint's secret", foreign, both, now, false),
		sign("after the rotation, by a receiver with the old secret", previous, one, now, false),
		sign("a clock that is 4 minutes slow", current, one, now.Add(-4*time.Minute), true),
		sign("a clock that is 4 minutes fast", current, one, now.Add(4*time.Minute), true),
		sign("a message of 6 minutes ago: a replay", current, one, now.Add(-6*time.Minute), false),
		sign("a message from 6 minutes ahead", current, one, now.Add(6*time.Minute), false),
	}
	meddle := func(name string, change func(*message)) {
		m := sign(name, current, one, now, false)
		change(&m)
		list = append(list, m)
	}
	meddle("a changed byte in the body", func(m *message) { m.Body = strings.Replace(m.Body, "evt_1", "evt_2", 1) })
	meddle("a body written again by a JSON library", func(m *message) { m.Body = strings.ReplaceAll(m.Body, ":", ": ") })
	meddle("another id", func(m *message) { m.Headers[webhook.HeaderID] = "evt_2" })
	meddle("another timestamp", func(m *message) { m.Headers[webhook.HeaderTimestamp] = fmt.Sprint(now.Unix() + 1) })
	meddle("no signature", func(m *message) { delete(m.Headers, webhook.HeaderSignature) })
	meddle("a signature of another version", func(m *message) {
		m.Headers[webhook.HeaderSignature] = strings.Replace(m.Headers[webhook.HeaderSignature], "v1,", "v2,", 1)
	})
	return list
}

func mint(t *testing.T) webhook.Secret {
	t.Helper()
	s, err := webhook.MintSecret(rand.Reader)
	must(t, err)
	return s
}

func TestTheGoLibraryAccepts(t *testing.T) {
	for _, m := range messages(t, time.Now()) {
		wh, err := standardwebhooks.NewWebhook(m.Secret)
		must(t, err)
		h := http.Header{}
		for k, v := range m.Headers {
			h.Set(k, v)
		}
		if err := wh.Verify([]byte(m.Body), h); (err == nil) != m.Accept {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
}

func TestThePythonLibraryAccepts(t *testing.T) {
	verify(t, exec.CommandContext(t.Context(), tool(t, "py/bin/python"), "-c", `
import json, sys
from standardwebhooks.webhooks import Webhook, WebhookVerificationError
for m in json.load(sys.stdin):
    try:
        Webhook(m["secret"]).verify(m["body"], m["headers"])
        print("yes")
    except WebhookVerificationError:
        print("no")
`))
}

func TestTheJavaScriptLibraryAccepts(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("node is missing: install Node.js 18 or later (Debian: nodejs)")
	}
	cmd := exec.CommandContext(t.Context(), node, "-e", `
const { Webhook, WebhookVerificationError } = require("standardwebhooks");
for (const m of JSON.parse(require("fs").readFileSync(0, "utf8"))) {
  try {
    new Webhook(m.secret).verify(m.body, m.headers);
    console.log("yes");
  } catch (e) {
    if (!(e instanceof WebhookVerificationError)) throw e;
    console.log("no");
  }
}
`)
	cmd.Env = append(os.Environ(), "NODE_PATH="+tool(t, "node/node_modules"))
	verify(t, cmd)
}

// verify gives all messages to a program that answers yes or no, line by line.
func verify(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	list := messages(t, time.Now())
	in, err := json.Marshal(list)
	must(t, err)
	cmd.Stdin = bytes.NewReader(in)
	out, err := cmd.Output()
	if err != nil {
		if ended, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("%v\n%s", err, ended.Stderr)
		}
		t.Fatal(err)
	}
	answers := strings.Fields(string(out))
	if len(answers) != len(list) {
		t.Fatalf("%d answers to %d messages", len(answers), len(list))
	}
	for i, m := range list {
		if (answers[i] == "yes") != m.Accept {
			t.Errorf("%s: accepted: %s", m.Name, answers[i])
		}
	}
}

// tool returns the absolute path of an installed tool, which is under .cache at
// the root of the module.
func tool(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../.cache", name))
	must(t, err)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s is not installed: run 'make tools'", filepath.Join(".cache", name))
	}
	return path
}

func TestSecretShape(t *testing.T) {
	s, err := webhook.MintSecret(bytes.NewReader(make([]byte, 32)))
	if err != nil || s.Reveal() != "whsec_"+strings.Repeat("A", 43)+"=" {
		t.Errorf("%q, %v", s.Reveal(), err)
	}
	if _, err := webhook.MintSecret(bytes.NewReader(make([]byte, 31))); err == nil {
		t.Error("31 random bytes are enough")
	}
	for _, bad := range []string{"", "whsec_", "whsec_AAA", "AAAA", "whsec_AA A=", "WHSEC_AAAA", "whsec_AAAA\n"} {
		if _, err := webhook.ParseSecret(bad); err == nil || bad != "" && strings.Contains(err.Error(), bad) && bad != "whsec_" {
			t.Errorf("ParseSecret(%q): %v", bad, err)
		}
	}
}

// TestNothingPrintsASecret: neither a log line nor an endpoint encoded by
// mistake.
func TestNothingPrintsASecret(t *testing.T) {
	s := mint(t)
	e := webhook.Endpoint{ID: "we_1", Secret: s, PreviousSecret: s}
	encoded, err := json.Marshal(e)
	must(t, err)
	var logged bytes.Buffer
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("endpoint", "e", e, "s", s)
	slog.New(slog.NewTextHandler(&logged, nil)).Info("endpoint", "e", e, "s", s)
	for _, out := range []string{
		fmt.Sprint(s), fmt.Sprintf("%+v %#v %q %x", s, s, s, s), fmt.Sprintf("%+v %#v %v", e, e, &e), string(encoded), logged.String(),
	} {
		if strings.Contains(out, s.Reveal()[6:20]) || strings.Contains(out, fmt.Sprintf("%x", s.Reveal()[6:20])) {
			t.Errorf("it is in %s", out)
		}
	}
}

// TestRotation: both secrets sign until the old one's time is over, then one.
func TestRotation(t *testing.T) {
	w := newFixture(t)
	old := w.register(mine, hook)
	fresh, err := w.registry.RotateSecret(t.Context(), mine, old.ID, time.Hour)
	must(t, err)
	send := func(n int) post {
		w.mustPublish(w.numbered(n))
		w.drain()
		return w.posts[len(w.posts)-1]
	}
	during := send(1)
	w.verified(during, old.Secret)
	w.verified(during, fresh.Secret)
	if entries := strings.Fields(during.header.Get(webhook.HeaderSignature)); len(entries) != 2 {
		t.Errorf("while rotating: %v", entries)
	}
	w.clock = w.now().Add(time.Hour)
	after := send(2)
	w.verified(after, fresh.Secret)
	if entries := strings.Fields(after.header.Get(webhook.HeaderSignature)); len(entries) != 1 {
		t.Errorf("after rotating: %v", entries)
	}
	at, err := w.registry.RotateSecret(t.Context(), mine, old.ID, 0)
	must(t, err)
	last := send(3)
	w.verified(last, at.Secret)
	if entries := strings.Fields(last.header.Get(webhook.HeaderSignature)); len(entries) != 1 || !at.PreviousSecret.IsZero() {
		t.Errorf("after rotating at once: %v", entries)
	}
}
