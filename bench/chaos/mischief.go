package chaos

import (
	"context"
	"math/rand/v2"
	"time"
)

// How often things go wrong, on the average, and for how long at most.
const (
	betweenKills  = 7 * time.Second
	betweenFaults = 4 * time.Second // per proxy
	longestDeath  = 2 * time.Second
	longestFault  = 4 * time.Second
)

// A mischief decides what goes wrong when. Its seed repeats the decisions; what
// they meet depends on the machine.
type mischief struct {
	draw *rand.Rand
	log  func(format string, args ...any)
	what map[string]int
}

// pause waits for a random while around mean. It reports false if ctx ends.
func (m *mischief) pause(ctx context.Context, mean time.Duration) bool {
	wait := time.Duration(m.draw.ExpFloat64() * float64(mean))
	select {
	case <-ctx.Done():
		return false
	case <-time.After(min(wait, 4*mean)):
		return true
	}
}

func (m *mischief) upTo(limit time.Duration) time.Duration {
	return time.Duration(m.draw.Int64N(int64(limit)))
}

// killing kills the server again and again until faults ends; life bounds the
// restart.
func (m *mischief) killing(faults, life context.Context, s *server) error {
	for m.pause(faults, betweenKills) {
		m.log("kill -9 of the server")
		if err := s.kill(life, m.upTo(longestDeath)); err != nil {
			return err
		}
		m.log("the server serves again")
	}
	return nil
}

// disturbing makes a proxy misbehave again and again until faults ends.
func (m *mischief) disturbing(faults context.Context, p *Proxy) {
	for m.pause(faults, betweenFaults) {
		mode := []Mode{Down, Slow, Mute, Stall}[m.draw.IntN(4)]
		m.log("%s: %s", p.Name, mode)
		m.what[p.Name+": "+mode.String()]++
		p.Set(mode)
		select {
		case <-faults.Done():
		case <-time.After(m.upTo(longestFault)):
		}
		p.Set(Pass)
		m.log("%s: well again", p.Name)
	}
}
