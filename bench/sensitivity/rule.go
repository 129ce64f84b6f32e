package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A rule is something in the code that protects somebody.
type rule struct {
	name     string // what happens without it
	file     string // where it is
	old, new string // old occurs in the file exactly once; new compiles and lacks the rule
	packages []string
	tests    string // a pattern for -run; empty means all
}

// rules are all rules, by package.
func rules() []rule { return slices.Concat(webhookRules) }

// without returns the file's text less the rule.
func (r rule) without(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, r.file))
	if err != nil {
		return nil, err
	}
	if n := bytes.Count(text, []byte(r.old)); n != 1 {
		return nil, fmt.Errorf("%s has the rule's text %d times, want once", r.file, n)
	}
	return bytes.Replace(text, []byte(r.old), []byte(r.new), 1), nil
}

// slow are tests that build other programs and so would only add time.
const slow = "TestReceiversOfThePage"

var (
	failure  = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)
	errBuild = errors.New("it does not compile")
)

// remove runs the tests without the rule and returns those that failed.
func (r rule) remove(ctx context.Context, root string) ([]string, error) {
	text, err := r.without(root)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "sensitivity")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	plan, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, r.file): changed}})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.WriteFile(changed, text, 0o600), os.WriteFile(overlay, plan, 0o600)); err != nil {
		return nil, err
	}
	args := append([]string{"test", "-vet=off", "-timeout=120s", "-overlay=" + overlay, "-run=" + r.tests, "-skip=" + slow}, r.packages...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err == nil {
		return nil, nil
	}
	if strings.Contains(string(out), "[build failed]") {
		return nil, fmt.Errorf("%w:\n%s", errBuild, out)
	}
	failed := []string{}
	for _, m := range failure.FindAllStringSubmatch(string(out), 3) {
		failed = append(failed, m[1])
	}
	if len(failed) == 0 {
		failed = append(failed, "the time limit")
	}
	return failed, nil
}
