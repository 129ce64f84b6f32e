package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"remit/internal/dynamo/dynamotest"
)

// TestSameKeysThreeTimes sends 500 payments with 32 clients at once, three
// times with the same Idempotency-Keys. Each is mined once, no nonce is left
// out, and every answer carries the same hash.
func TestSameKeysThreeTimes(t *testing.T) {
	p, m := local(t, "--chain-listen", "127.0.0.1:0", "--block-time", "250ms")
	m.join()
	all := orders(500)
	for round := range 3 {
		if errs := m.payAll(t.Context(), all, 32); len(errs) > 0 {
			t.Fatalf("round %d: %d requests were not answered 201, first: %v", round, len(errs), errs[0])
		}
	}
	m.awaitStatus(all, "confirmed", time.Minute)
	at := m.scene()
	audit(t, at, all)
	noHoles(t, at.rpc, at.wallets)
	if err := p.interrupt(); err != nil {
		t.Errorf("Ctrl-C: %v\n%s", err, p.stderr)
	}
}

// audit holds the chain against what was answered: a payment that got its 201
// is mined exactly once, any other at most once.
func audit(t *testing.T, at scene, all []*order) {
	t.Helper()
	counts := mined(t, at.rpc, at.token)
	for _, o := range all {
		n := counts[o.amount]
		delete(counts, o.amount)
		if n > 1 || n == 0 && o.hash != "" {
			t.Errorf("%s (%s) is mined %d times", o.key, o.hash, n)
		}
	}
	if len(counts) > 0 {
		t.Errorf("transfers nobody asked for: %v", counts)
	}
}

// TestKilled kills the server with SIGKILL in the middle of a load, with its
// tables and its chain outside the process, and starts it again. Whatever was
// answered 201 is mined exactly once, the rest at most once, and repeating
// every request then finishes them all.
func TestKilled(t *testing.T) {
	dynamodb := dynamotest.Start(t)
	file := filepath.Join(t.TempDir(), "chain.json")
	_, lines := launch(t, "}", "chain", "--chain-listen", "127.0.0.1:0", "--block-time", "250ms")
	facts := strings.Join(lines, "\n")
	if err := os.WriteFile(file, []byte(facts), 0o600); err != nil {
		t.Fatal(err)
	}
	var at struct {
		RPC   string `json:"rpc_url"`
		Token struct {
			Address string `json:"address"`
		} `json:"token"`
	}
	if err := json.Unmarshal([]byte(facts), &at); err != nil {
		t.Fatal(err)
	}
	args := []string{"--rpc", at.RPC, "--token", at.Token.Address, "--wallet-file", file, "--dynamodb", dynamodb, "--block-time", "250ms"}

	p, m := local(t, args...)
	m.join()
	all := orders(500)
	m.answered = func(n int) {
		if n == 120 {
			p.kill()
		}
	}
	failed := m.payAll(t.Context(), all, 32)
	answered := 0
	for _, o := range all {
		if o.hash != "" {
			answered++
		}
	}
	t.Logf("%d payments were answered 201 before the server was killed, %d were not", answered, len(failed))
	if answered == 0 || len(failed) == 0 {
		t.Errorf("the server was not killed in the middle of the load")
	}

	restarted, again := local(t, args...)
	t.Cleanup(func() {
		restarted.kill()
		if t.Failed() {
			t.Logf("the restarted server wrote:\n%s", restarted.stderr)
		}
	})
	again.key = m.key
	again.awaitStatus(all, "confirmed", time.Minute)
	audit(t, again.scene(), all)
	if errs := again.payAll(t.Context(), all, 32); len(errs) > 0 {
		t.Fatalf("%d requests failed after the restart, first: %v", len(errs), errs[0])
	}
	again.awaitStatus(all, "confirmed", time.Minute)
	scene := again.scene()
	audit(t, scene, all)
	noHoles(t, scene.rpc, scene.wallets)
}
