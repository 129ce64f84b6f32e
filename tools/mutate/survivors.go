package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// mutated are the packages that move money.
var mutated = []string{"internal/chain", "internal/dispatch", "internal/payment", "internal/recovery", "internal/settlement",
	"internal/store", "internal/wallet"}

// scenarios is the package whose tests all mutants face that the tests of their
// own package let pass.
const scenarios = "internal/simulation"

//go:embed survivors.txt
var survivorsText string

// parseSurvivors reads the names of the mutants that survive for a reason. Each
// is a line, and indented lines below say why.
func parseSurvivors(text string) map[string]string {
	reasons, name := map[string]string{}, ""
	for line := range strings.Lines(text) {
		switch trimmed := strings.TrimSpace(line); {
		case trimmed == "", line[0] == '#':
		case line[0] != '\t':
			name = trimmed
			reasons[name] = ""
		default:
			reasons[name] = strings.TrimSpace(reasons[name] + " " + trimmed)
		}
	}
	return reasons
}

// generate returns the mutated files of a package, with all their mutants.
func (b bench) generate(pkg string, first int) (map[string]string, []mutant, error) {
	files, err := filepath.Glob(filepath.Join(b.root, pkg, "*.go"))
	if err != nil {
		return nil, nil, err
	}
	changed := map[string]string{pkg + "/" + number + ".go": fmt.Sprintf(chooser, filepath.Base(pkg))}
	var all []mutant
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file := pkg + "/" + filepath.Base(path)
		source, err := b.source(file)
		if err != nil {
			return nil, nil, err
		}
		text, mutants, err := mutate(pkg, file, source, first+len(all))
		if err != nil {
			return nil, nil, err
		}
		changed[file] = text
		all = append(all, mutants...)
	}
	return changed, all, nil
}

// trials are the runs that a mutant of a package faces, quick ones first.
func (b bench) trials(pkg string) []trial {
	const long = "^(TestSeeds|TestExhaustive|TestCostOf.*)$"
	binary := func(pkg string) string { return filepath.Join(b.dir, filepath.Base(pkg)) }
	runs := []trial{
		{pkg: scenarios, binary: binary(scenarios), args: []string{"-test.skip=" + long + "|^TestReplay$"}},
		{pkg: scenarios, binary: binary(scenarios), args: []string{"-test.run=" + long, "-seeds=1000", "-singles"}},
	}
	if _, err := os.Stat(binary(pkg)); err != nil || pkg == scenarios {
		return runs // a package without tests has no binary
	}
	return append([]trial{{pkg: pkg, binary: binary(pkg)}}, runs...)
}

// breed compiles every mutant whose name contains only into the tests, and returns
// them. Each trial in limits may take ten times its time without a mutant, and five
// seconds.
func (b bench) breed(ctx context.Context, only string) (all []mutant, limits map[string]time.Duration, err error) {
	changed, packages := map[string]string{}, []string{scenarios}
	for _, pkg := range mutated {
		files, mutants, err := b.generate(pkg, len(all)+1)
		if err != nil {
			return nil, nil, err
		}
		distinguish(mutants)
		if slices.ContainsFunc(mutants, func(m mutant) bool { return strings.Contains(m.name, only) }) {
			packages = append(packages, pkg)
			maps.Copy(changed, files)
		}
		all = append(all, mutants...)
	}
	all = slices.DeleteFunc(all, func(m mutant) bool { return !strings.Contains(m.name, only) })
	overlay, err := b.overlay(b.dir, changed)
	if err != nil {
		return nil, nil, err
	}
	limits = map[string]time.Duration{}
	for _, pkg := range packages {
		if err := b.compile(ctx, pkg, overlay, filepath.Join(b.dir, filepath.Base(pkg))); err != nil {
			return nil, nil, fmt.Errorf("%s with its mutants: %w", pkg, err)
		}
		for _, t := range b.trials(pkg) {
			if t.pkg != pkg {
				continue
			}
			began := time.Now()
			t.timeout = time.Hour
			failed, output, err := b.run(ctx, t)
			if failed != "" {
				err = fmt.Errorf("the tests fail without a mutant:\n%s", output)
			}
			if err != nil {
				return nil, nil, fmt.Errorf("testing %s: %w", pkg, err)
			}
			limits[t.name()] = 10*time.Since(began) + 5*time.Second
		}
	}
	return all, limits, nil
}

// face runs the trials of a mutant until one catches it.
func (b bench) face(ctx context.Context, m mutant, limits map[string]time.Duration) (result, error) {
	end := result{name: m.name}
	for _, t := range b.trials(m.pkg) {
		t.timeout, t.env = limits[t.name()], []string{fmt.Sprintf("MUTANT=%d", m.id)}
		var err error
		if end.caught, end.output, err = b.run(ctx, t); err != nil || end.caught != "" {
			return end, err
		}
	}
	return end, nil
}

// checkMutants makes every small mistake in turn. A survivor must be listed in
// survivors.txt with its reason, and every mutant listed there must survive.
func checkMutants(ctx context.Context, b bench, o options) error {
	began := time.Now()
	all, limits, err := b.breed(ctx, o.only)
	if err != nil {
		return err
	}
	fmt.Printf("%d mutants, compiled and tried without one in %s\n", len(all), time.Since(began).Round(time.Second))
	reasons := parseSurvivors(survivorsText)
	results, err := o.each(ctx, len(all), func(ctx context.Context, i int) (result, error) {
		end, err := b.face(ctx, all[i], limits)
		if reasons[end.name] != "" {
			end.note = ", as explained"
		}
		return end, err
	})
	if err != nil {
		return err
	}
	maps.DeleteFunc(reasons, func(name, _ string) bool { return !strings.Contains(name, o.only) })
	return judge(results, reasons, time.Since(began))
}

// distinguish numbers mutants of one name.
func distinguish(all []mutant) {
	seen := map[string]int{}
	for i, m := range all {
		if seen[m.name]++; seen[m.name] > 1 {
			all[i].name += fmt.Sprintf(" #%d", seen[m.name])
		}
	}
}

// judge holds the survivors against those that are explained.
func judge(results []result, reasons map[string]string, took time.Duration) error {
	caught, wrong := 0, 0
	for _, r := range results {
		reason, listed := reasons[r.name]
		switch {
		case r.caught == "" && reason == "":
			wrong++
			fmt.Printf("survives unexplained: %s\n\tgo run ./tools/mutate mutants -only %s\n", r.name, quoted(r.name))
		case r.caught != "" && listed:
			wrong++
			fmt.Printf("listed, but caught by %s: %s\n", r.caught, r.name)
		}
		if r.caught != "" {
			caught++
		}
		delete(reasons, r.name)
	}
	for name := range reasons {
		wrong++
		fmt.Printf("listed, but there is no such mutant: %s\n", name)
	}
	fmt.Printf("%d mutants in %s: %d caught (%.1f %%), %d survive, %d of them unexplained or listed by mistake\n",
		len(results), took.Round(time.Second), caught, 100*float64(caught)/float64(max(1, len(results))), len(results)-caught, wrong)
	if wrong > 0 || len(results) == 0 {
		return errors.New("survivors.txt does not list the survivors")
	}
	return nil
}
