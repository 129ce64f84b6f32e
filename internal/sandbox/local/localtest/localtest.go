// Package localtest runs commands, in the process of a test or as a process of their own.
package localtest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/remit-payouts/remit/internal/sandbox/local"
	remit "github.com/remit-payouts/remit/sdk/go"
)

// A Command is the part of a command line that kong fills in and runs.
type Command interface {
	Run(ctx context.Context, out io.Writer) error
}

// A Screen keeps the lines that a command prints. Several goroutines may write to it at once.
type Screen struct {
	lines chan string // without line ends; the first is the oldest
	mu    sync.Mutex
	rest  string
	ended <-chan struct{} // closed when the command has ended
}

// NewScreen returns the empty screen of a command that closes ended at its end.
func NewScreen(ended <-chan struct{}) *Screen {
	return &Screen{lines: make(chan string, 100_000), ended: ended}
}

// Write implements io.Writer.
func (s *Screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest += string(b)
	for {
		line, rest, whole := strings.Cut(s.rest, "\n")
		if !whole {
			return len(b), nil
		}
		s.rest = rest
		select {
		case s.lines <- line:
		default: // nobody reads a command that prints so much
		}
	}
}

// Until returns the lines up to the first that matches, and forgets them. It waits five minutes.
func (s *Screen) Until(match func(line string) bool) (seen []string, err error) {
	for limit := time.After(5 * time.Minute); ; {
		select {
		case line := <-s.lines:
			if seen = append(seen, line); match(line) {
				return seen, nil
			}
		case <-s.ended:
			if len(s.lines) == 0 {
				return nil, fmt.Errorf("the command ended before it printed more than\n%s", strings.Join(seen, "\n"))
			}
		case <-limit:
			return nil, fmt.Errorf("within five minutes the command printed only\n%s", strings.Join(seen, "\n"))
		}
	}
}

// Await returns the first line that has text in it. It forgets the lines before.
func (s *Screen) Await(t testing.TB, text string) string {
	t.Helper()
	lines, err := s.Until(func(line string) bool { return strings.Contains(line, text) })
	if err != nil {
		t.Fatalf("waiting for %q: %v", text, err)
	}
	return lines[len(lines)-1]
}

// Parse fills in a command from its flags.
func Parse(command Command, flags ...string) error {
	parser, err := kong.New(command)
	if err == nil {
		_, err = parser.Parse(flags)
	}
	return err
}

// Start runs a command until stop is called or the test ends. The test fails if the command ends with an error.
func Start(t *testing.T, command Command, flags ...string) (out *Screen, stop func()) {
	t.Helper()
	err := Parse(command, flags...)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	out = NewScreen(ended)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	go func() {
		defer close(ended)
		err = command.Run(ctx, out)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if <-ended; err != nil {
			t.Errorf("%T ended with %v", command, err)
		}
	})
	t.Cleanup(stop)
	return out, stop
}

// free are the flags of `remit local` on free ports.
var free = []string{"--listen", "127.0.0.1:0", "--chain-listen", "127.0.0.1:0", "--block-time", "250ms"}

// Stack starts `remit local` on free ports until the test ends. It returns a new
// merchant of the stack, and the stack's screen after the welcome.
func Stack(t *testing.T, flags ...string) (*remit.Client, *Screen) {
	t.Helper()
	out, _ := Start(t, &local.Command{}, slices.Concat(free, flags)...)
	return Merchant(t, out), out
}

var shared struct {
	sync.Once
	url string
}

// Shared returns a new merchant of a stack with two assets that the tests of a process share. It runs until they end.
func Shared(t *testing.T) *remit.Client {
	t.Helper()
	shared.Do(func() {
		var command local.Command
		if err := Parse(&command, append(free, "--rail=usdc", "--rail=eurc")...); err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		out := NewScreen(ended)
		go func() {
			defer close(ended)
			if err := command.Run(context.Background(), out); err != nil {
				fmt.Fprintln(os.Stderr, "the shared stack ended:", err)
			}
		}()
		shared.url = Merchant(t, out).URL
	})
	return client(t, shared.url)
}

// Merchant waits for the welcome of `remit local` and returns a new merchant of the stack.
func Merchant(t testing.TB, out *Screen) *remit.Client {
	t.Helper()
	url := strings.Replace(strings.Fields(out.Await(t, "API"))[1], "[::]", "127.0.0.1", 1)
	out.Await(t, "Ctrl-C")
	return client(t, url)
}

// client returns a new merchant of a stack.
func client(t testing.TB, url string) *remit.Client {
	t.Helper()
	return Join(t, &remit.Client{Once: true, URL: url,
		HTTP: &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 256, MaxIdleConns: 512}}}, "Acme")
}

// Join gives a client the key of a new merchant, and returns it.
func Join(t testing.TB, api *remit.Client, name string) *remit.Client {
	t.Helper()
	made, err := api.CreateMerchant(t.Context(), remit.CreateAPIKeyRequest{MerchantName: name})
	if err != nil {
		t.Fatal(err)
	}
	api.Key = made.APIKey
	return api
}
