package webhooktest

import (
	"context"
	"slices"
	"time"

	"remit/internal/webhook"
)

// A Queue is a webhook.Queue driven by hand, with a clock of its own. It is not
// safe for concurrent use.
type Queue struct {
	Now  time.Time
	jobs []job
}

type job struct {
	text string
	at   time.Time
}

var _ webhook.Queue = (*Queue)(nil)

// Enqueue implements webhook.Queue.
func (q *Queue) Enqueue(_ context.Context, text string, delay time.Duration) error {
	q.jobs = append(q.jobs, job{text, q.Now.Add(delay)})
	return nil
}

// Pop removes and returns the first job whose time has come.
func (q *Queue) Pop() (string, bool) {
	i := slices.IndexFunc(q.jobs, func(j job) bool { return !j.at.After(q.Now) })
	if i < 0 {
		return "", false
	}
	text := q.jobs[i].text
	q.jobs = slices.Delete(q.jobs, i, i+1)
	return text, true
}

// Len returns how many jobs wait.
func (q *Queue) Len() int { return len(q.jobs) }

// Next returns when the next job's time comes; ok is false if there is none.
func (q *Queue) Next() (at time.Time, ok bool) {
	for i, j := range q.jobs {
		if i == 0 || j.at.Before(at) {
			at = j.at
		}
	}
	return at, len(q.jobs) > 0
}
