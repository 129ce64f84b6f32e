package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// An exchange is an attempt and the Retry-After header of its answer.
type exchange struct {
	Attempt
	retryAfter string
}

// post sends ev to e once. An error, if ctx ended or the message cannot be signed, counts as no attempt.
func post(ctx context.Context, s Sender, e Endpoint, ev Event, now func() time.Time) (exchange, error) {
	at := now()
	h, err := header(e, ev, at)
	if err != nil {
		return exchange{}, err
	}
	answer, err := s.Post(ctx, e.URL, h, ev.Body)
	// At is not rounded: two copies of one job make attempts that differ in it.
	x := exchange{Attempt: Attempt{At: at.UTC().Round(0), Duration: now().Sub(at).Round(time.Millisecond)}}
	if err != nil {
		if ctx.Err() != nil {
			return x, fmt.Errorf("posting %s to %s: %w", ev.ID, e.ID, ctx.Err())
		}
		x.Error = "the message could not be sent"
		if sent, ok := errors.AsType[*SendError](err); ok {
			x.Error = sent.Reason
		}
		return x, nil
	}
	x.StatusCode, x.retryAfter, x.Response = answer.StatusCode, answer.RetryAfter, text(answer.Body)
	x.Error = failure(answer.StatusCode)
	return x, nil
}

func failure(status int) string {
	switch {
	case status/100 == 2:
		return ""
	case status/100 == 3:
		return fmt.Sprintf("the endpoint answered %d; redirects are not followed", status)
	case status == http.StatusGone:
		return "the endpoint answered 410 and was disabled"
	}
	return fmt.Sprintf("the endpoint answered %d", status)
}

// text returns the first ResponseLimit bytes of an answer as UTF-8, without a character that the limit cuts off.
func text(b []byte) string {
	s := strings.ToValidUTF8(string(b[:min(len(b), ResponseLimit)]), "\uFFFD")
	if len(b) >= ResponseLimit {
		s = strings.TrimSuffix(s, "\uFFFD")
	}
	return s
}

func (a Attempt) result() string {
	switch a.StatusCode / 100 {
	case 2, 3, 4, 5:
		return fmt.Sprintf("%dxx", a.StatusCode/100)
	}
	return "None" // no usable answer
}
