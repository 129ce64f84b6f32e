// Package events_test hands every event of this directory to the program that
// Lambda would hand it to, through a Lambda Runtime API of our own. What the
// functions call is what `sam local` would have them call: the services of
// tools/local-services, with the environment that env.json sets.
package events_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"remit/internal/boot/boottest"
)

const root = ".."

// services are what functions call, and the functions, started when first used.
type services struct {
	environment map[string]map[string]string // by logical id
	bin         string

	mu        sync.Mutex
	functions map[string]*function
}

type function struct {
	*boottest.Function
	log *logged
}

// logged keeps what a function prints.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

var (
	scratch string
	running = sync.OnceValues(func() (*services, error) { return begin(scratch) })
	toEnd   []func()
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if scratch, err = os.MkdirTemp("", "remit-events-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() {
			for _, end := range toEnd {
				end()
			}
			_ = os.RemoveAll(scratch)
		}()
		return m.Run()
	}())
}

func start(t *testing.T) *services {
	t.Helper()
	s, err := running()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// begin starts tools/local-services and reads env.json. It ends with this
// process, since the pipe it holds does.
func begin(dir string) (*services, error) {
	remit := filepath.Join(dir, "remit")
	build := exec.Command("go", "build", "-o", remit, "./cmd/remit")
	build.Dir = root
	if printed, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compiling remit: %w\n%s", err, printed)
	}
	ports, err := freePorts(2)
	if err != nil {
		return nil, err
	}
	env := filepath.Join(dir, "env.json")
	cmd := exec.Command("tools/local-services", "--bind", "127.0.0.1", "--host", "127.0.0.1",
		"--port", ports[0], "--chain-port", ports[1], "--block-time", "200ms", "--until-eof",
		"--env", env, "--state", filepath.Join(dir, "state"), "--set", "WebhookLoopback=allowed")
	cmd.Dir, cmd.Env, cmd.Stderr = root, append(os.Environ(), "REMIT="+remit), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	hold, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	toEnd = append(toEnd, func() { _ = hold.Close(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, fmt.Errorf("tools/local-services ended: %w", err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	text, err := os.ReadFile(env)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", line, err)
	}
	s := &services{bin: filepath.Join(dir, "bin"), functions: map[string]*function{}}
	return s, json.Unmarshal(text, &s.environment)
}

// function returns the running function of that name, compiled as for Lambda.
func (s *services) function(t *testing.T, name string) *function {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.functions[name]; f != nil {
		return f
	}
	if err := boottest.Build(t.Context(), root, s.bin, name); err != nil {
		t.Fatal(err)
	}
	f := &function{log: &logged{}}
	var err error
	f.Function, err = boottest.Start(context.WithoutCancel(t.Context()), boottest.Config{
		Bootstrap: filepath.Join(s.bin, name, "bootstrap"), Env: s.environment[logicalID(name)], Output: f.log, Timeout: time.Minute,
	})
	if err != nil {
		t.Fatalf("%v\n%s", err, f.log)
	}
	s.functions[name] = f
	toEnd = append(toEnd, f.Stop)
	return f
}

// invoke hands the function an event and returns its answer.
func (s *services) invoke(t *testing.T, name string, event []byte) boottest.Answer {
	t.Helper()
	f := s.function(t, name)
	a, err := f.Invoke(t.Context(), event)
	if err != nil {
		t.Fatalf("%v\n%s", err, f.log)
	}
	return a
}

// client is the configuration of somebody who looks into the tables.
func (s *services) client() aws.Config {
	url := s.environment["SendPaymentFunction"]["AWS_ENDPOINT_URL"]
	return aws.Config{Region: "us-east-1", BaseEndpoint: &url, Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")}
}

var letter = regexp.MustCompile(`(^|-)[a-z]`)

// logicalID is SendPaymentFunction for send-payment.
func logicalID(name string) string {
	return letter.ReplaceAllStringFunc(name, func(s string) string { return strings.ToUpper(strings.TrimPrefix(s, "-")) }) + "Function"
}

func freePorts(n int) ([]string, error) {
	var ports []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		ports = append(ports, port)
	}
	return ports, nil
}
