package main_test

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"remit/internal/devnet"
	"remit/internal/guidetest"
)

// TestPayAListOfTheREADME pays the sample file as README.md does, twice.
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
	draw := rand.New(rand.NewPCG(1, 1))
	pay := []string{"pay", list, "--url", m.url, "--key", m.key, "--yes", "--concurrency", "4"}
	middle := 0
	for range 20 {
		p := launch(t, pay...)
		line := p.out.Await(t, "to pay")
		time.Sleep(time.Duration(10+draw.IntN(60)) * time.Millisecond)
		p.kill()
		if !strings.Contains(line, "1000 rows") && !strings.Contains(line, "nothing") {
			middle++
		}
	}
	if middle < 10 {
		t.Errorf("%d of 20 runs began with a part of the rows paid", middle)
	}
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
