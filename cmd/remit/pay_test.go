package main_test

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"remit/internal/devnet"
	"remit/internal/guidetest"
)

// TestPayAListOfTheREADME pays the sample file as README.md does, twice, and a batch.
func TestPayAListOfTheREADME(t *testing.T) {
	_, m := local(t)
	m.join()
	sample, err := os.ReadFile("../../examples/payroll.csv")
	list := filepath.Join(t.TempDir(), "payroll.csv")
	if err := errors.Join(err, os.WriteFile(list, sample, 0o600)); err != nil {
		t.Fatal(err)
	}
	printed := guidetest.Run(t, guidetest.Read(t, "../..", "README.md", "go run ./cmd/remit pay"),
		"go run ./cmd/remit", "REMIT_URL="+m.url+" "+binary, "examples/payroll.csv", list, "$KEY", m.key)
	for _, want := range []string{"3 rows, 2230.75 USDC in all", "to pay          nothing", "\n4,confirmed,0x"} {
		if !strings.Contains(printed, want) {
			t.Errorf("it did not print %q:\n%s", want, printed)
		}
	}
	if strings.Count(printed, "all 3 rows are confirmed, 2230.75 USDC") != 2 {
		t.Errorf("it printed\n%s", printed)
	}
	batch := guidetest.Run(t, guidetest.Read(t, "../..", "README.md", "curl -s http://127.0.0.1:8080/send-payments"), "http://127.0.0.1:8080", m.url, "$KEY", m.key)
	if !strings.Contains(batch, `"status":"pending","amount":2230500000,"wallet_address":null`) {
		t.Errorf("the batch is answered\n%s", batch)
	}
}

// TestPayKilled kills `remit pay` twenty times with SIGKILL in the middle of a list
// of 1,000 rows and lets it go through at last. The chain has each row once, and the
// file of results has the hash of each.
func TestPayKilled(t *testing.T) {
	dir := t.TempDir()
	chain, printed := launch(t, "chain", "--chain-listen", "127.0.0.1:0", "--block-time", "250ms"), ""
	for line := ""; line != "}"; printed += line {
		line = chain.out.Await(t, "")
	}
	var facts devnet.Facts
	chainFile := filepath.Join(dir, "chain.json")
	if err := json.Unmarshal([]byte(printed), &facts); err != nil {
		t.Fatal(err)
	}
	rows := []byte("address,amount_units,reference\n")
	for i := range 1_000 {
		rows = fmt.Appendf(rows, "%s,%d,salary %d\n", payee, amountOf(i), i)
	}
	list := filepath.Join(dir, "list.csv")
	for file, text := range map[string][]byte{chainFile: []byte(printed), list: rows} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, m := local(t, "--rpc", facts.RPCURL, "--token", facts.Token.Address.String(), "--wallet-file", chainFile)
	m.join()
	target, err := url.Parse(m.url)
	if err != nil {
		t.Fatal(err)
	}
	draw := rand.New(rand.NewPCG(1, 1))
	var victim atomic.Pointer[process]
	var left atomic.Int64 // requests until the victim dies
	proxy := httputil.NewSingleHostReverseProxy(target)
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := victim.Load(); p != nil && r.Method == http.MethodPost && left.Add(-1) == 0 {
			_ = p.cmd.Process.Kill()
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(between.Close)
	pay := []string{"pay", list, "--url", between.URL, "--key", m.key, "--yes", "--concurrency", "4"}
	for n := range 20 {
		left.Store(1 + draw.Int64N(45)) // 900 at most
		p := launch(t, pay...)
		victim.Store(p)
		if <-p.ended; p.cmd.ProcessState.Exited() {
			t.Errorf("run %d ended by itself: %v", n, p.err)
		}
	}
	victim.Store(nil)
	p := launch(t, append(pay, "--wait")...)
	if <-p.ended; p.err != nil {
		t.Errorf("the last run ended with %v", p.err)
	}
	file, err := os.Open(list + ".results.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	results, err := csv.NewReader(file).ReadAll()
	if err != nil || len(results) != 1_001 {
		t.Fatalf("the results have %d lines: %v", len(results), err)
	}
	hashes := make([]string, 1_000)
	for i, result := range results[1:] {
		if hashes[i] = result[2]; result[1] != "confirmed" || hashes[i] == "" {
			t.Errorf("row %d: %v", i, result)
		}
	}
	audit(t, facts, hashes)
}
