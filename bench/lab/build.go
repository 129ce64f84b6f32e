package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// ErrNoModule reports a working directory outside the repository.
var ErrNoModule = errors.New("no go.mod above the working directory")

// Root returns the directory of the module, looking upwards from the working
// directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", ErrNoModule
		}
		dir = up
	}
}

// Build compiles a package of the module to a file under .cache/bench and
// returns that. env and flags are added to those of `go build`.
func Build(ctx context.Context, pkg, name string, env []string, flags ...string) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	out := filepath.Join(root, ".cache", "bench", name)
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		return "", err
	}
	args := append([]string{"build", "-o", out}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, pkg)...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), env...)
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", pkg, err, said)
	}
	return out, nil
}
