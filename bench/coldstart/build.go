package coldstart

import (
	"archive/zip"
	"compress/flate"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// How template.yaml's functions are compiled, as the Makefile says.
var (
	lambdaFlags = []string{"-tags=lambda.norpc", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid="}
	lambdaEnv   = []string{"CGO_ENABLED=0", "GOFLAGS="}
)

// hello is the function that others are compared with.
const hello = "hello"

// A built function.
type function struct {
	name     string
	path     string
	event    []byte
	size     int64 // bytes of the binary
	zipped   int64 // bytes of its zip
	ethereum bool  // it links a chain client
}

// build compiles all functions for this machine.
func build(ctx context.Context, root string) ([]*function, error) {
	dir := filepath.Join(root, ".cache", "bench", "functions")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	args := append([]string{"build", "-o", dir + string(filepath.Separator)}, lambdaFlags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./functions/...", "./bench/coldstart/hello")...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), lambdaEnv...)
	if said, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building the functions: %w\n%s", err, said)
	}
	sources, err := filepath.Glob(filepath.Join(root, "functions", "*", "main.go"))
	if err != nil {
		return nil, err
	}
	names := []string{hello}
	for _, s := range sources {
		names = append(names, filepath.Base(filepath.Dir(s)))
	}
	var all []*function
	for _, name := range names {
		f, err := inspect(ctx, root, dir, name)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

// inspect weighs a built function and finds its sample event.
func inspect(ctx context.Context, root, dir, name string) (*function, error) {
	f := &function{name: name, path: filepath.Join(dir, name), event: []byte(`{"httpMethod":"GET"}`)}
	info, err := os.Stat(f.path)
	if err != nil {
		return nil, err
	}
	f.size = info.Size()
	if f.zipped, err = zipped(f.path); err != nil {
		return nil, err
	}
	if name == hello {
		return f, nil
	}
	if f.event, err = os.ReadFile(filepath.Join(root, "events", name+".json")); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "go", "list", "-tags=lambda.norpc", "-deps", "./functions/"+name)
	cmd.Dir = root
	deps, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing what %s links: %w", name, err)
	}
	f.ethereum = strings.Contains(string(deps), "remit/internal/ethrpc")
	return f, nil
}

// zipped returns the size of a file's zip, packed as hard as SAM does.
func zipped(path string) (int64, error) {
	in, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = in.Close() }()
	var size counter
	z := zip.NewWriter(&size)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.DefaultCompression) })
	out, err := z.Create("bootstrap")
	if err != nil {
		return 0, err
	}
	if _, err := io.Copy(out, in); err != nil {
		return 0, err
	}
	err = z.Close()
	return int64(size), err
}

// A counter counts what is written to it.
type counter int64

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}
