package remit_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// foreign is what names something outside the repository that its reader does
// not have: package registries, which are the machine's own configuration, and
// paths and papers of the machines it was written on.
var foreign = regexp.MustCompile(`proxy\.golang\.org|sum\.golang\.org|registry\.npmjs\.org|\bpypi\.org|pythonhosted\.org|repo1?\.maven|deb\.debian\.org` +
	`|/work/(main|shared)|/tmp/(brief|venv)|/root/` +
	`|\b(DESIGN|STYLE|LOCAL|NODE_REPLIES|BRIEF|API|AWS)\.md\b|\bshared/`)

func TestNothingNamesWhatAReaderDoesNotHave(t *testing.T) {
	for path, text := range files(t) {
		if path == "house_test.go" || path == "go.sum" {
			continue
		}
		for i, line := range bytes.Split(text, []byte("\n")) {
			if found := foreign.Find(line); found != nil {
				t.Errorf("%s:%d names %s", path, i+1, found)
			}
		}
	}
}

func TestMainsOnlyWire(t *testing.T) {
	mains, err := filepath.Glob("functions/*/main.go")
	if err != nil || len(mains) == 0 {
		t.Fatalf("no mains: %v", err)
	}
	for _, path := range mains {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if lines := bytes.Count(text, []byte("\n")); lines > 30 {
			t.Errorf("%s has %d lines, more than 30: a main wires, the rest has a package", path, lines)
		}
	}
}

func TestDocumentsNameTargetsOfTheMakefile(t *testing.T) {
	all := files(t)
	var targets []string
	for _, m := range regexp.MustCompile(`(?m)^([a-z-]+):`).FindAllSubmatch(all["Makefile"], -1) {
		targets = append(targets, string(m[1]))
	}
	if len(targets) == 0 {
		t.Fatal("the Makefile has no targets")
	}
	named := regexp.MustCompile("(?m)(?:`|'|^\\s*\\$?\\s*)make ([a-z-]+)")
	for path, text := range all {
		if path == "house_test.go" {
			continue
		}
		for _, m := range named.FindAllSubmatch(text, -1) {
			if !slices.Contains(targets, string(m[1])) {
				t.Errorf("%s names 'make %s', which the Makefile does not have", path, m[1])
			}
		}
	}
}

// files returns every text file of the repository by its path, without what is
// built, installed or fetched.
func files(t *testing.T) map[string][]byte {
	t.Helper()
	texts := make(map[string][]byte)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains([]string{".git", ".cache", ".aws-sam", "node_modules", "testdata"}, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil && !bytes.ContainsRune(text, 0) && !strings.HasSuffix(path, ".svg") {
			texts[path] = text
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}
