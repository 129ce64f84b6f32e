package ethrpc_test

import (
	_ "embed" // testdata/replies.tsv
	"slices"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
)

//go:embed testdata/replies.tsv
var replies string

// said is one text of one client, as it goes over the wire.
type said struct {
	class               chain.Class
	client, code, words string
}

// recorded returns the texts of testdata/replies.tsv.
func recorded() (all []said) {
	for line := range strings.Lines(replies) {
		if f := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); len(f) == 5 {
			all = append(all, said{chain.Class(f[0]), f[1], f[2], f[3]})
		}
	}
	return all
}

func TestClassifiesWhatClientsSay(t *testing.T) {
	for _, row := range recorded() {
		t.Run(row.client+": "+row.words, func(t *testing.T) {
			s := serve(t, map[string]func(request) raw{"eth_sendRawTransaction": always(failure(row.code, row.words))})
			got := open(t, s.URL).Send(t.Context(), []byte{2})
			if got.Class != row.class {
				t.Errorf("class %s, want %s", got.Class, row.class)
			}
			if !strings.Contains(got.Detail, row.words) || !strings.Contains(got.Detail, row.code) {
				t.Errorf("detail %q does not say %s %q", got.Detail, row.code, row.words)
			}
		})
	}
}

func TestEveryClassHasARecordedText(t *testing.T) {
	for _, class := range chain.Classes() {
		if class != chain.Accepted && !slices.ContainsFunc(recorded(), func(s said) bool { return s.class == class }) {
			t.Errorf("no recorded text of class %s", class)
		}
	}
}

// misclassified reports whether a table gets a recorded text wrong.
func misclassified(table []ethrpc.Reply) bool {
	return slices.ContainsFunc(recorded(), func(s said) bool { return ethrpc.ClassOf(s.words, table) != s.class })
}

func TestEveryReplyAndItsPlaceAreNeeded(t *testing.T) {
	table := ethrpc.Replies()
	if misclassified(table) {
		t.Fatal("the table as it is gets a recorded text wrong")
	}
	pairs := 0
	for i, r := range table {
		if !misclassified(slices.Delete(slices.Clone(table), i, i+1)) {
			t.Errorf("without %q nothing is misclassified", r.Words)
		}
		if r.Words != strings.ToLower(r.Words) {
			t.Errorf("%q is not in lower case and never matches", r.Words)
		}
		for j, shorter := range table {
			if i == j || !strings.Contains(r.Words, shorter.Words) {
				continue
			}
			if j < i {
				t.Errorf("%q is never reached behind %q", r.Words, shorter.Words)
			}
			if r.Class == shorter.Class {
				continue
			}
			pairs++
			swapped := slices.Clone(table)
			swapped[i], swapped[j] = shorter, r
			if !misclassified(swapped) {
				t.Errorf("with %q before %q nothing is misclassified", shorter.Words, r.Words)
			}
		}
	}
	if pairs < 2 {
		t.Errorf("%d pairs of replies contain one another; want the two that are known", pairs)
	}
}
