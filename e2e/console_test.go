package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestConsoleOfADeployedStack: the rights of a reader are enough for every part of the page.
func TestConsoleOfADeployedStack(t *testing.T) {
	o := newOperator(t)
	m := newMerchant(t, o.s)
	m.call("POST", "/send-payment", map[string]any{"to": recipient, "amount": 59}, "Idempotency-Key", "console").want(t, 201)
	o.assume("console", "RemitReader")
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
		t.Fatalf("remit console prints %q: %v", first, err)
	}
	url, token, _ := strings.Cut(url, "/?token=")
	_, port, _ := strings.Cut(strings.TrimPrefix(url, "http://"), ":")
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/page/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.AddCookie(&http.Cookie{Name: "remit-" + port, Value: token})
	events, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = events.Body.Close() }()
	var shown struct {
		Payments  []struct{ Hash string }
		Wallets   []struct{ Address string }
		Nodes     []struct{ Error string }
		Alarms    struct{ All []struct{ Name string } }
		Endpoints struct{ Merchants int }
		Lines     []struct{ Text string } // what cannot be read
	}
	lines := bufio.NewScanner(events.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			if err := json.Unmarshal([]byte(data), &shown); err != nil {
				t.Fatal(err)
			}
			if len(shown.Lines) > 0 || len(shown.Alarms.All) > 0 && shown.Endpoints.Merchants > 0 {
				break
			}
		}
	}
	if len(shown.Lines) > 0 || len(shown.Payments) == 0 || len(shown.Wallets) == 0 || len(shown.Nodes) != 1 || shown.Nodes[0].Error != "" ||
		len(shown.Alarms.All) == 0 || shown.Endpoints.Merchants == 0 {
		t.Errorf("the console shows %+v", shown)
	}
}
