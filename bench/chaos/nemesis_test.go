package chaos_test

import (
	"context"
	"log"
	"math/rand/v2"
	"time"

	"remit/bench/lab"
)

// Means and maxima of the times between faults and of their lengths.
const (
	betweenKills  = 7 * time.Second
	betweenFaults = 4 * time.Second // of each proxy
	longestDeath  = 2 * time.Second
	longestFault  = 4 * time.Second
	restartPause  = 300 * time.Millisecond // before a server that ended by itself is started again
)

// A nemesis decides which fault happens when. Its seed repeats the decisions;
// their effect depends on the machine.
type nemesis struct {
	draw   *rand.Rand
	log    *log.Logger
	faults map[string]int
}

func newNemesis(n uint64, log *log.Logger) *nemesis {
	return &nemesis{draw: rand.New(rand.NewPCG(*seed, n)), log: log, faults: map[string]int{}}
}

// pause waits for a random while around mean and reports whether ctx goes on.
func (n *nemesis) pause(ctx context.Context, mean time.Duration) bool {
	lab.Sleep(ctx, min(time.Duration(n.draw.ExpFloat64()*float64(mean)), 4*mean))
	return ctx.Err() == nil
}

func (n *nemesis) upTo(limit time.Duration) time.Duration {
	return time.Duration(n.draw.Int64N(int64(limit)))
}

// kill kills the server again and again until faults ends; ctx bounds the
// restarts.
func (n *nemesis) kill(ctx, faults context.Context, s *server) error {
	for n.pause(faults, betweenKills) {
		n.log.Print("kill -9 of the server")
		k := killing{at: time.Now()}
		s.process.Kill()
		lab.Sleep(ctx, n.upTo(longestDeath))
		if err := s.start(ctx); err != nil {
			return err
		}
		k.ready = time.Now()
		s.kills = append(s.kills, k)
		n.log.Print("the server serves again")
	}
	return nil
}

// disturb makes a proxy misbehave again and again until faults ends.
func (n *nemesis) disturb(faults context.Context, p *proxy) {
	for n.pause(faults, betweenFaults) {
		m := []mode{down, slow, mute, stall}[n.draw.IntN(4)]
		n.log.Printf("%s: %s", p.name, m)
		n.faults[p.name+" "+m.String()]++
		p.set(m)
		lab.Sleep(faults, n.upTo(longestFault))
		p.set(pass)
		n.log.Printf("%s: %s", p.name, pass)
	}
}

// A server is `remit local` under a supervisor that always starts it again.
type server struct {
	binary  string
	args    []string
	log     *log.Logger
	process *lab.Process
	kills   []killing
	failed  int // starts that failed because a service was down
}

// A killing is one SIGKILL, and when the next process served.
type killing struct{ at, ready time.Time }

// start tries until the server serves or ctx ends.
func (s *server) start(ctx context.Context) error {
	for {
		p, _, err := lab.Start(ctx, s.log.Writer(), "Ctrl-C", s.binary, s.args...)
		if err == nil {
			s.process = p
			return nil
		}
		s.failed++
		if lab.Sleep(ctx, restartPause); ctx.Err() != nil {
			return err
		}
	}
}
