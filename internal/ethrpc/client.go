package ethrpc

import (
	"net/http"
	"time"
)

// maxResponse bounds one response, unpacked. A batch of 100 receipts, or one
// block with all its transactions, is a few megabytes on the busiest chains.
const maxResponse = 32 << 20

// clientOver returns an HTTP client that reads at most maxResponse bytes of a
// response. It follows no redirect, which would hand signed bytes to another
// host.
func clientOver(transport http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     bounded{transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// NewTransport returns a transport fit for nodes. It keeps connections for
// many requests at once and takes no proxy from the environment.
func NewTransport() *http.Transport {
	protocols := new(http.Protocols)
	// Not HTTP/2: its one connection, dead after a Lambda's sleep, is only
	// found out by a timeout, and takes every request with it.
	protocols.SetHTTP1(true)
	return &http.Transport{
		Protocols:           protocols,
		MaxIdleConns:        512,
		MaxIdleConnsPerHost: 128,
		// Below the 60 s after which an AWS load balancer hangs up (nginx: 75).
		// net/http measures it by the wall clock, so it holds across a sleep.
		IdleConnTimeout:     50 * time.Second,
		TLSHandshakeTimeout: 5 * time.Second,
	}
}

// bounded is a transport whose response bodies end with an *http.MaxBytesError
// after maxResponse bytes, and that notes their Retry-After.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(r)
	if err == nil {
		response.Body = http.MaxBytesReader(nil, response.Body, maxResponse)
		noteRetryAfter(r, response)
	}
	return response, err
}
