package main_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/proof/guidetest"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/local/localtest"
	remit "github.com/remit-payouts/remit/sdk/go"
)

// TestPayAListOfThePage pays the sample file as docs/clients.md does: each row alone, and
// under another name as a batch, each twice.
func TestPayAListOfThePage(t *testing.T) {
	_, m := local(t)
	sample, err := os.ReadFile("../../examples/payroll.csv")
	list := filepath.Join(t.TempDir(), "payroll.csv")
	must.OK(t, errors.Join(err, os.WriteFile(list, sample, 0o600)))
	for begin, wants := range map[string][]string{
		"go run ./cmd/remit pay examples/payroll.csv --key":   {"3 rows, 2230.75 USDC in all", "to pay          nothing", "\n4,confirmed,0x"},
		"go run ./cmd/remit pay examples/payroll.csv --batch": {"in 1 batch", "to pay          nothing", "\n4,confirmed,0x"},
	} {
		printed := guidetest.Run(t, guidetest.Read(t, "../..", "docs/clients.md", begin),
			"go run ./cmd/remit", "REMIT_URL="+m.URL+" "+binary, "examples/payroll.csv", list, "$KEY", m.Key)
		for _, want := range wants {
			if !strings.Contains(printed, want) {
				t.Errorf("it did not print %q:\n%s", want, printed)
			}
		}
		if strings.Count(printed, "all 3 rows are confirmed, 2230.75 USDC") != 1 ||
			strings.Count(printed, "nothing new: 3 rows, 2230.75 USDC, on ") != 1 {
			t.Errorf("it printed\n%s", printed)
		}
	}
	if held, err := m.Balance(t.Context(), payee); err != nil || held.Balance.String() != "2501000000" {
		t.Errorf("Ada has %s, and not two salaries: %v", held.Balance, err)
	}
}

// TestPayKilledAtRandom: both modes pay one file of 200 rows at once, killed and started again, and each row is paid once.
func TestPayKilledAtRandom(t *testing.T) {
	_, m := local(t)
	list := filepath.Join(t.TempDir(), "payroll.csv")
	rows, want := "address,amount_units\n", map[string]int{}
	for i := range 200 {
		rows += fmt.Sprintf("0x%040x,%d\n", 0x9a7000+i, 1000+i)
		want[fmt.Sprint(1000+i)] = 1
	}
	must.OK(t, os.WriteFile(list, []byte(rows), 0o600))
	var running sync.WaitGroup
	for seed, flags := range [][]string{{"--batch"}, nil} {
		draw := rand.New(rand.NewPCG(uint64(seed), 0))
		running.Go(func() {
			for kills := range 6 {
				ctx, end := t.Context(), func() {}
				if kills < 5 {
					ctx, end = context.WithTimeout(ctx, time.Duration(100+draw.IntN(600))*time.Millisecond) // then it is killed
				}
				defer end()
				cmd := exec.CommandContext(ctx, binary, append([]string{"pay", list, "--run", "June", "--yes", "--wait"}, flags...)...)
				cmd.Env = append(os.Environ(), "REMIT_URL="+m.URL, "REMIT_API_KEY="+m.Key)
				if out, err := cmd.CombinedOutput(); err != nil && kills == 5 && cmd.ProcessState.ExitCode() != 3 { // the other paid the rest
					t.Errorf("%q: %v\n%s", flags, err, out)
				}
			}
		})
	}
	running.Wait()
	have := map[string]int{}
	for p, err := range m.List(t.Context(), url.Values{"limit": {"100"}}) {
		must.OK(t, err)
		for _, e := range append(p.Payments, remit.BatchEntry{Amount: p.Amount})[:max(1, len(p.Payments))] {
			have[e.Amount.String()]++
		}
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("payments of each row (-want +have):\n%s", diff)
	}
}

// TestRecoverPage types the commands of docs/operate.md for the books of a stack on this machine, and those of
// docs/disasters.md when it has lost nothing: they find its payment, put nothing back, and let the wallets pay again.
func TestRecoverPage(t *testing.T) {
	p, m := local(t, "--window", "4", "--wallets", "2")
	order := remit.Order{To: payee, Amount: "1"}
	hash := must.Get(m.Attempt(t.Context(), "", order))(t).TxHash
	must.Get(m.Wait(t.Context(), hash))(t)
	t.Setenv("REMIT_STACK", m.URL)
	books := guidetest.Run(t, guidetest.Read(t, "../..", "docs/operate.md", "remit audit"), "remit ", binary+" ", "mer_…", "operator")
	if strings.Count(books, "No difference.") != 2 || strings.Count(books, hash) < 2 {
		t.Errorf("the books show\n%s", books)
	}
	printed := guidetest.Run(t, guidetest.Read(t, "../..", "docs/disasters.md", "remit recover --dry-run"), "remit recover", binary+" recover")
	for _, want := range []string{"nothing was changed", "Every wallet of stack", "2 wallets, 256 nonces used up",
		"1 payments of the tables are on the chain", "0 payments put back, 0 USDC", "the wallets pay again"} {
		if !strings.Contains(printed, want) {
			t.Errorf("the page's commands do not print %q:\n%s", want, printed)
		}
	}
	if printed = guidetest.Run(t, binary+" settings show"); !strings.Contains(printed, "(not confirmed for this table)") {
		t.Errorf("settings that may be older than the loss are still confirmed:\n%s", printed)
	}
	must.Get(m.Attempt(t.Context(), "", order))(t)
	must.OK(t, p.Interrupt())
}

// binary is the command under test, built once.
var binary string

func TestMain(m *testing.M) { os.Exit(localtest.Main(m, &binary)) }

const payee = "0x2222222222222222222222222222222222222222"

// local starts `remit local` on free ports and returns a merchant of it.
func local(t *testing.T, args ...string) (*localtest.Process, *remit.Client) {
	t.Helper()
	return localtest.Local(t, t.Output(), binary, args...)
}
