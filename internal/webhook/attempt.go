package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"
)

// An exchange is an attempt and what the schedule needs of its answer.
type exchange struct {
	Attempt
	retryAfter string
}

// post sends ev to e once. It returns an error, and no attempt took place as far
// as anybody should count, only if ctx ended or the message cannot be signed.
func post(ctx context.Context, s Sender, e Endpoint, ev Event, now func() time.Time) (exchange, error) {
	at := now()
	h, err := header(e, ev, at)
	if err != nil {
		return exchange{}, err
	}
	answer, err := s.Post(ctx, e.URL, h, ev.Body)
	// The whole of the time is kept: it is what tells attempts by copies of one
	// job apart.
	x := exchange{Attempt: Attempt{At: at.UTC().Round(0), Duration: now().Sub(at).Round(time.Millisecond)}}
	if err != nil {
		if ctx.Err() != nil {
			return exchange{}, fmt.Errorf("posting %s to %s: %w", ev.ID, e.ID, ctx.Err())
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

// refusal says what is wrong with an answer of the given status, "" if nothing.
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

// text is what of an answer's first bytes is text. A character cut off by the
// limit is left out, other bytes that are not UTF-8 are replaced.
func text(b []byte) string {
	b = b[:min(len(b), ResponseLimit)]
	for cut := 1; cut < utf8.UTFMax && cut <= len(b); cut++ {
		if last := b[len(b)-cut:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				b = b[:len(b)-cut]
			}
			break
		}
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}

// result is the kind of outcome that a Meter counts.
func (a Attempt) result() string {
	switch a.StatusCode / 100 {
	case 2, 3, 4, 5:
		return fmt.Sprintf("%dxx", a.StatusCode/100)
	}
	return "none"
}
