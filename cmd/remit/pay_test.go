package main_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/proof/guidetest"
	"github.com/remit-payouts/remit/internal/proof/must"
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
	if held, err := m.Balance(t.Context(), payee); err != nil || held.Balance.String() != "2501000000" {
		t.Errorf("Ada has %s, and not two salaries: %v", held.Balance, err)
	}
}
