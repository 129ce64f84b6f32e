package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// choose returns the mutants that a run makes: those whose name contains o.only, in what
// changed since o.changed, and of these o.sample at most, which a hash of the commit chooses.
func (b bench) choose(ctx context.Context, all []mutant, o options) ([]mutant, error) {
	var diff string
	commit, err := b.git(ctx, "rev-parse", "HEAD")
	if err == nil && o.changed != "" {
		diff, err = b.git(ctx, "diff", "--unified=0", "--no-color", "--no-ext-diff", "--no-renames", "--src-prefix=a/", o.changed)
	}
	if err != nil {
		return nil, err
	}
	changes := changed(diff)
	chosen := slices.DeleteFunc(slices.Clone(all), func(m mutant) bool {
		return !strings.Contains(m.name, o.only) || o.changed != "" && !slices.ContainsFunc(changes, m.touched)
	})
	many := len(chosen)
	if o.sample > 0 && many > o.sample {
		hash := func(m mutant) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(commit+m.name))) }
		slices.SortFunc(chosen, func(a, b mutant) int { return cmp.Compare(hash(a), hash(b)) })
		chosen = chosen[:o.sample]
		slices.SortFunc(chosen, func(a, b mutant) int { return cmp.Compare(a.id, b.id) })
	}
	fmt.Printf("%d of %d mutants fit, %d are made\n", many, len(all), len(chosen))
	return chosen, nil
}

// git returns git's output.
func (b bench) git(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", b.root}, args...)...).Output()
	if err != nil {
		err = fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return string(out), err
}

var hunk = regexp.MustCompile(`(?m)^(?:diff --git a/(\S+) .*|@@ -\S+ \+(\d+)(?:,(\d+))? @@.*)$`)

// changed returns the lines that a diff without context changes. Lines that are gone
// count as the lines around their place.
func changed(diff string) []span {
	var all []span
	file := ""
	for _, m := range hunk.FindAllStringSubmatch(diff, -1) {
		if m[1] != "" {
			file = m[1]
			continue
		}
		first, _ := strconv.Atoi(m[2])
		lines, err := strconv.Atoi(m[3])
		if err != nil {
			lines = 1
		}
		all = append(all, span{file, first, first + max(lines-1, 0)})
	}
	return all
}

// touched reports whether a change is in the function of m, or in a test of its package.
func (m mutant) touched(change span) bool {
	if strings.HasSuffix(change.file, "_test.go") {
		return path.Dir(change.file) == m.pkg
	}
	return change.file == m.file && change.first <= m.last && m.first <= change.last
}
