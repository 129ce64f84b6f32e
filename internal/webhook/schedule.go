package webhook

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// schedule is when each attempt is due after the one before, give or take
// spread. It covers about three days.
var schedule = [...]time.Duration{
	0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour,
	5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

const (
	spread       = 0.2 // of a delay, both ways
	testAttempts = 4   // of the schedule, in test mode
)

// attemptLimit returns how many attempts a delivery of the given mode has.
func attemptLimit(mode string) int {
	if mode == "test" {
		return testAttempts
	}
	return len(schedule)
}

// delay returns how long to wait after a failed attempt, the made-th, with
// jitter in [0, 1). An endpoint that says when to come back (429 and 503) is
// taken at its word between once and twice the planned delay.
func delay(made int, x exchange, now time.Time, jitter float64) time.Duration {
	base := schedule[made]
	if x.StatusCode == http.StatusTooManyRequests || x.StatusCode == http.StatusServiceUnavailable {
		if asked, ok := retryAfter(x.retryAfter, now); ok {
			return min(max(asked, base), 2*base)
		}
	}
	return time.Duration(float64(base) * (1 - spread + 2*spread*jitter))
}

// retryAfter reads the header: seconds or a date (RFC 9110, section 10.2.3).
func retryAfter(value string, now time.Time) (time.Duration, bool) {
	value = strings.TrimSpace(value)
	if value != "" && strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 32)
		if err != nil {
			return 1 << 62, true // more digits than any wait has
		}
		return time.Duration(seconds) * time.Second, true
	}
	if at, err := http.ParseTime(value); err == nil {
		return at.Sub(now), true
	}
	return 0, false
}

// queueDelay is a wait as a Queue takes it: whole seconds, rounded up so that
// the job does not arrive early, and no longer than the queue's limit.
func queueDelay(wait time.Duration) time.Duration {
	return min(max((wait+time.Second-1).Truncate(time.Second), 0), QueueLimit)
}
