package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// mutated are the packages and files that move money or send webhooks. Files of a package follow each other.
var mutated = []string{"internal/merchants/apikey", "internal/evm/chain", "internal/payments/dispatch",
	"internal/payments/payment", "internal/merchants/recipient", "internal/merchants/webhook",
	"internal/merchants/webhook/guard", "internal/payments/recovery", "internal/payments/settlement",
	"internal/payments/store", "internal/payments/wallet", "sdk/go", "internal/cli/operator/wallet/transfer.go"}

// common are the packages whose tests a mutant faces beside the tests of its own.
var common = []string{"internal/api/httpapi", "internal/payments/dispatch", "internal/payments/settlement", "internal/sandbox/memory",
	"internal/proof/simulation"}

// unfaced are tests that no mutant faces: their seeds are those of TestSeeds.
var unfaced = []string{"TestReplay"}

//go:embed survivors.txt
var survivorsText string

// parseSurvivors reads the names of the mutants that survive for a reason: each is a line, and indented lines say why.
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

// generate returns a mutated file, or those of a package, with all their mutants.
func (b bench) generate(entry string, first int) (map[string]string, []mutant, error) {
	pkg, pattern := entry, entry+"/*.go"
	if path.Ext(entry) == ".go" {
		pkg, pattern = path.Dir(entry), entry
	}
	files, err := filepath.Glob(filepath.Join(b.root, pattern))
	if err != nil {
		return nil, nil, err
	}
	changed := map[string]string{}
	var all []mutant
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || strings.HasSuffix(file, ".gen.go") {
			continue
		}
		file = pkg + "/" + filepath.Base(file)
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
	name := filepath.Base(pkg)
	if pkg == "sdk/go" {
		name = "remit"
	}
	changed[pkg+"/mutant_number.go"] = fmt.Sprintf(chooser, name, first+len(all))
	distinguish(all)
	return changed, all, nil
}

// mutants returns every mutant there is, and the files that have them.
func (b bench) mutants() (map[string]string, []mutant, error) {
	var all []mutant
	changed := map[string]string{}
	for _, entry := range mutated {
		files, own, err := b.generate(entry, len(all)+1)
		if err != nil {
			return nil, nil, err
		}
		maps.Copy(changed, files)
		all = append(all, own...)
	}
	return changed, all, nil
}

// A proof is a test, as it ran without a mutant.
type proof struct {
	trial
	took    time.Duration
	reached map[string]bool // ids of mutants
}

