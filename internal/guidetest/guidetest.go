// Package guidetest reads the fenced blocks of README.md, CONTRIBUTING.md and
// docs/, so that tests run them as they are printed.
package guidetest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A Block is the text between two fences of a page.
type Block struct {
	Page string // path of the page, from the root of the repository
	Text string // every line, with its end; a test names the block by the beginning
}

var fenced = regexp.MustCompile("(?ms)^```[a-z]*\n(.*?)^```$")

// Blocks returns the blocks of every page below root, the root of the repository.
func Blocks(root string) (all []Block, err error) {
	for _, pattern := range []string{"README.md", "CONTRIBUTING.md", "docs/*.md", "docs/*/*.md"} {
		pages, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil {
				return nil, err
			}
			name, err := filepath.Rel(root, page)
			if err != nil {
				return nil, err
			}
			for _, m := range fenced.FindAllStringSubmatch(string(text), -1) {
				all = append(all, Block{Page: filepath.ToSlash(name), Text: m[1]})
			}
		}
	}
	return all, nil
}

// Read returns the one block of a page that begins with start. root is the root
// of the repository.
func Read(t testing.TB, root, page, start string) string {
	t.Helper()
	all, err := Blocks(root)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, b := range all {
		if b.Page == page && strings.HasPrefix(b.Text, start) {
			found = append(found, b.Text)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%s has %d blocks that begin with %q, want one", page, len(found), start)
	}
	return found[0]
}

// curl takes the place of curl on a machine that has none: it knows the options
// that the pages use, and prints the body of the answer.
const curl = `command -v curl >/dev/null || curl() {
  local body= head= method= url=
  while (($#)); do
    case $1 in
      -s) ;;
      -X) method=$2; shift ;;
      -H) head+=$2$'\r\n'; shift ;;
      -d) body=$2 method=${method:-POST}; shift ;;
      http://*) url=${1#http://} ;;
      *) echo "curl: $1 is unknown here" >&2; return 2 ;;
    esac
    shift
  done
  local host=${url%%/*}
  exec 3<>"/dev/tcp/${host/://}"
  printf '%s /%s HTTP/1.0\r\nHost: %s\r\n%sContent-Length: %d\r\n\r\n%s' "${method:-GET}" "${url#*/}" "$host" "$head" "${#body}" "$body" >&3
  sed '1,/^\r$/d' <&3
}
`

// Run runs lines of blocks in one bash, in a directory of its own, and returns the
// text that they print, standard error included. Each odd element of replace
// stands in the lines, where the next one takes its place: the address of the
// test's stack, for example, takes that of the one on the page.
func Run(t testing.TB, lines string, replace ...string) string {
	t.Helper()
	for i := 0; i < len(replace); i += 2 {
		if !strings.Contains(lines, replace[i]) {
			t.Fatalf("no %s is in these lines:\n%s", replace[i], lines)
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", curl+strings.NewReplacer(replace...).Replace(lines))
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", lines, err, out)
	}
	return string(out)
}
