package main_test

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
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

	ethereum "github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"

	"github.com/remit-payouts/remit/internal/cli/local/localtest"
	"github.com/remit-payouts/remit/internal/proof/guidetest"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
)

// TestPayAListOfThePage pays the sample file as docs/clients.md does: each row alone, and
// under another name as a batch, each twice.
func TestPayAListOfThePage(t *testing.T) {
	_, m := local(t)
	sample, err := os.ReadFile("../../examples/payroll.csv")
	list := filepath.Join(t.TempDir(), "payroll.csv")
	if err := errors.Join(err, os.WriteFile(list, sample, 0o600)); err != nil {
		t.Fatal(err)
	}
	for begin, wants := range map[string][]string{
		"go run ./cmd/remit pay examples/payroll.csv --key":   {"3 rows, 2230.75 USDC in all", "to pay          nothing", "\n4,confirmed,0x"},
		"go run ./cmd/remit pay examples/payroll.csv --batch": {"in 1 batches", "to pay          nothing", "\n4,confirmed,0x"},
	} {
		printed := guidetest.Run(t, guidetest.Read(t, "../..", "docs/clients.md", begin),
			"go run ./cmd/remit", "REMIT_URL="+m.URL+" "+binary, "examples/payroll.csv", list, "$KEY", m.Key)
		for _, want := range wants {
			if !strings.Contains(printed, want) {
				t.Errorf("it did not print %q:\n%s", want, printed)
			}
		}
		if strings.Count(printed, "all 3 rows are confirmed, 2230.75 USDC") != 2 {
			t.Errorf("it printed\n%s", printed)
		}
	}
	if held, err := m.Balance(t.Context(), payee); err != nil || held.String() != "2501000000" {
		t.Errorf("Ada has %s, and not two salaries: %v", held, err)
	}
}

// TestPayKilled kills `remit pay` twenty times with SIGKILL in the middle of a list
// of 1,000 rows and lets it go through at last. The chain has each row once, and the
// file of results has the hash of each.
func TestPayKilled(t *testing.T) {
	t.Run("each row alone", func(t *testing.T) {
		t.Parallel()
		draw := rand.New(rand.NewPCG(1, 1))
		payKilled(t, func() (int64, bool) { return 1 + draw.Int64N(45), true }, "--batch=false") // 900 at most
	})
	t.Run("ten batches", func(t *testing.T) {
		t.Parallel()
		draw, arrived := rand.New(rand.NewPCG(1, 2)), 0
		payKilled(t, func() (int64, bool) {
			arrives := arrived < 9 && draw.IntN(2) == 0
			if arrives {
				arrived++
			}
			return 1, arrives
		}, "--batch")
	})
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("both modes at once ", seed), func(t *testing.T) {
			t.Parallel()
			draw := rand.New(rand.NewPCG(2, seed))
			payKilled(t, func() (int64, bool) { return 1 + draw.Int64N(5), draw.IntN(2) == 0 }, "--batch", "--batch=false")
		})
	}
}

// payKilled is TestPayKilled with a process for each mode. For each run, kill draws at which
// request for a payment they die, and whether that one still arrives.
func payKilled(t *testing.T, kill func() (at int64, arrives bool), modes ...string) {
	t.Helper()
	_, m := local(t)
	var facts devnet.Facts
	told, err := m.Call(t.Context(), http.MethodGet, "/sandbox", "")
	if err := errors.Join(err, json.Unmarshal(told.Body, &facts)); err != nil {
		t.Fatal(err)
	}
	rows := []byte("address,amount_units,reference\n")
	for i := range 1_000 {
		rows = fmt.Appendf(rows, "%s,%d,salary %d\n", payee, amountOf(i), i)
	}
	target, err := url.Parse(m.URL)
	if err != nil {
		t.Fatal(err)
	}
	var lists []string
	for range modes {
		lists = append(lists, filepath.Join(t.TempDir(), "list.csv"))
		if err := os.WriteFile(lists[len(lists)-1], rows, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var victims atomic.Pointer[[]*localtest.Process]
	var left atomic.Int64 // requests until the victim dies
	var arrives atomic.Bool
	proxy := httputil.NewSingleHostReverseProxy(target)
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && left.Add(-1) == 0 {
			for _, p := range *victims.Load() {
				_ = p.Process.Kill()
			}
			if r = r.WithContext(context.WithoutCancel(r.Context())); !arrives.Load() {
				return
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(between.Close)
	pay := func(flags ...string) (started []*localtest.Process) {
		for i, mode := range modes {
			p, err := localtest.Launch(t.Context(), t.Output(), binary, append([]string{"pay", lists[i], mode, "--url", between.URL,
				"--key", m.Key, "--yes", "--concurrency", "4"}, flags...)...)
			if err != nil {
				t.Fatal(err)
			}
			started = append(started, p)
		}
		return started
	}
	for n := range 20 {
		at, still := kill()
		arrives.Store(still)
		started := pay()
		victims.Store(&started)
		left.Store(at)
		for _, p := range started {
			if <-p.Ended; p.ProcessState.Exited() && len(modes) == 1 {
				t.Errorf("run %d ended by itself: %v", n, p.Wait())
			}
		}
	}
	left.Store(0)
	for i, p := range pay("--wait") {
		if err := p.Wait(); err != nil {
			t.Errorf("the last run ended with %v", err)
		}
		audit(t, facts, confirmed(t, lists[i]))
	}
}

// confirmed returns the hashes of 1,000 rows that are confirmed by the results of a list.
func confirmed(t *testing.T, list string) []string {
	t.Helper()
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
	return hashes
}

// amountOf is the amount of a payment, by which audit finds its transfer.
func amountOf(i int) int64 { return 1_000 + int64(i) }

// audit compares the chain with the answers: a payment whose hash is known is mined
// exactly once, any other at most once.
func audit(t *testing.T, facts devnet.Facts, hashes []string) {
	t.Helper()
	node, err := ethclient.DialContext(t.Context(), facts.RPCURL)
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	transfers, err := node.FilterLogs(t.Context(), ethereum.FilterQuery{
		FromBlock: big.NewInt(0), Addresses: []common.Address{common.Address(facts.Token.Address)},
		Topics: [][]common.Hash{
			{crypto.Keccak256Hash([]byte("Transfer(address,address,uint256)"))}, nil, {common.HexToHash(payee)},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	mined := map[int64]int{} // by amount
	for _, l := range transfers {
		mined[new(big.Int).SetBytes(l.Data).Int64()]++
	}
	for i, hash := range hashes {
		n := mined[amountOf(i)]
		delete(mined, amountOf(i))
		if n > 1 || n == 0 && hash != "" {
			t.Errorf("order-%d (%s) is mined %d times", i, hash, n)
		}
	}
	if len(mined) > 0 {
		t.Errorf("transfers that no request asked for: %v", mined)
	}
}
