package webhook

import (
	"context"
	"net/http"
	"time"
)

// A Sender posts messages; guard.Client is the one that goes to the network.
type Sender interface {
	// Post sends body to url once and returns the answer, of any status. It
	// returns within SendTimeout. The error is a *SendError, unless ctx ended
	// first, and means that no answer was understood: the endpoint may have
	// taken the message all the same.
	Post(ctx context.Context, url string, header http.Header, body []byte) (Answer, error)
}

// An Answer is the part of a response that a Sender keeps.
type Answer struct {
	StatusCode int
	RetryAfter string // the header, as it was sent
	Body       []byte // at most ResponseLimit bytes
}

// A SendError says why a post got no answer.
type SendError struct {
	Reason string // for the merchant; names no address that the URL does not name
	Err    error  // for the log
}

func (e *SendError) Error() string { return e.Reason + ": " + e.Err.Error() }

// Unwrap returns e.Err.
func (e *SendError) Unwrap() error { return e.Err }

// A Checker decides whether a URL may be registered.
type Checker interface {
	// Check returns nil for a URL that Post would send to now, and a *URLError
	// for any other. Another error says that the URL could not be checked.
	Check(ctx context.Context, url string) error
}

// Limits of one attempt.
const (
	SendTimeout   = 15 * time.Second // from the look-up of the name to the end of the answer
	ResponseLimit = 1024             // bytes of an answer that are kept
)
