package dispatch

import "time"

// MaxNotAfter is the most that a request's NotAfter may be ahead.
const MaxNotAfter = 300 * time.Second

func (d sending) expired() bool {
	return !d.notAfter.IsZero() && d.Now().Unix() > d.notAfter.Unix() || !d.ends.IsZero() && !d.Now().Before(d.ends)
}
