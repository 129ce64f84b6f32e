package main_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/proof/guidetest"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
	"github.com/remit-payouts/remit/internal/sandbox/local/localtest"
	remit "github.com/remit-payouts/remit/sdk/go"
)

// TestErrorsNameTheNextStep holds that every error of the commands, the sandbox and token is in a table with the part of
// its text that names the next step, or the reason why it has none; but not one that wraps another and adds no step.
func TestErrorsNameTheNextStep(t *testing.T) {
	texts, tests := map[string]string{}, regexp.MustCompile(`_test\.go|/localtest/`) // and where the texts are
	roots := "cmd/remit internal/cli internal/sandbox/local internal/sandbox/devnet internal/evm/token"
	for _, root := range strings.Fields(roots) {
		must.OK(t, filepath.WalkDir("../../"+root, func(path string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !tests.MatchString(path) {
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
	must.OK(t, os.WriteFile(filepath.Join(dir, "key"), []byte("0x"+strings.Repeat("01", 32)), 0o600))
	goes := regexp.MustCompile(`dial |context |parsing time|Post "|Get "|invalid duration|EOF|0x[0-9a-f]{8,}\)|%!|, errno`)
	words := map[string]string{"https": "https" + m.URL[4:], "long": strings.Repeat("n", 254)}
	tabletest.Run(t, words, func(t *testing.T, c tabletest.Case) {
		cmd := exec.CommandContext(t.Context(), binary, strings.Fields(c.In[0])...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "REMIT_URL="+m.URL, "REMIT_STACK="+m.URL, "REMIT_API_KEY="+m.Key)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		ended, _ := errors.AsType[*exec.ExitError](err)
		if ended == nil || ended.ExitCode() != 1 {
			t.Errorf("it ended with %v", err)
		}
		text := stderr.String()
		if !strings.Contains(strings.Join(strings.Fields(text), " "), c.Want) || goes.MatchString(text) {
			t.Errorf("it says\n%s", text)
		}
		for line := range strings.Lines(stdout.String() + text) {
			if utf8.RuneCountInString(line) > 201 {
				t.Errorf("a line of %d columns: %s", utf8.RuneCountInString(line), line)
			}
		}
	})
	must.OK(t, p.Interrupt())
}

// TestPayInterrupted: Ctrl-C ends remit pay with one sentence, without text of Go, and the next run pays the rest.
func TestPayInterrupted(t *testing.T) {
	_, m := local(t, "--block-time", "200ms")
	list := filepath.Join(t.TempDir(), "list.csv")
	must.OK(t, os.WriteFile(list, []byte("address,amount_units\n"+strings.Repeat(payee+",1\n", 3000)), 0o600))
	t.Setenv("REMIT_URL", m.URL)
	t.Setenv("REMIT_API_KEY", m.Key)
	var stderr bytes.Buffer
	args := []string{"pay", list, "--yes", "--duplicates"}
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
	if gos := regexp.MustCompile(`.*(context|signal|Post |broke).*`).Find(written); gos != nil || bytes.Count(written, []byte("\n")) != 3001 {
		t.Errorf("%d lines of results, one of them %q", bytes.Count(written, []byte("\n")), gos)
	}
}

// TestPayAListOfThePage pays the sample file as docs/clients.md does, by row and then as a batch, each twice.
func TestPayAListOfThePage(t *testing.T) {
	_, m := local(t)
	sample, err := os.ReadFile("../../examples/payroll.csv")
	list := filepath.Join(t.TempDir(), "payroll.csv")
	must.OK(t, errors.Join(err, os.WriteFile(list, sample, 0o600)))
	for _, wants := range [][]string{{"--key", "3 rows, 2230.75 USDC in all"}, {"--batch", "in 1 batch", "paid elsewhere"}} {
		block := guidetest.Read(t, "../..", "docs/clients.md", ".cache/run/remit pay examples/payroll.csv "+wants[0])
		printed := guidetest.Run(t, block,
			".cache/run/remit", "REMIT_URL="+m.URL+" "+binary, "examples/payroll.csv", list, "$KEY", m.Key)
		for _, want := range append(wants[1:], "to pay          nothing", "\n4,confirmed,0x") {
			if !strings.Contains(printed, want) {
				t.Errorf("it did not print %q:\n%s", want, printed)
			}
		}
		if strings.Count(printed, "confirmed: 3 rows, 2230.75 USDC") != 1 ||
			strings.Count(printed, "nothing new: 3 rows, 2230.75 USDC, since ") != 1 {
			t.Errorf("it printed\n%s", printed)
		}
	}
	if held, err := m.Balance(t.Context(), payee); err != nil || held.Balance.String() != "2501000000" {
		t.Errorf("Ada has %s, and not two salaries: %v", held.Balance, err)
	}
}

// TestPayKilledAtRandom: both modes pay one file of 200 rows at once, killed and started again, each row once.
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
					ctx, end = context.WithTimeout(ctx, time.Duration(100+draw.IntN(600))*time.Millisecond)
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
	guidetest.Run(t, binary+" wallet pause --yes --reason audit $("+binary+" wallet list | grep -om1 '0x[0-9A-Fa-f]*')")
	printed := guidetest.Run(t, guidetest.Read(t, "../..", "docs/disasters.md", "remit recover --dry-run"), "remit recover", binary+" recover")
	for _, want := range []string{"nothing was changed", " of stack " + m.URL, "wallets 2; nonces to use up: 256",
		"nonces used up: 256", "payments of the tables on the chain: 1", "payments put back: 0, 0 USDC",
		"pay again, except those that remit wallet list shows as paused", "payments to put back: 0, 0 USDC"} {
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

// TestChain: the embedded chain runs alone, and gives an account money.
func TestChain(t *testing.T) {
	local(t) // builds the binary
	chain := must.Get(localtest.Launch(t.Context(), t.Output(), binary, "chain", "serve", "--chain-listen", "127.0.0.1:0"))(t)
	url := strings.Split(chain.Out.Await(t, `"rpc_url"`), `"`)[3]
	if out := guidetest.Run(t, binary+" chain fund "+payee+" --rpc "+url); !strings.Contains(out, "was given 1000 tokens and 1 ether") {
		t.Error(out)
	}
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
