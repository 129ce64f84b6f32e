// Package boottest runs functions as Lambda does: as a process that asks an
// HTTP service, the Lambda Runtime API, for events and answers there. It knows
// nothing of what events mean.
package boottest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

var (
	flagsLine = regexp.MustCompile(`(?m)^\$\(LAMBDA_TARGETS\): export GOFLAGS := (.*)$`)
	cgoLine   = regexp.MustCompile(`(?m)^\$\(LAMBDA_TARGETS\): export CGO_ENABLED := (.*)$`)
)

// Environment returns the variables with which the Makefile at root has
// functions compiled, "GOFLAGS=…" and "CGO_ENABLED=…".
func Environment(root string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		return nil, err
	}
	flags, cgo := flagsLine.FindSubmatch(text), cgoLine.FindSubmatch(text)
	if flags == nil || cgo == nil {
		return nil, errors.New("the Makefile does not say how functions are compiled")
	}
	return []string{"GOFLAGS=" + string(flags[1]), "CGO_ENABLED=" + string(cgo[1])}, nil
}

// Build compiles the named functions of the module at root as they are
// compiled for Lambda, but for this machine, to into/NAME/bootstrap. Without
// names it compiles all.
func Build(ctx context.Context, root, into string, names ...string) error {
	env, err := Environment(root)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		if names, err = Names(root); err != nil {
			return err
		}
	}
	for _, name := range names {
		out, err := filepath.Abs(filepath.Join(into, name, "bootstrap"))
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, "go", "build", "-o", out, "./functions/"+name)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), env...)
		if printed, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("compiling %s: %w\n%s", name, err, printed)
		}
	}
	return nil
}

// Names returns the names of all functions of the module at root.
func Names(root string) ([]string, error) {
	mains, err := filepath.Glob(filepath.Join(root, "functions", "*", "main.go"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, path := range mains {
		names = append(names, filepath.Base(filepath.Dir(path)))
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s has no functions", strings.TrimSuffix(root, "/"))
	}
	return names, nil
}
