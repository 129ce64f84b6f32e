package webhook

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// schedule holds the wait before each attempt, give or take spread. Together they are about three days.
var schedule = [...]time.Duration{
	0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour,
	5 * time.Hour, 10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
}

const (
	spread       = 0.2 // of a delay, both ways
	testAttempts = 4   // of the schedule, in test mode
)

func attemptLimit(mode string) int {
	if mode == "test" {
		return testAttempts
	}
	return len(schedule)
}

// delay returns the wait after failed attempt number made, with jitter in [0, 1). The Retry-After of a 429 or 503 is
// granted between once and twice the wait of the schedule.
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
		seconds, _ := strconv.ParseInt(value, 10, 32) // the largest, if it has more digits
		return time.Duration(seconds) * time.Second, true
	}
	if at, err := http.ParseTime(value); err == nil {
		return at.Sub(now), true
	}
	return 0, false
}

// queueDelay returns a wait as a Queue takes it: whole seconds, rounded up, and no longer than its limit.
func queueDelay(wait time.Duration) time.Duration {
	return min(max((wait+time.Second-1).Truncate(time.Second), 0), QueueLimit)
}
