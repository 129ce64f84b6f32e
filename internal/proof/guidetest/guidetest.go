// Package guidetest reads the fenced blocks of README.md, CONTRIBUTING.md and docs/, so that tests run them as printed.
package guidetest

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tooltest"
)

// A Block is the text between two fences of a page.
type Block struct {
	Page string // path of the page, from the root of the repository
	Text string // every line, with its end; a test names the block by the beginning
}

var fenced = regexp.MustCompile("(?ms)^```[a-z]*\n(.*?)^```$")

// Blocks returns the blocks of every page below root, the root of the repository.
func Blocks(t testing.TB, root string) (all []Block) {
	t.Helper()
	for _, pattern := range []string{"README.md", "CONTRIBUTING.md", "docs/*.md", "docs/*/*.md"} {
		pages, _ := fs.Glob(os.DirFS(root), pattern) // its error is of the pattern alone
		for _, page := range pages {
			for _, m := range fenced.FindAllSubmatch(must.Get(os.ReadFile(root+"/"+page))(t), -1) {
				all = append(all, Block{Page: page, Text: string(m[1])})
			}
		}
	}
	return all
}

// Read returns the one block of a page that begins with start.
func Read(t testing.TB, root, page, start string) string {
	t.Helper()
	var found []string
	for _, b := range Blocks(t, root) {
		if b.Page == page && strings.HasPrefix(b.Text, start) {
			found = append(found, b.Text)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s has %d blocks that begin with %q, want one", page, len(found), start)
	}
	return found[0]
}

// Curl are lines of bash that take the place of curl on a machine that has none.
var Curl = fmt.Sprintf("command -v curl >/dev/null || curl() { go -C '%s' run ./testdata/curl \"$@\"; }\n", here())

// here returns the directory of this package.
func here() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(file)
}

// Run runs lines of blocks in one bash, in a directory of its own, and returns the text that they
// print, standard error included. In the lines, each odd element of replace is replaced by the next
// element: for example, the address on the page by the address of the test's stack.
func Run(t testing.TB, lines string, replace ...string) string {
	t.Helper()
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(lines, replace[i]) {
			t.Fatalf("no %s is in these lines:\n%s", replace[i], lines)
		}
	}
	cmd := exec.CommandContext(t.Context(), tooltest.Shell(t), "-c", Curl+strings.NewReplacer(replace...).Replace(lines))
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", lines, err, out)
	}
	return string(out)
}