// prove compiles the mutants into the tests that they face, and runs each test without
// one. The proofs are in the order in which mutants face them: quick ones first.
func (b bench) prove(ctx context.Context, packages []string, changed map[string]string, width int) ([]proof, error) {
	overlay, err := b.overlay(b.dir, changed)
	if err != nil {
		return nil, err
	}
	group, compiling := errgroup.WithContext(ctx)
	group.SetLimit(width)
	listed := make([][]proof, len(packages))
	for i, pkg := range packages {
		group.Go(func() error {
			binary := filepath.Join(b.dir, filepath.Base(pkg))
			if err := b.compile(compiling, pkg, overlay, binary); err != nil {
				return fmt.Errorf("%s with its mutants: %w", pkg, err)
			}
			if _, err := os.Stat(binary); err != nil {
				return nil // a package without tests has no binary
			}
			names, err := exec.CommandContext(compiling, binary, "-test.list=^(Test|Fuzz|Example)").Output()
			for name := range strings.FieldsSeq(string(names)) {
				if !slices.Contains(unfaced, name) {
					listed[i] = append(listed[i], proof{trial: trial{pkg: pkg, binary: binary, tests: []string{name}, timeout: time.Hour}})
				}
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	proofs := slices.Concat(listed...)
	group, ctx = errgroup.WithContext(ctx)
	group.SetLimit(width)
	for i := range proofs {
		group.Go(func() error { return b.record(ctx, &proofs[i], filepath.Join(b.dir, fmt.Sprint("reached", i))) })
	}
	err = group.Wait()
	slices.SortStableFunc(proofs, func(a, b proof) int { return cmp.Compare(a.class(), b.class()) })
	return proofs, err
}

// record runs a test without a mutant, and notes how long it takes and which mutants it reaches.
func (b bench) record(ctx context.Context, p *proof, file string) error {
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return err
	}
	began := time.Now()
	p.env = []string{"REACHED=" + file}
	failed, output, err := b.run(ctx, p.trial)
	if err != nil || failed != "" {
		return fmt.Errorf("testing %s without mutant: %w\n%s", p.pkg, cmp.Or(err, errors.New(failed+" fails")), output)
	}
	p.took, p.reached = time.Since(began), map[string]bool{}
	reached, err := os.ReadFile(file)
	for id := range strings.FieldsSeq(string(reached)) {
		p.reached[id] = true
	}
	return err
}

// class is greater for slower tests. Those of one class and package run together.
func (p proof) class() int { return bits.Len64(uint64(p.took / (250 * time.Millisecond))) }

// face runs the tests that reach a mutant until one catches it. Each may take ten times its time
// without a mutant, and all of a run five seconds more.
func (b bench) face(ctx context.Context, m mutant, proofs []proof) (result, error) {
	end, id := result{name: m.name}, fmt.Sprint(m.id)
	proofs = slices.DeleteFunc(slices.Clone(proofs), func(p proof) bool {
		return !p.reached[id] || p.pkg != m.pkg && !slices.Contains(common, p.pkg)
	})
	for len(proofs) > 0 {
		n := 1
		for n < len(proofs) && proofs[n].pkg == proofs[0].pkg && proofs[n].class() == proofs[0].class() {
			n++
		}
		t := trial{pkg: proofs[0].pkg, binary: proofs[0].binary, env: []string{"MUTANT=" + id}, timeout: 5 * time.Second}
		for _, p := range proofs[:n] {
			t.tests = append(t.tests, p.tests...)
			t.timeout += 10 * p.took
		}
		var err error
		if end.caught, end.output, err = b.run(ctx, t); err != nil || end.caught != "" {
			return end, err
		}
		proofs = proofs[n:]
	}
	return end, nil
}

// checkMutants makes small mistakes in turn. A survivor must be listed in survivors.txt
// with its reason, and every mutant listed there must survive.
func checkMutants(ctx context.Context, b bench, o options) error {
	began := time.Now()
	changed, all, err := b.mutants()
	if err != nil {
		return err
	}
	chosen := slices.DeleteFunc(all, func(m mutant) bool { return !strings.Contains(m.name, o.only) })
	packages, reasons, known := slices.Clone(common), map[string]string{}, parseSurvivors(survivorsText)
	for _, m := range chosen {
		packages = append(packages, m.pkg)
		if reason, ok := known[m.name]; ok {
			reasons[m.name] = reason
		}
	}
	slices.Sort(packages)
	proofs, err := b.prove(ctx, slices.Compact(packages), changed, o.width)
	if err != nil {
		return err
	}
	fmt.Printf("compiled, and tried without a mutant, in %s\n", time.Since(began).Round(time.Second))
	results, err := o.each(ctx, len(chosen), func(ctx context.Context, i int) (result, error) {
		end, err := b.face(ctx, chosen[i], proofs)
		if reasons[end.name] != "" {
			end.note = survives + ", as explained"
		}
		return end, err
	})
	if err != nil {
		return err
	}
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

// judge compares the survivors with the explained ones.
func judge(results []result, reasons map[string]string, took time.Duration) error {
	caught, wrong, of := 0, 0, map[string][2]int{} // of a package: caught, all
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
		pkg, _, _ := strings.Cut(r.name, " ")
		n := of[path.Dir(pkg)]
		if n[1]++; r.caught != "" {
			caught++
			n[0]++
		}
		of[path.Dir(pkg)] = n
	}
	for _, pkg := range slices.Sorted(maps.Keys(of)) {
		n := of[pkg]
		fmt.Printf("%s: %d mutants, %.1f %% caught\n", pkg, n[1], 100*float64(n[0])/float64(n[1]))
	}
	fmt.Printf("%d mutants in %s: %d caught (%.1f %%), %d survive, %d of them unexplained or listed by mistake\n",
		len(results), took.Round(time.Second), caught, 100*float64(caught)/float64(max(1, len(results))), len(results)-caught, wrong)
	if wrong > 0 || len(results) == 0 {
		return errors.New("survivors.txt does not list the survivors")
	}
	return nil
}
