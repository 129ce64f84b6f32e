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

// foreign matches hosts of package registries, which each machine configures for
// itself, and paths below the home directory of one machine.
var foreign = regexp.MustCompile(`proxy\.golang\.org|sum\.golang\.org|registry\.npmjs\.org|\bpypi\.org|pythonhosted\.org|repo1?\.maven|deb\.debian\.org` +
	`|(^|[\s"'=(:])/(root|home|Users|work)/`)

func TestNoFileNamesAMachineOrARegistry(t *testing.T) {
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
		if lines := bytes.Count(text, []byte("\n")); lines > 45 {
			t.Errorf("%s has %d lines, more than 45: a main wires, the rest has a package", path, lines)
		}
	}
}

func TestDocumentsNameTargetsOfTheMakefile(t *testing.T) {
	all := files(t)
	var targets []string
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9-]+):`).FindAllSubmatch(all["Makefile"], -1) {
		targets = append(targets, string(m[1]))
	}
	if len(targets) == 0 {
		t.Fatal("the Makefile has no targets")
	}
	named := regexp.MustCompile("(?m)(?:`|'|^\\s*\\$?\\s*)make ([a-z0-9-]+)")
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

func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:\s]+)(?:#[^)\s]*)?\)`)
	found := 0
	for path, text := range files(t) {
		if filepath.Ext(path) != ".md" {
			continue
		}
		for _, m := range link.FindAllSubmatch(text, -1) {
			found++
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), string(m[1]))); err != nil {
				t.Errorf("%s links to %s: %v", path, m[1], err)
			}
		}
	}
	if found == 0 {
		t.Error("no document has a link: has their form changed?")
	}
}

func TestREADMELeadsToEveryDocument(t *testing.T) {
	all := files(t)
	for path := range all {
		if filepath.Dir(path) == "docs" && !bytes.Contains(all["README.md"], []byte("]("+path+")")) {
			t.Errorf("README.md does not link %s", path)
		}
	}
}

// files returns every text file of the repository by its path, without files that
// are built, installed or fetched.
func files(t *testing.T) map[string][]byte {
	t.Helper()
	texts := make(map[string][]byte)
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if slices.Contains([]string{".git", ".cache", ".aws-sam", "node_modules", "testdata"}, d.Name()) {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil // in a worktree .git is a file, and .cache may be a link
		}
		if d.IsDir() {
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
