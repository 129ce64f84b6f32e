package main_test

import (
	"fmt"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestListen is what a merchant sees in a second terminal: an event for each way
// a payment ends, seconds after it, verified; and nothing left behind.
func TestListen(t *testing.T) {
	_, m := local(t, "--chain-listen", "127.0.0.1:0", "--block-time", "250ms")
	m.join()
	sandbox := m.must("GET", "/sandbox", "")
	var failing string
	for _, r := range sandbox["recipients"].([]any) {
		if r := r.(map[string]any); r["behaviour"] == "revert" {
			failing = r["address"].(string)
		}
	}
	for _, test := range []struct{ event, to, want string }{
		{"payment.confirmed", "0x2222222222222222222222222222222222222222", `payment\.confirmed  verified  1000000 USDC  inv-1  0x[0-9a-f]{64}  evt_\w+  → 204$`},
		{"payment.failed", failing, `payment\.failed     verified  1000000 USDC  execution_reverted  inv-1  0x[0-9a-f]{64}  evt_\w+  → 204$`},
	} {
		go pay(m, test.to)
		p, lines := launch(t, "{", "listen", m.url, "--key", m.key, "--events", test.event, "--body")
		if line := lines[len(lines)-2]; !regexp.MustCompile(test.want).MatchString(line) {
			t.Errorf("it printed %q", line)
		}
		if err := p.interrupt(); err != nil {
			t.Errorf("Ctrl-C: %v\n%s", err, p.stderr)
		}
		if left := m.must("GET", "/webhooks", "")["data"].([]any); len(left) != 0 {
			t.Errorf("it left %v", left)
		}
	}
}

// pay waits until the merchant has a webhook, then pays.
func pay(m *merchant, to string) {
	for range 100 {
		_, list, err := m.call(m.t.Context(), "GET", "/webhooks", "")
		if err == nil && len(list["data"].([]any)) > 0 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	status, body, err := m.call(m.t.Context(), "POST", "/send-payment", fmt.Sprintf(`{"to":%q,"amount":1000000,"reference":"inv-1"}`, to))
	if err != nil || status != 201 {
		m.t.Errorf("paying: %d %v %v", status, body, err)
	}
}

// TestListenShowsWhatIsNotGenuine: with another endpoint's secret nothing is
// verified, and the sender is told so.
func TestListenShowsWhatIsNotGenuine(t *testing.T) {
	_, m := local(t, "--chain-listen", "127.0.0.1:0", "--block-time", "250ms")
	m.join()
	address := free(t)
	secret := "whsec_" + strings.Repeat("A", 43) + "="
	tested := make(chan map[string]any, 1)
	go func() {
		for range 100 {
			_, body, err := m.call(m.t.Context(), "POST", "/webhooks", fmt.Sprintf(`{"url":"http://%s/"}`, address))
			if err == nil {
				_, attempt, _ := m.call(m.t.Context(), "POST", "/webhooks/"+body["id"].(string)+"/test", "{}")
				if attempt["status_code"] != nil {
					tested <- attempt
					return
				}
				_, _, _ = m.call(m.t.Context(), "POST", "/webhooks/"+body["id"].(string)+"/delete", "{}")
			}
			time.Sleep(50 * time.Millisecond)
		}
		close(tested)
	}()
	_, lines := launch(t, "{", "listen", "--listen", address, "--secret", secret, "--body")
	if line := lines[len(lines)-2]; !strings.Contains(line, "webhook.test       NOT GENUINE") || !strings.HasSuffix(line, "→ 401") {
		t.Errorf("it printed %q", line)
	}
	if attempt := <-tested; fmt.Sprint(attempt["status_code"]) != "401" {
		t.Errorf("the sender saw %v", attempt)
	}
}

// free returns an address of this machine that nobody listens at.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
