package guard

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"remit/internal/webhook"
)

var errNotPublic = errors.New("the address is not public")

// Post implements webhook.Sender. The URL's spelling is checked again here, and
// the address its name resolves to when the connection is made.
func (c *Client) Post(ctx context.Context, url string, header http.Header, body []byte) (webhook.Answer, error) {
	t, err := parse(url, c.loopback)
	if err != nil {
		return webhook.Answer{}, &webhook.SendError{Reason: "the URL is not acceptable", Err: err}
	}
	client := c.public
	if t.loopback {
		client = c.local
	}
	post, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(post, http.MethodPost, t.url.String(), bytes.NewReader(body))
	if err != nil {
		return webhook.Answer{}, &webhook.SendError{Reason: "the URL is not acceptable", Err: err}
	}
	req.Header = header.Clone()
	resp, err := client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return webhook.Answer{}, ctx.Err()
		}
		return webhook.Answer{}, &webhook.SendError{Reason: reason(err), Err: err}
	}
	// An endpoint that has answered cannot hold this goroutine with its body.
	stop := time.AfterFunc(bodyTimeout, cancel)
	defer stop.Stop()
	defer resp.Body.Close()
	kept := make([]byte, webhook.ResponseLimit)
	n, _ := io.ReadFull(resp.Body, kept)
	return webhook.Answer{StatusCode: resp.StatusCode, RetryAfter: resp.Header.Get("Retry-After"), Body: kept[:n]}, nil
}

// reasons are the failures that a merchant can mend; the first match wins. The
// error's own text is not shown: it may name internal addresses.
var reasons = []struct {
	match  func(error) bool
	reason string
}{
	{is(errNotPublic), "the host name resolves to an address that is not public"},
	{func(err error) bool {
		dns, ok := errors.AsType[*net.DNSError](err)
		return ok && dns.IsNotFound
	}, "the host name does not resolve"},
	{as[*net.DNSError], "the host name could not be looked up"},
	{timedOut, "there was no answer in time"},
	{as[*tls.CertificateVerificationError], "the TLS certificate is not valid for this host"},
	{alerted, "the TLS handshake failed"},
	{is(http.ErrSchemeMismatch), "the port does not speak TLS"},
	{as[tls.RecordHeaderError], "the port does not speak TLS"},
	{is(syscall.ECONNREFUSED), "the connection was refused"},
	{is(syscall.ECONNRESET), "the connection was reset"},
	{is(syscall.EHOSTUNREACH), "the host cannot be reached"},
	{is(syscall.ENETUNREACH), "the host cannot be reached"},
	{is(io.EOF), "the connection was closed without an answer"},
	{is(io.ErrUnexpectedEOF), "the connection was closed without an answer"},
}

func reason(err error) string {
	for _, r := range reasons {
		if r.match(err) {
			return r.reason
		}
	}
	return "there was no answer that is HTTP"
}

func is(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

func as[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// alerted reports a TLS alert, from either side: crypto/tls has no other name
// for one outside QUIC.
func alerted(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && (op.Op == "remote error" || op.Op == "local error")
}

func timedOut(err error) bool {
	n, ok := errors.AsType[net.Error](err)
	return ok && n.Timeout() || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
}
