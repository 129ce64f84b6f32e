// Package lab is what benchmarks work with: processes that are started, watched
// and killed, a merchant who talks to a running stack, and a look at the chain
// that asks nobody else.
package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// startWithin is how long a process may take to say that it is ready.
const startWithin = 60 * time.Second

// A Process is one running command.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// Launch starts a command and waits for the first line of its standard output
// that begins with until; it returns the lines up to there. What it writes to
// standard error goes to stderr. The process ends with this one at the latest.
func Launch(ctx context.Context, stderr io.Writer, until, path string, args ...string) (*Process, []string, error) {
	p := &Process{cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.SysProcAttr = mortal()
	p.cmd.Stderr = stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, nil, fmt.Errorf("starting %s: %w", path, err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, nil, fmt.Errorf("starting %s: %w", path, err)
	}
	ready := make(chan []string, 1)
	go p.read(out, until, ready)
	timer := time.NewTimer(startWithin)
	defer timer.Stop()
	select {
	case lines := <-ready:
		return p, lines, nil
	case <-p.done:
		err = ErrEnded
	case <-timer.C:
		err = ErrNotReady
	case <-ctx.Done():
		err = ctx.Err()
	}
	p.Kill()
	return nil, nil, fmt.Errorf("starting %s %s: %w", filepath.Base(path), strings.Join(args, " "), err)
}

// What became of a process that was started and is of no use.
var (
	ErrEnded    = errors.New("it ended before it was ready")
	ErrNotReady = errors.New("it was not ready in time")
)

// read passes on the lines up to until and drops the rest.
func (p *Process) read(out io.Reader, until string, ready chan<- []string) {
	defer close(p.done)
	var seen []string
	lines := bufio.NewReader(out)
	for sent := false; ; {
		line, err := lines.ReadString('\n')
		if !sent && err == nil {
			seen = append(seen, strings.TrimSuffix(line, "\n"))
			if strings.HasPrefix(line, until) {
				ready <- seen
				sent = true
			}
		}
		if err != nil {
			break
		}
	}
	_ = p.cmd.Wait() // how it ended shows in what it wrote
}

// Kill ends the process with SIGKILL and returns when it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Interrupt ends the process as Ctrl-C does and returns when it is gone.
func (p *Process) Interrupt() {
	_ = p.cmd.Process.Signal(os.Interrupt)
	<-p.done
}

// Done is closed when the process has ended by itself or otherwise.
func (p *Process) Done() <-chan struct{} { return p.done }

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Usage returns the processor time and the peak resident memory, in bytes, of
// a process that has ended.
func (p *Process) Usage() (processor time.Duration, peak int64) {
	<-p.done
	state := p.cmd.ProcessState
	usage, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		return 0, 0
	}
	return state.UserTime() + state.SystemTime(), usage.Maxrss * maxrssUnit
}
