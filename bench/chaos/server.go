package chaos

import (
	"context"
	"io"
	"sync"
	"time"

	"remit/bench/lab"
)

// restartPause is how soon a supervisor starts a server that has ended by
// itself, because its database or its node was down when it started.
const restartPause = 300 * time.Millisecond

// A server is `remit local` under a supervisor that always starts it again.
type server struct {
	binary string
	args   []string
	stderr io.Writer

	mu      sync.Mutex
	process *lab.Process
	kills   []*killing
	starts  int // that failed because a service was down
}

// A killing is one SIGKILL and what followed.
type killing struct {
	at    time.Time
	ready time.Time // when the next process served
}

// start brings the server up, trying until it serves or ctx ends.
func (s *server) start(ctx context.Context) error {
	for {
		p, _, err := lab.Launch(ctx, s.stderr, "Ctrl-C", s.binary, s.args...)
		if err == nil {
			s.mu.Lock()
			s.process = p
			s.mu.Unlock()
			return nil
		}
		s.mu.Lock()
		s.starts++
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(restartPause):
		}
	}
}

// kill ends the server without warning, leaves it dead for a while, and starts
// it again.
func (s *server) kill(ctx context.Context, dead time.Duration) error {
	k := &killing{at: time.Now()}
	s.process.Kill()
	s.mu.Lock()
	s.kills = append(s.kills, k)
	s.mu.Unlock()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(dead):
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	k.ready = time.Now()
	s.mu.Unlock()
	return nil
}

// stop ends the server for good.
func (s *server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		s.process.Kill()
	}
}

// count returns how often it was killed and how often it failed to start.
func (s *server) count() (kills, failed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.kills), s.starts
}
