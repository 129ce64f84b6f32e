package operator_test

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/operatortest"
)

// TestExport: every payment of a time, whole, and in two forms.
func TestExport(t *testing.T) {
	l := operatortest.NewLedger(t)
	for _, row := range []struct {
		line string
		want []uint64 // amounts, in any order
	}{
		{"export", []uint64{5, 6, 7, 9, 1_500_000}},
		{"export --merchant mer_1", []uint64{5, 6, 7, 9, 1_500_000}},
		{"export --merchant mer_2", nil},
		{"export --since 2026-01-03 --until 2026-01-04", []uint64{6, 7}},
		{"export --merchant mer_1 --since 2026-01-03 --until 2026-01-04", []uint64{6, 7}},
		{"export --since 2026-01-05", []uint64{9, 1_500_000}},
	} {
		text := must.Get(l.Run(nil, strings.Fields(row.line)...))(t)
		var amounts []uint64
		for line := range strings.Lines(text) {
			var p struct {
				Amount   uint64
				Decimal  string  `json:"amount_decimal"`
				Merchant string  `json:"merchant_id"`
				Fee      *uint64 `json:"network_fee"`
			}
			must.OK(l, json.Unmarshal([]byte(line), &p))
			amounts = append(amounts, p.Amount)
			if p.Merchant != "mer_1" || p.Amount == 1_500_000 && p.Decimal != "1.5" || (p.Fee == nil) != (p.Amount == 9) {
				t.Errorf("remit %s: %s", row.line, line)
			}
		}
		slices.Sort(amounts)
		if !slices.Equal(amounts, row.want) {
			t.Errorf("remit %s: amounts %v, want %v", row.line, amounts, row.want)
		}
		text, err := l.Run(nil, append(strings.Fields(row.line), "--csv")...)
		rows, parse := csv.NewReader(strings.NewReader(text)).ReadAll()
		if err = errors.Join(err, parse); err != nil || len(rows) != len(row.want)+1 ||
			!strings.HasPrefix(text, "id,merchant_id,idempotency_key,paid_by,amount_decimal,tx_hash,status,amount,") {
			t.Errorf("remit %s --csv: %v\n%s", row.line, err, text)
		}
		if len(row.want) > 0 && !strings.Contains(text, ",'=1+1,{},") {
			t.Errorf("remit %s --csv: a spreadsheet would take the reference for a formula:\n%s", row.line, text)
		}
	}
	if _, err := l.Run(nil, "export", "--since", "2026-01-05", "--until", "2026-01-04"); err == nil ||
		!strings.Contains(err.Error(), "is before --since") {
		t.Errorf("no time at all: %v", err)
	}
}
