package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"remit/internal/devnet"
)

// TestConsoleOfADeployedStack serves the page with the rights of who only looks. It shows
// a payment under way, one that is confirmed, one that failed and a paused wallet, tells
// the story of each, and calls nothing that writes.
func TestConsoleOfADeployedStack(t *testing.T) {
	o := newOperator(t)
	m := newMerchant(t, o.s)
	pay := func(to, key string) string {
		t.Helper()
		return m.call("POST", "/send-payment", map[string]any{"to": to, "amount": 59, "reference": key}, "Idempotency-Key", key).want(t,
			201).get("tx_hash")
	}
	ends := map[string]string{pay(recipient, "console-confirmed"): "CONFIRMED",
		pay(devnet.RevertRecipient.String(), "console-failed"): "FAILED"}
	var paid struct{ State, Wallet string }
	for hash, end := range ends {
		until(t, end, 90*time.Second, func() bool {
			o.ok(&paid, "payment", "show", hash)
			return paid.State == end
		})
	}
	o.ok(nil, "wallet", "pause", "--yes", "--reason", "seen by the console", paid.Wallet)
	o.s.Chain.Freeze(true)
	defer func() {
		o.s.Chain.Freeze(false)
		o.rights = nil
		o.ok(nil, "wallet", "resume", "--yes", paid.Wallet)
	}()
	ends[pay(recipient, "console-pending")] = "COMMITTED"
	o.assume("console", "RemitReader")
	o.s.calls.mu.Lock()
	maps.DeleteFunc(o.s.calls.seen, func(r right, _ bool) bool { return r.function == "operator" })
	o.s.calls.mu.Unlock()

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := o.command(ctx, "console", "--listen", "127.0.0.1:0")
	out, err := cmd.StdoutPipe()
	if err == nil {
		cmd.Stderr = t.Output()
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = cmd.Wait() }()
	first, err := bufio.NewReader(out).ReadString('\n')
	_, url, ok := strings.Cut(strings.TrimSpace(first), ": ")
	if err != nil || !ok {
		t.Fatalf("remit console says %q: %v", first, err)
	}
	url, token, _ := strings.Cut(url, "/?token=")
	_, port, _ := strings.Cut(strings.TrimPrefix(url, "http://"), ":")
	get := func(path string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.AddCookie(&http.Cookie{Name: "remit-" + port, Value: token})
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return answer
	}
	var shown struct {
		Payments []struct{ Hash, State string }
		Wallets  []struct{ Address, State, Paused string }
		Nodes    []struct{ Error string }
		Alarms   struct{ All []struct{ Name string } }
		Lines    []struct{ Text string }
		Calls    struct{ Used, Most int }
	}
	seen := map[string]string{}
	events := get("/page/events")
	defer func() { _ = events.Body.Close() }()
	lines := bufio.NewScanner(events.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		shown.Payments = nil
		if err := json.Unmarshal([]byte(data), &shown); err != nil {
			t.Fatal(err)
		}
		for _, p := range shown.Payments {
			if ends[p.Hash] != "" {
				seen[p.Hash] = p.State
			}
		}
		if len(shown.Lines) > 0 || maps.Equal(seen, ends) && len(shown.Alarms.All) > 0 {
			break
		}
	}
	if !maps.Equal(seen, ends) || len(shown.Lines) > 0 || len(shown.Nodes) != 1 || shown.Nodes[0].Error != "" ||
		len(shown.Alarms.All) == 0 || shown.Calls.Used > shown.Calls.Most {
		t.Errorf("the console shows %v of %v, and %+v", seen, ends, shown)
	}
	if !slices.ContainsFunc(shown.Wallets, func(w struct{ Address, State, Paused string }) bool {
		return w.Address == paid.Wallet && strings.HasPrefix(w.Paused, "seen by the console (by ")
	}) {
		t.Errorf("wallets: %+v", shown.Wallets)
	}
	for hash, end := range ends {
		var story struct {
			Payment  struct{ State string }
			Receipts []struct{ Says []string }
		}
		answer := get("/page/payment?find=" + hash)
		err := json.NewDecoder(answer.Body).Decode(&story)
		if _ = answer.Body.Close(); err != nil || story.Payment.State != end || len(story.Receipts) != 1 ||
			(len(story.Receipts[0].Says) > 0) != (end != "COMMITTED") {
			t.Errorf("the story of a payment that is %s: %+v, %v", end, story, err)
		}
	}
	o.s.calls.mu.Lock()
	defer o.s.calls.mu.Unlock()
	reads := []string{"dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query", "dynamodb:Scan", "secretsmanager:GetSecretValue",
		":"} // ":" are those of CloudFormation and CloudWatch
	recorded := 0
	for r := range o.s.calls.seen {
		if r.function == "operator" {
			if recorded++; !slices.Contains(reads, r.action) && !strings.HasPrefix(r.action, ":") {
				t.Errorf("the console calls %s of %s", r.action, r.resource)
			}
		}
	}
	if recorded < 4 {
		t.Errorf("%d kinds of calls are recorded", recorded)
	}
}
