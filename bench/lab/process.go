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
	"strconv"
	"strings"
	"testing"
	"time"

	"remit/internal/client"
)

// startWithin is how long a process may take to say that it is ready.
const startWithin = 60 * time.Second

// A Process is one running command.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// ErrNotReady reports a process that ended, or took too long, before it said
// that it was ready.
var ErrNotReady = errors.New("the process did not become ready")

// Start starts a command and waits for the first line of its standard output
// that begins with until; it returns the lines up to that one. Its standard
// error goes to stderr.
func Start(ctx context.Context, stderr io.Writer, until, path string, args ...string) (*Process, []string, error) {
	p := &Process{cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.Stderr = stderr
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("starting %s: %w", path, err)
	}
	ready := make(chan []string, 1)
	go func() {
		defer close(p.done)
		var seen []string
		lines := bufio.NewScanner(out)
		for sent := false; lines.Scan(); {
			if sent {
				continue
			}
			if seen = append(seen, lines.Text()); strings.HasPrefix(lines.Text(), until) {
				ready <- seen
				sent = true
			}
		}
		_ = p.cmd.Wait() // the process wrote to stderr how it ended
	}()
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	select {
	case lines := <-ready:
		return p, lines, nil
	case <-p.done:
	case <-ctx.Done():
	}
	p.Kill()
	return nil, nil, fmt.Errorf("starting %s %s: %w", filepath.Base(path), strings.Join(args, " "), errors.Join(ErrNotReady, ctx.Err()))
}

// Kill ends the process with SIGKILL and returns when it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Usage ends the process and returns the processor time of its whole life, and
// its peak resident memory in MB as Memory tells it.
func (p *Process) Usage() (processor time.Duration, peak float64) {
	peak = Memory(p.cmd.Process.Pid, "VmHWM")
	p.Kill()
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime(), peak
}

// Memory returns an entry of /proc/PID/status in MB, such as VmRSS (resident) or
// VmHWM (its peak); 0 where the system has none. The peak that getrusage tells
// of a child is no less than its parent's at the start, and so says nothing.
func Memory(pid int, entry string) float64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), entry+":")
	kB, _ := strconv.ParseFloat(strings.Fields(rest + " 0")[0], 64)
	return kB * 1024 / 1e6
}

// Build compiles cmd/remit and returns the path of the binary.
func Build(b *testing.B) string {
	b.Helper()
	path, err := filepath.Abs(filepath.Join(Root, ".cache", "bench", "remit"))
	if err != nil {
		b.Fatal(err)
	}
	if said, err := exec.CommandContext(b.Context(), "go", "build", "-o", path, "remit/cmd/remit").CombinedOutput(); err != nil {
		b.Fatalf("building remit: %v\n%s", err, said)
	}
	return path
}

// Local starts `remit local` with a chain of its own, a block a second and so
// many wallets, and returns it with the address of its API.
func Local(b *testing.B, remit string, wallets int) (*Process, string) {
	b.Helper()
	p, lines, err := Start(b.Context(), b.Output(), "Ctrl-C", remit, "local", "--listen", "127.0.0.1:0", "--chain-listen", "127.0.0.1:0",
		"--block-time", "1s", "--wallets", fmt.Sprint(wallets))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(p.Kill)
	for _, l := range lines {
		if url, ok := strings.CutPrefix(strings.TrimSpace(l), "API "); ok {
			return p, strings.TrimSpace(url)
		}
	}
	b.Fatalf("remit local did not say where its API is:\n%s", strings.Join(lines, "\n"))
	return nil, ""
}

// Merchant returns a client of the API at url with the key of a new merchant and
// connections for many requests at once.
func Merchant(b *testing.B, url string) *client.Client {
	b.Helper()
	c := &client.Client{URL: url, HTTP: Many()}
	var err error
	if c.Key, err = c.CreateKey(b.Context(), "Bench"); err != nil {
		b.Fatal(err)
	}
	return c
}
