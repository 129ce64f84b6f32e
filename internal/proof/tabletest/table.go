// Package tabletest runs tests over tables that stand in testdata. A line is a case: the reason for it, inputs, and the
// wanted outcome, with " | " between them. Blank lines and lines that begin with "# " are for readers.
//
// In inputs and outcomes {{word}} stands for the meaning of a word, {{text}} for
// the text with Go's escapes undone, and {{…*9}} for nine times either.
package tabletest

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/proof/must"
)

// A Case is one line of a table.
type Case struct {
	Name string
	In   []string // the columns between Name and Want
	Want string
}

// Run runs f as a subtest of t for each case that Read returns.
func Run(t *testing.T, words map[string]string, f func(*testing.T, Case)) {
	t.Helper()
	for _, c := range Read(t, words) {
		t.Run(c.Name, func(t *testing.T) { f(t, c) })
	}
}

// Read returns the cases in testdata/NAME.txt, where NAME is t's name. It ends t if
// the file has no case, or two cases of one name.
func Read(t *testing.T, words map[string]string) (all []Case) {
	t.Helper()
	file := "testdata/" + t.Name() + ".txt"
	text := must.Get(os.ReadFile(file))(t)
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); line == "" || strings.HasPrefix(line, "# ") {
			continue
		}
		columns := strings.Split(line, " | ")
		c := Case{Name: columns[0]}
		if len(columns) < 2 || seen[c.Name] {
			t.Fatalf("%s: a case needs a name of its own and an outcome: %s", file, line)
		}
		seen[c.Name] = true
		for i := range columns {
			columns[i] = expand(t, columns[i], words)
		}
		c.In, c.Want = columns[1:len(columns)-1], columns[len(columns)-1]
		all = append(all, c)
	}
	if len(all) == 0 {
		t.Fatalf("%s has no case", file)
	}
	return all
}

var braced = regexp.MustCompile(`{{(.+?)(?:\*(\d+))?}}`)

// expand returns a column with the meanings of all that stands in double braces.
func expand(t *testing.T, column string, words map[string]string) string {
	return braced.ReplaceAllStringFunc(column, func(s string) string {
		m := braced.FindStringSubmatch(s)
		text, known := words[m[1]]
		if !known {
			var err error
			if text, err = strconv.Unquote(`"` + m[1] + `"`); err != nil {
				t.Fatalf("%s: %v", s, err)
			}
		}
		if m[2] == "" {
			return text
		}
		times, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		return strings.Repeat(text, times)
	})
}
