package coldstart

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// startWithin bounds a start with its first answer.
const startWithin = 20 * time.Second

// A start is one process from its birth to its first answer.
type start struct {
	init     time.Duration // until it asked for its first event
	first    time.Duration // until it had answered that
	resident int64         // bytes of memory then
	answer   []byte
}

// What a process did instead of answering.
var (
	errFailed = errors.New("the function reported an error")
	errSilent = errors.New("the function did not answer in time")
)

// A runtimeAPI is the part of Lambda's Runtime API that one process talks to
// (AWS Lambda developer guide, "Using the Lambda runtime API"): it hands out
// one event and takes one answer.
type runtimeAPI struct {
	event  []byte
	asked  chan time.Time
	answer chan reply
	held   chan struct{} // closed when the second request for an event may end
	once   bool
}

type reply struct {
	at   time.Time
	body []byte
	err  error
}

// ServeHTTP implements http.Handler.
func (a *runtimeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasSuffix(r.URL.Path, "/invocation/next"):
		if a.once { // one process, one event: the next never comes
			<-a.held
			return
		}
		a.once = true
		a.asked <- time.Now()
		h := w.Header()
		h.Set("Lambda-Runtime-Aws-Request-Id", "8476a536-e9f4-11e8-9739-2dfe598c3fcd")
		h.Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(time.Now().Add(29*time.Second).UnixMilli(), 10))
		h.Set("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:us-east-1:123456789012:function:bench")
		h.Set("Content-Type", "application/json")
		_, _ = w.Write(a.event)
	default:
		at := time.Now()
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
		res := reply{at: at, body: body}
		if !strings.HasSuffix(r.URL.Path, "/response") {
			res.err = fmt.Errorf("%w: %s", errFailed, body)
		}
		select {
		case a.answer <- res:
		default: // one is enough
		}
	}
}

// run starts a bootstrap, gives it one event, and ends it after its answer.
func run(ctx context.Context, bootstrap string, env []string, event []byte, stderr io.Writer) (start, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return start{}, err
	}
	api := &runtimeAPI{event: event, asked: make(chan time.Time, 1), answer: make(chan reply, 1), held: make(chan struct{})}
	server := &http.Server{Handler: api}
	go func() { _ = server.Serve(listener) }()
	defer func() { _ = server.Close() }()
	defer close(api.held)
	cmd := exec.CommandContext(ctx, bootstrap)
	cmd.Env = append([]string{"AWS_LAMBDA_RUNTIME_API=" + listener.Addr().String(), "_HANDLER=bootstrap"}, env...)
	cmd.Stderr, cmd.Stdout = stderr, stderr
	born := time.Now()
	if err := cmd.Start(); err != nil {
		return start{}, err
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	var s start
	select {
	case at := <-api.asked:
		s.init = at.Sub(born)
	case res := <-api.answer:
		return start{}, res.err
	case <-time.After(startWithin):
		return start{}, errSilent
	}
	select {
	case res := <-api.answer:
		s.first, s.answer = res.at.Sub(born), res.body
		s.resident = resident(cmd.Process.Pid)
		return s, res.err
	case <-time.After(startWithin):
		return start{}, errSilent
	}
}

// resident returns the resident memory of a process in bytes, 0 where the
// system does not say.
func resident(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kb * 1024
		}
	}
	return 0
}
