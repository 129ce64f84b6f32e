// Package localtest runs commands in the process of a test.
package localtest

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"remit/internal/client"
	"remit/internal/local"
)

// A Command is the part of a command line that kong fills in and runs.
type Command interface {
	Run(ctx context.Context, out io.Writer) error
}

// A Screen keeps the lines that a command prints. Several goroutines may write to
// it at once.
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
		s.lines <- line
	}
}

// Await returns the first line that has text in it. It forgets the lines before.
func (s *Screen) Await(t *testing.T, text string) string {
	t.Helper()
	var seen []string
	for limit := time.After(30 * time.Second); ; {
		select {
		case line := <-s.lines:
			if strings.Contains(line, text) {
				return line
			}
			seen = append(seen, line)
		case <-s.ended:
			t.Fatalf("the command ended before a line had %q:\n%s", text, strings.Join(seen, "\n"))
		case <-limit:
			t.Fatalf("no line has %q:\n%s", text, strings.Join(seen, "\n"))
		}
	}
}

// Parse fills in a command from its flags.
func Parse(command Command, flags ...string) error {
	parser, err := kong.New(command)
	if err == nil {
		_, err = parser.Parse(flags)
	}
	return err
}

// Start runs a command until stop is called or the test ends. The test fails if
// the command ends with an error.
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

// Stack starts `remit local` on free ports until the test ends. It returns a new
// merchant of the stack, and the stack's screen after the welcome.
func Stack(t *testing.T, flags ...string) (*client.Client, *Screen) {
	t.Helper()
	out, _ := Start(t, &local.Command{}, append([]string{"--listen", "127.0.0.1:0", "--chain-listen", "127.0.0.1:0", "--block-time",
		"250ms"}, flags...)...)
	api := &client.Client{URL: strings.Fields(out.Await(t, "API"))[1]}
	out.Await(t, "Ctrl-C")
	var err error
	if api.Key, err = api.CreateKey(t.Context(), "Acme"); err != nil {
		t.Fatal(err)
	}
	return api, out
}
