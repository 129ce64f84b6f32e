package main_test

import (
	"context"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/cli/local/localtest"
	remit "github.com/remit-payouts/remit/sdk/go"
)

// binary is the command under test, built once.
var binary string

func TestMain(m *testing.M) { os.Exit(localtest.Main(m, &binary)) }

const payee = "0x2222222222222222222222222222222222222222"

// local starts `remit local` on free ports and returns a merchant of it.
func local(t *testing.T, args ...string) (*localtest.Process, merchant) {
	t.Helper()
	p, api := localtest.Local(t, t.Output(), binary, args...)
	return p, merchant{api, t}
}

// A merchant talks to a running stack.
type merchant struct {
	*remit.Client
	t *testing.T
}

// must makes a request that has to succeed, and returns its answer.
func (m merchant) must(method, path, body string) map[string]any {
	m.t.Helper()
	answer, err := m.Call(m.t.Context(), method, path, body)
	if err != nil || answer.Status >= 300 {
		m.t.Fatalf("%s %s: %d %s %v", method, path, answer.Status, answer.Body, err)
	}
	var value map[string]any
	if err := json.Unmarshal(answer.Body, &value); err != nil {
		m.t.Fatalf("%s %s: %v", method, path, err)
	}
	return value
}

// awaitConfirmed waits until every payment whose hash is known is confirmed.
func (m merchant) awaitConfirmed(hashes []string) {
	m.t.Helper()
	ctx, stop := context.WithTimeout(m.t.Context(), 5*time.Minute)
	defer stop()
	for _, hash := range hashes {
		for hash != "" {
			p, err := m.Get(ctx, hash)
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
