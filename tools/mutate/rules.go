package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A rule protects money or webhooks, and can be taken out of the source.
type rule struct {
	name string
	pkg  string // of the test
	test string // the test that must fail without the rule
	file string
	old  []string // lines that the file has exactly once, whatever their indentation
	new  []string // the replacement while the rule is out; it compiles
	line int      // in rules.txt
}

//go:embed rules.txt
var rulesText string

// parseRules reads a table whose form its own head describes.
func parseRules(text string) ([]rule, error) {
	var rules []rule
	r := &rule{}
	for i, line := range strings.Split(text, "\n") {
		word, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "" || line[0] == '#':
		case word == "rule":
			rules = append(rules, rule{name: rest, line: i + 1})
			r = &rules[len(rules)-1]
		case r.name == "":
			return nil, fmt.Errorf("rules.txt:%d: a rule begins with its name", i+1)
		case word == "test":
			r.pkg, r.test, _ = strings.Cut(rest, " ")
		case word == "file":
			r.file = rest
		case line[0] == '-':
			r.old = append(r.old, line[1:])
		case line[0] == '+':
			r.new = append(r.new, line[1:])
		case line[0] == '\t', line[0] == ' ':
			r.old, r.new = append(r.old, line[1:]), append(r.new, line[1:])
		default:
			return nil, fmt.Errorf("rules.txt:%d: %q", i+1, line)
		}
	}
	return rules, nil
}

// without returns the source of the rule's file less the rule.
func (r rule) without(source string) (string, error) {
	lines := strings.Split(source, "\n")
	same := func(a, b string) bool { return strings.TrimSpace(a) == strings.TrimSpace(b) }
	at, found := 0, 0
	for i := range len(lines) - len(r.old) + 1 {
		if slices.EqualFunc(lines[i:i+len(r.old)], r.old, same) {
			at, found = i, found+1
		}
	}
	if found == 1 && len(r.old) > 0 {
		return strings.Join(slices.Concat(lines[:at], r.new, lines[at+len(r.old):]), "\n"), nil
	}
	var quoted strings.Builder
	for _, old := range r.old {
		mark := " "
		if !slices.ContainsFunc(lines, func(line string) bool { return same(line, old) }) {
			mark = "?" // this line is nowhere in the file
		}
		fmt.Fprintf(&quoted, "\n\t%s %s", mark, old)
	}
	return "", fmt.Errorf("rules.txt:%d: %q: its lines have changed: %s has them %d times, want once:%s", r.line, r.name, r.file, found,
		&quoted)
}

// checkRules takes the rules out one at a time. A rule whose test passes
// without it is not needed, or not tested.
func checkRules(ctx context.Context, b bench, o options) error {
	rules, err := parseRules(rulesText)
	if err != nil {
		return err
	}
	rules = slices.DeleteFunc(rules, func(r rule) bool { return !strings.Contains(r.name+" "+r.test+" "+r.file, o.only) })
	began := time.Now()
	results, err := o.each(ctx, len(rules), func(ctx context.Context, i int) (result, error) {
		end, err := b.remove(ctx, rules[i], i)
		if err != nil && ctx.Err() == nil {
			end.note, err = ": "+err.Error(), nil // the other rules are tried all the same
		}
		return end, err
	})
	if err != nil {
		return err
	}
	results = slices.DeleteFunc(results, func(r result) bool { return r.caught != "" })
	fmt.Printf("%d rules taken out in %s: %d noticed, %d not\n", len(rules), time.Since(began).Round(time.Second), len(rules)-len(results),
		len(results))
	for _, r := range results {
		fmt.Printf("%s: survives%s\n\tgo run ./tools/mutate rules -only %s\n", r.name, r.note, quoted(r.name))
	}
	if len(rules) == 0 || len(results) > 0 {
		return errors.New("not every change was noticed")
	}
	return nil
}

// maximum is the most that a test may take.
const maximum = 2 * time.Minute

// remove runs the rule's test without the rule.
func (b bench) remove(ctx context.Context, r rule, n int) (result, error) {
	end := result{name: r.name}
	dir := filepath.Join(b.dir, fmt.Sprint(n))
	defer func() { _ = os.RemoveAll(dir) }()
	t := trial{pkg: r.pkg, binary: filepath.Join(dir, "tests"), tests: []string{r.test}, timeout: maximum}
	err := b.compileWithout(ctx, r, dir, t.binary)
	if err != nil {
		return end, err
	}
	end.caught, end.output, err = b.run(ctx, t)
	return end, err
}

// compileWithout compiles the rule's tests without the rule.
func (b bench) compileWithout(ctx context.Context, r rule, dir, binary string) error {
	source, err := b.source(r.file)
	if err != nil {
		return err
	}
	changed, err := r.without(source)
	if err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	overlay, err := b.overlay(dir, map[string]string{r.file: changed})
	if err != nil {
		return err
	}
	return b.compile(ctx, r.pkg, overlay, binary)
}
