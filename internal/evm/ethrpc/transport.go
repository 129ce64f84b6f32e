package ethrpc

import (
	"context"
	"io"
	"net/http"
	"time"
)

// maxResponse bounds one unpacked response, in bytes. A batch of 100 receipts, or one block with
// all its transactions, is a few megabytes on the busiest chains.
const maxResponse = 32 << 20

// maxParts bounds a response's braces and commas: a part that is read takes some hundred bytes, and its text may take
// three. A full response of receipts has some 300,000.
const maxParts = 1 << 19

// NewTransport returns a transport for nodes. It keeps many connections and takes no proxy from the environment.
func NewTransport() *http.Transport {
	protocols := new(http.Protocols)
	// Not HTTP/2: only a timeout finds its one connection dead after a Lambda's sleep, for every request.
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

// overdue is how long an answer may take to begin before the request is sent again. Healthy nodes begin within a
// tenth of it. Behind a balancer with a stuck machine, another machine answers the second request.
const overdue = 2 * time.Second

// repeating is a transport that sends a request a second time when its answer is overdue, and returns the answer that
// begins first. Both requests may take effect: a transaction's bytes are the same.
type repeating struct{ next http.RoundTripper }

func (t repeating) RoundTrip(r *http.Request) (*http.Response, error) {
	type answer struct {
		of       int
		response *http.Response
		err      error
	}
	answers, cancels := make(chan answer, 2), [2]context.CancelFunc{func() {}, func() {}}
	send := func(i int, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		cancels[i] = cancel
		go func() {
			response, err := t.next.RoundTrip(r.WithContext(ctx)) //nolint:bodyclose // by the caller, or below where the other was faster
			answers <- answer{i, response, err}
		}()
	}
	send(0, r)
	late := time.NewTimer(overdue)
	defer late.Stop()
	for sent, answered := 1, 0; ; {
		select {
		case <-late.C:
			if again := r.Clone(r.Context()); r.GetBody != nil {
				if body, err := r.GetBody(); err == nil {
					again.Body = body
					send(1, again)
					sent++
				}
			}
		case a := <-answers:
			if answered++; a.err != nil && answered < sent {
				continue // the other request may still be answered
			}
			cancels[1-a.of]()
			if a.err != nil {
				cancels[a.of]()
				return nil, a.err
			}
			if answered < sent {
				go func() {
					if slower := <-answers; slower.err == nil {
						_ = slower.response.Body.Close()
					}
				}()
			}
			a.response.Body = ending{a.response.Body, cancels[a.of]}
			return a.response, nil
		}
	}
}

// An ending is a response body that ends its request when closed.
type ending struct {
	io.ReadCloser
	end context.CancelFunc
}

func (e ending) Close() error {
	defer e.end()
	return e.ReadCloser.Close()
}
