package boottest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Config says how a function runs. All but Bootstrap may be zero.
type Config struct {
	Bootstrap string            // the program, in a directory of the function's name
	Env       map[string]string // what template.yaml declares, beside what Lambda sets
	Output    io.Writer         // what the function prints: its log
	Timeout   time.Duration     // of an event; 30 s if it is zero
}

// A Function is a running process that waits for events.
type Function struct {
	name    string
	runtime *runtime
	server  *httptest.Server
	cmd     *exec.Cmd
	started time.Time
	ready   time.Time
	ended   chan struct{}
	waited  error // of the process; read after ended
	timeout time.Duration
}

// ErrEnded reports a process that ended before it had answered.
var ErrEnded = errors.New("the function's process ended")

// Start starts the function's process and returns when it asks for its first
// event. Nothing of this process's environment reaches it but PATH. It ends
// with Stop, or with this process: it finds nobody to ask then.
func Start(ctx context.Context, c Config) (*Function, error) {
	if c.Timeout == 0 {
		c.Timeout = 30 * time.Second
	}
	if c.Output == nil {
		c.Output = io.Discard
	}
	name := filepath.Base(filepath.Dir(c.Bootstrap))
	f := &Function{name: name, ended: make(chan struct{}), timeout: c.Timeout}
	f.runtime = newRuntime("arn:aws:lambda:us-east-1:123456789012:function:"+name+":live", c.Timeout)
	f.server = httptest.NewUnstartedServer(f.runtime.handler())
	f.server.Config.ErrorLog = nil
	f.server.Start()
	f.cmd = exec.Command(c.Bootstrap)
	f.cmd.Env = environ(name, strings.TrimPrefix(f.server.URL, "http://"), c.Env)
	f.cmd.Stdout, f.cmd.Stderr = c.Output, c.Output
	f.started = time.Now()
	if err := f.cmd.Start(); err != nil {
		f.server.Close()
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		defer close(f.ended)
		f.waited = f.cmd.Wait()
	}()
	select {
	case <-f.runtime.asked:
		f.ready = time.Now()
		return f, nil
	case said := <-f.runtime.initErr:
		f.Stop()
		return nil, fmt.Errorf("starting %s: %s", name, said)
	case <-f.ended:
		f.server.Close()
		return nil, fmt.Errorf("starting %s: %w: %w", name, ErrEnded, f.waited)
	case <-ctx.Done():
		f.Stop()
		return nil, fmt.Errorf("starting %s: %w", name, ctx.Err())
	}
}

// environ is what Lambda sets, then what the function was given, which wins.
// https://docs.aws.amazon.com/lambda/latest/dg/configuration-envvars.html
func environ(name, api string, own map[string]string) []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"), "LANG=en_US.UTF-8", "TZ=:UTC",
		"AWS_LAMBDA_RUNTIME_API=" + api, "_HANDLER=bootstrap", "AWS_EXECUTION_ENV=AWS_Lambda_provided.al2023",
		"AWS_LAMBDA_FUNCTION_NAME=" + name, "AWS_LAMBDA_FUNCTION_VERSION=1", "AWS_LAMBDA_FUNCTION_MEMORY_SIZE=512",
		"AWS_LAMBDA_INITIALIZATION_TYPE=on-demand", "AWS_LAMBDA_LOG_GROUP_NAME=" + name, "AWS_LAMBDA_LOG_STREAM_NAME=1",
		"AWS_LAMBDA_LOG_FORMAT=JSON", "AWS_LAMBDA_LOG_LEVEL=INFO",
		"AWS_REGION=us-east-1", "AWS_DEFAULT_REGION=us-east-1", "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test",
	}
	for variable, value := range own {
		env = append(env, variable+"="+value)
	}
	return env
}

// Invoke hands the function an event and returns its answer. Events are handed
// over one at a time, as Lambda does: a second call waits.
func (f *Function) Invoke(ctx context.Context, event []byte) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	in := invocation{id: rand.Text(), event: event}
	answer := f.runtime.expect(in.id)
	select {
	case f.runtime.events <- in:
	case <-f.ended:
		return Answer{}, fmt.Errorf("invoking %s: %w", f.name, ErrEnded)
	case <-ctx.Done():
		return Answer{}, fmt.Errorf("invoking %s: %w", f.name, ctx.Err())
	}
	select {
	case a := <-answer:
		return a, nil
	case <-f.ended:
		return Answer{}, fmt.Errorf("invoking %s: %w: %w", f.name, ErrEnded, f.waited)
	case <-ctx.Done():
		return Answer{}, fmt.Errorf("invoking %s: %w", f.name, ctx.Err())
	}
}

// Init is how long the function took from the start of its process to its
// request for the first event.
func (f *Function) Init() time.Duration { return f.ready.Sub(f.started) }

// PID is the process's id.
func (f *Function) PID() int { return f.cmd.Process.Pid }

// Stop ends the process and returns when it is gone.
func (f *Function) Stop() {
	_ = f.cmd.Process.Signal(syscall.SIGKILL)
	<-f.ended
	f.server.CloseClientConnections()
	f.server.Close()
}
