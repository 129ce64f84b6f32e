package payment_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// A cells is a row with a cell of each kind.
type cells struct {
	Text   string            `json:"text"`
	Number token.Amount      `json:"number"`
	None   *int              `json:"none"`
	List   []int             `json:"list"`
	Pairs  map[string]string `json:"pairs"`
}

// TestCSV: cells are the fields as in JSON, and none is a formula.
func TestCSV(t *testing.T) {
	var out strings.Builder
	rows := []cells{{"a, \"b\"\n<c>", token.MaxAmount(), nil, []int{1}, map[string]string{"<": "&"}}}
	for _, formula := range []string{"=1", "+1", "-1", "@a", "\t=1", "\r=1", "'=1", "1=1", "", "null"} {
		rows = append(rows, cells{Text: formula})
	}
	must.OK(t, payment.CSV(&out, true, rows...))
	want := "text,number,none,list,pairs\n\"a, \"\"b\"\"\n<c>\"," + token.MaxAmount().String() + ",,[1],\"{\"\"<\"\":\"\"&\"\"}\"\n" +
		"'=1,0,,,\n'+1,0,,,\n'-1,0,,,\n'@a,0,,,\n'\t=1,0,,,\n\"'\r=1\",0,,,\n'=1,0,,,\n1=1,0,,,\n,0,,,\nnull,0,,,\n"
	if out.String() != want {
		t.Errorf("%q\nwant\n%q", out.String(), want)
	}
	if err := payment.CSV(full{}, true, rows...); !errors.Is(err, errFull) {
		t.Errorf("a disk that is full: %v", err)
	}
}

var errFull = errors.New("no space left")

// full is a writer that takes nothing.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }
