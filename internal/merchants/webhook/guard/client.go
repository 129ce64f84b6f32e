// Package guard is the HTTP client for merchants' URLs. It connects to public addresses only: a URL in a misleading
// spelling does not change that, nor does a host name that resolves to a private address when the client connects.
package guard

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
)

// Limits of one post, beside webhook.SendTimeout, which bounds all of it.
const (
	lookupTimeout = 5 * time.Second // of Check
	dialTimeout   = 5 * time.Second // per address
	headerLimit   = 16 << 10        // bytes of an answer's header
	bodyTimeout   = 2 * time.Second // for the part of an answer's body that is kept
	idleTimeout   = 10 * time.Second
	idlePerHost   = 4
	idleTotal     = 100
)

// A Client checks merchants' URLs and posts to them, without redirects and proxies. It keeps connections for seconds.
type Client struct {
	loopback bool
	live     bool
	timeout  time.Duration // of a post
	resolver *net.Resolver
	allowed  func(netip.Addr) bool
	public   *http.Client
	local    *http.Client // nil unless loopback
}

// NewClient returns a client. With loopback, for stacks on one machine, it also takes http://127.0.0.1,
// http://localhost and http://[::1]. A live one takes HTTPS's ports only, 443 and 8443: it is nobody's scanner.
func NewClient(loopback, live bool) *Client {
	c := newClient(loopback, net.DefaultResolver, Public, nil)
	c.live = live
	return c
}

// newClient makes a client that connects to the addresses that are allowed. config controls how servers' certificates
// are checked; nil is the default. TLS 1.2 is the least that crypto/tls speaks as a client.
func newClient(loopback bool, resolver *net.Resolver, allowed func(netip.Addr) bool, config *tls.Config) *Client {
	c := &Client{loopback: loopback, timeout: webhook.SendTimeout, resolver: resolver, allowed: allowed}
	c.public = plainClient(config, (&net.Dialer{
		Timeout: dialTimeout, Resolver: resolver, Control: only(allowed),
	}).DialContext)
	if loopback {
		c.local = plainClient(config, dialLocal)
	}
	return c
}

// plainClient returns a client that makes one exchange as instructed, without a proxy, cookies, redirects or
// decompression, by HTTP/1.1: a transport with a dialer of its own offers no HTTP/2.
func plainClient(config *tls.Config, dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  nil,
			DialContext:            dial,
			TLSClientConfig:        config,
			TLSHandshakeTimeout:    dialTimeout,
			DisableCompression:     true,
			MaxResponseHeaderBytes: headerLimit,
			MaxIdleConns:           idleTotal,
			MaxIdleConnsPerHost:    idlePerHost,
			IdleConnTimeout:        idleTimeout,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// only refuses connections to addresses that are not allowed. It runs after the look-up of the name, for the address
// to which the socket is about to be connected, so that no later look-up can put another in its place.
func only(allowed func(netip.Addr) bool) func(network, address string, _ syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil || !allowed(ap.Addr()) {
			return errNotPublic
		}
		return nil
	}
}

// dialLocal connects to this machine. It takes localhost for a loopback address without a look-up.
func dialLocal(ctx context.Context, _, address string) (net.Conn, error) {
	host, port, _ := net.SplitHostPort(address)
	d := &net.Dialer{Timeout: dialTimeout, Control: only(netip.Addr.IsLoopback)}
	if host != "localhost" {
		return d.DialContext(ctx, "tcp", address)
	}
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		if v6, v6err := d.DialContext(ctx, "tcp", net.JoinHostPort("::1", port)); v6err == nil {
			return v6, nil
		}
	}
	return conn, err
}

// Check implements webhook.Checker. The name is looked up, and each of its addresses must be public. A name that does
// not resolve is accepted, since Post checks the connection.
func (c *Client) Check(ctx context.Context, url string) error {
	t, err := parse(url, c.loopback, c.live)
	if err != nil || t.loopback {
		return err
	}
	lookup, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	addrs, err := c.resolver.LookupNetIP(lookup, "ip", t.host)
	if err != nil {
		return ctx.Err()
	}
	for _, a := range addrs {
		if !c.allowed(a.Unmap()) {
			return refusal("has a host name that resolves to an address that is not public")
		}
	}
	return nil
}

var errNotPublic = errors.New("the address is not public")

// Post implements webhook.Sender. It checks the URL's spelling again, and the address when the connection is made.
func (c *Client) Post(ctx context.Context, url string, header http.Header, body []byte) (webhook.Answer, error) {
	post, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var req *http.Request
	t, err := parse(url, c.loopback, c.live)
	if err == nil {
		req, err = http.NewRequestWithContext(post, http.MethodPost, t.url.String(), bytes.NewReader(body))
	}
	if err != nil {
		return webhook.Answer{}, &webhook.SendError{Reason: "the URL is not acceptable", Err: err}
	}
	client := c.public
	if t.loopback {
		client = c.local
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

// reasons are failures that a merchant can mend; the first match wins. An error's own text may name internal addresses.
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

// alerted reports a TLS alert, from either side: crypto/tls has no other name for one outside QUIC.
func alerted(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && (op.Op == "remote error" || op.Op == "local error")
}

func timedOut(err error) bool {
	n, ok := errors.AsType[net.Error](err)
	return ok && n.Timeout()
}
