package house_test

import (
	"bytes"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/remit-payouts/remit/internal/proof/must"
)

// TestBudget counts each row of CONTRIBUTING.md's budget. Deleting is the way to make room.
func TestBudget(t *testing.T) {
	files, count := map[string][]string{}, map[string]int{"parameters": len(at[node](readTemplate(t), "Parameters"))}
	for _, alarm := range resources(t, "AWS::CloudWatch::Alarm") {
		if at[any](alarm, "Properties.AlarmActions") != nil {
			count["alarms"]++
		}
	}
	onLambda := map[string]bool{}
	for _, pkg := range list(t, "{{.ImportPath}}", "-deps", "./functions/...") {
		if dir, ours := strings.CutPrefix(pkg[0], module); ours {
			onLambda[dir] = true
		}
	}
	out := must.Get(exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output())(t)
	for _, file := range slices.Compact(strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")) {
		text, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			continue // deleted, not yet committed
		}
		must.OK(t, err)
		row := rowOf(file, text, onLambda[path.Dir(file)])
		if row == "" {
			t.Errorf("%s is in no row of the budget: add its kind to rowOf", file)
		}
		files[row] = append(files[row], file)
		count[row] += lines(row, text)
	}
	table := regexp.MustCompile(`(?m)^\| ([^|]+?) \| ([\d,]+) \|`).FindAllSubmatch(must.Get(os.ReadFile("CONTRIBUTING.md"))(t), -1)
	for _, m := range table {
		row, most := string(m[1]), must.Get(strconv.Atoi(strings.ReplaceAll(string(m[2]), ",", "")))(t)
		n, counted := count[row]
		switch delete(count, row); {
		case !counted:
			t.Errorf("CONTRIBUTING.md has a budget for %q, which counts nothing", row)
		case n > most:
			t.Errorf("%s: %d lines, and its row in CONTRIBUTING.md holds %d (a line over 120 columns counts twice, a tab as four columns): "+
				"delete something, or raise the row and give the reason in the commit. Its files that grew since HEAD^:", row, n, most)
			for _, file := range files[row] {
				old, _ := exec.CommandContext(t.Context(), "git", "show", "HEAD^:"+file).Output() // or none
				if grew := lines(row, must.Get(os.ReadFile(file))(t)) - lines(row, old); grew > 0 {
					t.Errorf("%+5d %s", grew, file)
				}
			}
		}
		t.Logf("%-45s %6d of %6d", row, n, most)
	}
	t.Logf("%-45s %6d", apart, count[apart])
	delete(count, apart)
	for row, n := range count {
		t.Errorf("%s: %d, without a row in CONTRIBUTING.md's budget", row, n)
	}
}

// apart is the row of generated files and of data. It has no budget.
const apart = "generated code, fixtures and data"

var (
	generated = regexp.MustCompile(`(?m)^(//|#) Code generated .* DO NOT EDIT\.$`)
	data      = regexp.MustCompile(`(^|/)(testdata|events|examples|results)/|\.(json|txt|ya?ml|toml|mod|sum|work|xml|svg|png|csv|tsv|conf|typed)$` +
		`|(^|/)(\.[^/]*|LICENSE|CODEOWNERS|README)$`)
	proof     = regexp.MustCompile(`_test\.go$|^(bench|e2e|tools)/|^internal/(house|proof)/|/(httpapi|local)test/`)
	operators = regexp.MustCompile(`^cmd/|^internal/cli/(operator|plan)/|^internal/aws/(schema|kms/walletkey)/|^internal/(payments/recovery|evm/(disburser/install|ethrpc/inspect))/`)
	merchants = regexp.MustCompile(`^internal/cli/merchant/|^sdk/go/`)
)

// rowOf returns the row of the budget that a file is in, empty if it is of no known kind.
func rowOf(file string, text []byte, onLambda bool) string {
	first, _, _ := bytes.Cut(text, []byte("\n"))
	is := func(endings ...string) bool { return slices.Contains(endings, path.Ext(file)) }
	switch {
	case file == "template.yaml", file == "internal/api/httpapi/openapi.yaml":
		return path.Base(file)
	case generated.Match(text[:min(len(text), 200)]), data.MatchString(file):
		return apart
	case is(".md"):
		return "Markdown"
	case is(".py") || bytes.Contains(first, []byte("python")) || bytes.HasPrefix(first, []byte(`"""`)):
		return "Python"
	case is(".ts", ".js", ".mjs"):
		return "TypeScript and JavaScript"
	case is(".html", ".css", ".sol"):
		return "HTML, CSS and Solidity"
	case is(".sh", ".Dockerfile") || bytes.HasPrefix(first, []byte("#!")) || path.Base(file) == "Makefile":
		return "shell and make"
	case !is(".go", ".pml"):
		return ""
	case proof.MatchString(file):
		return "Go: proof"
	case onLambda:
		return "Go: runs on Lambda"
	case operators.MatchString(file):
		return "Go: operators"
	case merchants.MatchString(file):
		return "Go: merchants"
	}
	return "Go: sandbox"
}

// lines counts the lines of a text, and in rows of code twice those of more than 120 columns.
func lines(row string, text []byte) (n int) {
	wide := row != "Markdown" && row != "template.yaml"
	for line := range bytes.Lines(text) {
		n++
		if wide && utf8.RuneCount(bytes.TrimRight(line, "\n"))+3*bytes.Count(line, []byte("\t")) > 120 {
			n++
		}
	}
	return n
}
