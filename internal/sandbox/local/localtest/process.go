package localtest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	remit "github.com/remit-payouts/remit/sdk/go"
)

// A Process is a command that runs as a process of its own.
type Process struct {
	*exec.Cmd
	Out   *Screen       // its standard output
	Ended chan struct{} // closed when it has ended
	err   error         // how; read after Ended
}

// Build compiles a package to a file, with variables beside those of this process.
func Build(file, pkg string, env ...string) error {
	cmd := exec.Command("go", "build", "-o", file, pkg)
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// Main runs tests, and says where Local builds remit. More tests run at once than there are
// processors: each waits for a stack most of the time.
func Main(m *testing.M, remit *string) int {
	flag.Parse()
	dir, err := os.MkdirTemp("", "remit")
	if err = errors.Join(err, flag.Set("test.parallel", "4")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	*remit = filepath.Join(dir, "remit")
	return m.Run()
}

var building sync.Mutex

// build builds remit as `make run` does, unless it is built.
func build(remit string) error {
	building.Lock()
	defer building.Unlock()
	if _, err := os.Stat(remit); err == nil {
		return nil
	}
	return Build(remit, "github.com/remit-payouts/remit/cmd/remit", "CGO_ENABLED=0",
		"GOFLAGS="+os.Getenv("GOFLAGS")+" -tags=sandbox '-ldflags=-s -w'")
}

// Launch starts a program, which is killed when ctx or this process ends.
func Launch(ctx context.Context, stderr io.Writer, program string, args ...string) (*Process, error) {
	p := &Process{Cmd: exec.CommandContext(ctx, program, args...), Ended: make(chan struct{})}
	p.Out = NewScreen(p.Ended)
	p.Stdout, p.Stderr, p.SysProcAttr = p.Out, stderr, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	go func() {
		p.err = p.Cmd.Wait()
		close(p.Ended)
	}()
	return p, nil
}

// Local starts `remit local` on free ports until the test ends, and returns it with a new merchant of its stack.
func Local(t testing.TB, stderr io.Writer, remit string, flags ...string) (*Process, *remit.Client) {
	t.Helper()
	if err := build(remit); err != nil {
		t.Fatal(err)
	}
	p, err := Launch(context.WithoutCancel(t.Context()), stderr, remit, slices.Concat([]string{"local"}, free, flags)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p, Merchant(t, p.Out)
}

// Wait returns how the process ended, once it has.
func (p *Process) Wait() error {
	<-p.Ended
	return p.err
}

// Kill ends the process with SIGKILL and returns when it is gone.
func (p *Process) Kill() {
	_ = p.Process.Kill()
	<-p.Ended
}

// Interrupt ends the process as Ctrl-C does and returns how it ended.
func (p *Process) Interrupt() error {
	_ = p.Process.Signal(os.Interrupt)
	return p.Wait()
}
