// Package profile records where the processor's time and the allocations of a
// piece of work go, and prints the top of both.
package profile

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
)

// lines is how many functions are shown of each profile.
const lines = "30"

// Record runs work under the processor's profiler, with every allocation of
// more than some bytes sampled as usual, and keeps NAME.cpu.prof and
// NAME.alloc.prof in dir. It prints the top of both to w.
func Record(ctx context.Context, dir, name string, w io.Writer, work func() error) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	cpu, alloc := filepath.Join(dir, name+".cpu.prof"), filepath.Join(dir, name+".alloc.prof")
	if err := record(cpu, alloc, work); err != nil {
		return fmt.Errorf("profiling %s: %w", name, err)
	}
	for _, p := range [][]string{{"-top", "-nodecount=" + lines, cpu}, {"-sample_index=alloc_objects", "-top", "-nodecount=" + lines, alloc}} {
		_, _ = fmt.Fprintf(w, "\n%s (go tool pprof -http=: %s)\n", name, p[len(p)-1])
		cmd := exec.CommandContext(ctx, "go", append([]string{"tool", "pprof"}, p...)...)
		cmd.Stdout = w
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("reading the profile of %s: %w", name, err)
		}
	}
	return nil
}

func record(cpu, alloc string, work func() error) error {
	out, err := os.Create(cpu)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(out); err != nil {
		return err
	}
	err = work()
	pprof.StopCPUProfile()
	if err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	heap, err := os.Create(alloc)
	if err != nil {
		return err
	}
	runtime.GC()
	if err := pprof.Lookup("allocs").WriteTo(heap, 0); err != nil {
		return err
	}
	return heap.Close()
}
