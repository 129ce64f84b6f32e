package main_test

import (
	"bytes"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
	"github.com/remit-payouts/remit/internal/sandbox/local/localtest"
)

// TestErrorsNameTheNextStep holds that every error of the commands is in a table with the part of its text that names
// the next step, or in parentheses the reason why it has none. An error that wraps another one and adds no step needs
// no row.
func TestErrorsNameTheNextStep(t *testing.T) {
	texts := map[string]string{} // and where they are
	for _, root := range []string{".", "../../internal/cli"} {
		must.OK(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				err = errorTexts(path, texts)
			}
			return err
		}))
	}
	step := regexp.MustCompile(`[;:,(] *$|^[^;]*%w$`) // around a wrapped error
	tabletest.Run(t, nil, func(t *testing.T, c tabletest.Case) {
		if texts[c.Name] == "" {
			t.Errorf("no command has this error: delete the row")
		}
		if delete(texts, c.Name); !strings.HasPrefix(c.Want, "(") && !strings.Contains(c.Name, c.Want) {
			t.Errorf("its text does not name the step %q", c.Want)
		}
	})
	for text, at := range texts {
		if !step.MatchString(text) {
			t.Errorf("%s: %q: add a row with its next step to testdata/%s.txt", at, text, t.Name())
		}
	}
}

// errorTexts adds the texts of a file's calls of errors.New and fmt.Errorf.
func errorTexts(path string, texts map[string]string) error {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, 0)
	if err != nil {
		return err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		if f, ok := call.Fun.(*ast.SelectorExpr); ok && (f.Sel.Name == "Errorf" || f.Sel.Name == "New") {
			if x, ok := f.X.(*ast.Ident); ok && (x.Name == "fmt" || x.Name == "errors") {
				if text := constant(call.Args[0]); text != "" {
					texts[strings.ReplaceAll(text, "\n", `\n`)] = set.Position(call.Pos()).String()
				}
			}
		}
		return true
	})
	return nil
}

// constant returns the literal parts of a text.
func constant(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value) // of a literal that compiles
		return text
	case *ast.BinaryExpr:
		return constant(e.X) + constant(e.Y)
	}
	return ""
}

// TestWrongUse: a command that cannot do its work ends with 1, one plain message and no line over 200 columns.
func TestWrongUse(t *testing.T) {
	p, m := local(t)
	dir := t.TempDir()
	for name, text := range map[string]string{"typo": "addrss,amount\n" + payee + ",1\n", "empty": "",
		"good":  "address,amount\n" + payee + ",1\n",
		"short": "address,amount\n0x222222222222222222222222222222222222222,1\n",
		"long":  "address,amount\n" + strings.Repeat("0123456789 ", 60) + ",1\n"} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name+".csv"), []byte(text), 0o600))
	}
	goes := regexp.MustCompile(`dial |context |parsing time|Post "|Get "|invalid duration|EOF|0x[0-9a-f]{8,}\)|%!|, errno`)
	tabletest.Run(t, nil, func(t *testing.T, c tabletest.Case) {
		cmd := exec.CommandContext(t.Context(), binary, strings.Fields(c.In[0])...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "REMIT_URL="+m.URL, "REMIT_STACK="+m.URL, "REMIT_API_KEY="+m.Key)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		err := cmd.Run()
		ended, _ := errors.AsType[*exec.ExitError](err)
		if ended == nil || ended.ExitCode() != 1 {
			t.Errorf("it ended with %v", err)
		}
		text := stderr.String()
		if !strings.Contains(strings.Join(strings.Fields(text), " "), c.Want) || goes.MatchString(text) {
			t.Errorf("it says\n%s", text)
		}
		for line := range strings.Lines(text) {
			if utf8.RuneCountInString(line) > 201 {
				t.Errorf("a line of %d columns: %s", utf8.RuneCountInString(line), line)
			}
		}
	})
	must.OK(t, p.Interrupt())
}

// TestPayInterrupted: Ctrl-C ends remit pay with one sentence, no text of Go is in the results, and the next run pays the rest.
func TestPayInterrupted(t *testing.T) {
	_, m := local(t, "--block-time", "200ms")
	list := filepath.Join(t.TempDir(), "list.csv")
	must.OK(t, os.WriteFile(list, []byte("address,amount_units,reference\n"+strings.Repeat(payee+",1,\n", 3000)), 0o600))
	t.Setenv("REMIT_URL", m.URL)
	t.Setenv("REMIT_API_KEY", m.Key)
	var stderr bytes.Buffer
	args := []string{"pay", list, "--yes", "--duplicates", "--concurrency", "4"}
	p := must.Get(localtest.Launch(t.Context(), &stderr, binary, args...))(t)
	must.Get(p.Out.Until(func(line string) bool { return strings.Contains(line, "line 3001 repeats") }))(t)
	for written := []byte(nil); !bytes.Contains(written, []byte(",pending,")); written, _ = os.ReadFile(list + ".results.csv") {
		time.Sleep(50 * time.Millisecond)
	}
	err := p.Interrupt()
	if ended, _ := errors.AsType[*exec.ExitError](err); ended == nil || ended.ExitCode() != 1 ||
		!regexp.MustCompile(`^remit: interrupted: of 3000 rows [^\n]*not sent; [^\n]*results.csv has each; run the same[^\n]*\n$`).Match(stderr.Bytes()) {
		t.Errorf("%v: %s", err, &stderr)
	}
	written := must.Get(os.ReadFile(list + ".results.csv"))(t)
	if gos := regexp.MustCompile(`.*(context|signal|Post ).*`).Find(written); gos != nil || bytes.Count(written, []byte("\n")) != 3001 {
		t.Errorf("%d lines of results, one of them %q", bytes.Count(written, []byte("\n")), gos)
	}
}
