package webhook

import (
	"context"
	"net/http"
	"time"
)

// A Sender posts messages; guard.Client is the one that goes to the network.
type Sender interface {
	// Post sends body to url once and returns what was answered, whatever its
	// status. It returns within SendTimeout. The error is a *SendError, unless
	// ctx ended first, and means that no answer was understood: the endpoint
	// may have taken the message all the same.
	Post(ctx context.Context, url string, header http.Header, body []byte) (Answer, error)
}

// An Answer is what a Sender keeps of a response.
type Answer struct {
	StatusCode int
	RetryAfter string // the header, as it was sent
	Body       []byte // at most ResponseLimit bytes
}

// A SendError says why a post got no answer.
type SendError struct {
	Reason string // for the merchant; names no address but what the URL says
	Err    error  // for the log
}

func (e *SendError) Error() string { return e.Reason + ": " + e.Err.Error() }

// Unwrap returns e.Err.
func (e *SendError) Unwrap() error { return e.Err }

// A Checker decides whether a URL may be registered.
type Checker interface {
	// Check returns nil for a URL that Post would send to as things are, and
	// otherwise a *URLError; any other error says that it could not be decided.
	Check(ctx context.Context, url string) error
}

// Limits of one attempt.
const (
	SendTimeout   = 15 * time.Second // from the look-up of the name to the end of the answer
	ResponseLimit = 1024             // bytes of an answer that are kept
)
