package main_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/cli/client"
	"github.com/remit-payouts/remit/internal/proof/guidetest"
)

// TestRetireUnderPayments types what docs/operate.md says of the end of a wallet, for the
// only wallet of a stack that makes ten payments a second: all are answered 201, all are
// mined, and the audit finds each once.
func TestRetireUnderPayments(t *testing.T) {
	for _, row := range []struct {
		name  string
		pages []string // the first lines of the blocks
	}{
		{"rotate", []string{"remit wallet rotate"}},
		{"by hand", []string{"remit wallet create", "remit wallet drain"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			p, m := local(t, "--wallets", "1")
			rpc := m.must("GET", "/sandbox", "")["rpc_url"].(string)
			remit := func(line string) (string, error) {
				cmd := exec.CommandContext(t.Context(), binary, strings.Fields(strings.TrimPrefix(line, "remit "))...)
				cmd.Env = append(os.Environ(), "REMIT_STACK="+m.URL)
				out, err := cmd.CombinedOutput()
				return string(out), err
			}
			type wallet struct {
				Address, State string
				TokenAvailable json.Number `json:"token_available"`
			}
			list := func() (wallets []wallet) {
				if out, err := remit("wallet list --json"); err != nil || json.Unmarshal([]byte(out), &wallets) != nil {
					t.Errorf("%v: %s", err, out)
				}
				return wallets
			}
			before := list()
			if len(before) != 1 {
				t.Fatalf("the stack has the wallets %v", before)
			}
			old, successor := before[0].Address, ""
			typed := func(line string) {
				if line = strings.NewReplacer("0xfrom…", old, "0x…", old, "0xto…", successor).Replace(line); line != "remit wallet list" {
					line += " --yes"
				}
				out, err := remit(line)
				for deadline := time.Now().Add(2 * time.Minute); err != nil && strings.Contains(out, "the wallet is not settled") &&
					time.Now().Before(deadline); time.Sleep(time.Second) {
					out, err = remit(line) // the page: run it again later
				}
				if err != nil {
					t.Errorf("%s: %v, %s", line, err, out)
				}
				if made, _, ok := strings.Cut(out, "\nFund it with "); ok {
					successor = made[strings.LastIndex(made, "0x"):]
					if out, err := remit("chain fund " + successor + " --token 500 --ether 5 --rpc " + rpc); err != nil {
						t.Errorf("funding %s: %v, %s", successor, err, out)
					}
					unfunded := func(w wallet) bool { return w.Address == successor && w.TokenAvailable == "0" }
					for deadline := time.Now().Add(time.Minute); slices.ContainsFunc(list(), unfunded) &&
						time.Now().Before(deadline); time.Sleep(time.Second) {
					} // the page: until the list shows it
				}
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for _, page := range row.pages {
					for line := range strings.Lines(guidetest.Read(t, "../..", "docs/operate.md", page)) {
						typed(strings.TrimSpace(line))
					}
				}
			}()
			var paying sync.WaitGroup
			var mu sync.Mutex
			var hashes []string
			every, began := time.NewTicker(100*time.Millisecond), time.Now()
			defer every.Stop()
			for after := 0; after < 20; { // two seconds of payments from the successor alone
				<-every.C
				paying.Go(func() {
					paid, err := m.Send(t.Context(), client.Order{To: payee, Amount: "1000"}, "")
					if err != nil {
						t.Errorf("a payment after %v: %v", time.Since(began).Round(time.Millisecond), err)
						return
					}
					mu.Lock()
					defer mu.Unlock()
					hashes = append(hashes, paid.Hash)
				})
				select {
				case <-ended:
					after++
				default:
				}
			}
			paying.Wait()
			took := time.Since(began)
			slices.Sort(hashes)
			if n := len(hashes); len(slices.Compact(hashes)) != n {
				t.Error("two payments have one hash")
			}
			m.awaitConfirmed(hashes)
			t.Logf("%d payments in %v", len(hashes), took.Round(time.Second))
			for _, w := range list() {
				if want := map[bool]string{true: "retired", false: "active"}[w.Address == old]; w.State != want {
					t.Errorf("%s is %s", w.Address, w.State)
				}
			}
			if out, err := remit("audit"); err != nil || !strings.Contains(out, "No difference.") {
				t.Errorf("the books: %v, %s", err, out)
			}
			if err := p.Interrupt(); err != nil {
				t.Error(err)
			}
		})
	}
}
