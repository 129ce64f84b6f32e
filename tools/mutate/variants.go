package main

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// vary returns the source of a file in which each of its rules can be taken out by its
// number: the function that has the rule begins by calling a copy of itself without it.
// So the tests are compiled and linked once for all rules. It also returns the numbers
// of the rules that this worked for: those in the body of one function that can be
// called again with its own arguments.
func vary(file, source string, rules map[int]rule) (string, []int, error) {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, file, source, parser.SkipObjectResolution)
	if err != nil {
		return "", nil, err
	}
	at := func(p token.Pos) int { return int(p - parsed.FileStart) }
	calls, copies, varied := map[int]string{}, "", []int(nil)
	for _, n := range slices.Sorted(maps.Keys(rules)) {
		changed, err := rules[n].without(source)
		if err != nil {
			continue // it says so when its turn comes
		}
		begin, end := difference(source, changed)
		i := slices.IndexFunc(parsed.Decls, func(d ast.Decl) bool {
			f, ok := d.(*ast.FuncDecl)
			return ok && f.Body != nil && at(f.Body.Lbrace) < begin && end <= at(f.Body.Rbrace)
		})
		if i < 0 {
			continue
		}
		f := parsed.Decls[i].(*ast.FuncDecl)
		name := fmt.Sprintf("rule%d%s", n, f.Name.Name)
		call, ok := again(f, name)
		text := changed[at(f.Pos()) : at(f.End())+len(changed)-len(source)]
		if !ok || strings.Contains(text, "recover()") {
			continue // recover wants to be called by the deferred function itself
		}
		after := at(f.Name.Pos()) - at(f.Pos())
		copies += "\n" + text[:after] + name + text[after+len(f.Name.Name):] + "\n"
		calls[at(f.Body.Lbrace)+1] += fmt.Sprintf(" if %s == %d { %s };", number, n, call)
		varied = append(varied, n)
	}
	for _, place := range slices.Backward(slices.Sorted(maps.Keys(calls))) {
		source = source[:place] + calls[place] + source[place:]
	}
	return source + copies, varied, nil
}

// difference returns the part of a that is not in b, by its offsets.
func difference(a, b string) (begin, end int) {
	shorter := min(len(a), len(b))
	for begin < shorter && a[begin] == b[begin] {
		begin++
	}
	same := 0
	for same < shorter-begin && a[len(a)-1-same] == b[len(b)-1-same] {
		same++
	}
	return begin, len(a) - same
}

// again returns the statements with which f calls its copy and ends, unless f is generic
// or does not name all that it is given.
func again(f *ast.FuncDecl, name string) (string, bool) {
	if f.Type.TypeParams != nil || f.Recv == nil && f.Name.Name == "init" {
		return "", false
	}
	fields, args := f.Type.Params.List, []string(nil)
	if f.Recv != nil {
		fields = slices.Concat(f.Recv.List, fields)
	}
	for _, field := range fields {
		for _, given := range field.Names {
			args = append(args, given.Name)
		}
		if len(field.Names) == 0 || slices.Contains(args, "_") {
			return "", false
		}
		if _, variadic := field.Type.(*ast.Ellipsis); variadic {
			args[len(args)-1] += "..."
		}
	}
	if f.Recv != nil {
		name, args = args[0]+"."+name, args[1:]
	}
	call := name + "(" + strings.Join(args, ", ") + ")"
	if f.Type.Results == nil {
		return call + "; return", true
	}
	return "return " + call, true
}

// prepare compiles the tests of all rules with their variants, and returns the test
// binary of each rule, by the rule's number. A package whose tests do not compile so, or
// fail with every rule in its place, has none: its rules are taken out one at a time.
func (b bench) prepare(ctx context.Context, rules []rule, width int) (map[int]string, error) {
	files, changed, binaries := map[string]map[int]rule{}, map[string]string{}, map[int]string{}
	for i, r := range rules {
		if files[r.file] == nil {
			files[r.file] = map[int]rule{}
		}
		files[r.file][i+1] = r
	}
	tests := map[string][]int{} // the rules of each package of tests
	for file, own := range files {
		source, err := b.source(file)
		if err != nil {
			return nil, err
		}
		text, varied, err := vary(file, source, own)
		if err != nil {
			return nil, err
		}
		if len(varied) > 0 {
			changed[file] = text
			clause, _, _ := strings.Cut(source[strings.Index("\n"+source, "\npackage "):], "\n")
			changed[path.Join(path.Dir(file), "mutant_number.go")] = fmt.Sprintf(chooser, strings.Fields(clause)[1])
		}
		for _, n := range varied {
			tests[rules[n-1].pkg] = append(tests[rules[n-1].pkg], n)
		}
	}
	overlay, err := b.overlay(b.dir, changed)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(width)
	for pkg, own := range tests {
		group.Go(func() error {
			binary := filepath.Join(b.dir, strings.ReplaceAll(pkg, "/", "_"))
			err := b.compile(ctx, pkg, overlay, binary)
			if err == nil {
				err = b.passes(ctx, pkg, binary, rules, own)
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				fmt.Printf("%s: one rule at a time, since with all of them: %v\n", pkg, err)
				return context.Cause(ctx)
			}
			for _, n := range own {
				binaries[n] = binary
			}
			return nil
		})
	}
	return binaries, group.Wait()
}

// passes returns nil if the tests of these rules pass while each rule is in its place.
func (b bench) passes(ctx context.Context, pkg, binary string, rules []rule, own []int) error {
	names := map[string]bool{}
	for _, n := range own {
		names[rules[n-1].test] = true
	}
	run := "-test.run=^(" + strings.Join(slices.Sorted(maps.Keys(names)), "|") + ")$"
	args := append([]string{run}, arguments[pkg]...)
	if len(args) > 1 {
		args = append(args, "-seeds=100")
	}
	failed, output, err := b.run(ctx, trial{pkg: pkg, binary: binary, timeout: maximum, args: args})
	if err == nil && failed != "" {
		err = errors.New(failed + " fails\n" + output)
	}
	return err
}
