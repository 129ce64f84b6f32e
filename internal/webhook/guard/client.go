// Package guard is the HTTP client for merchants' URLs. It connects to public
// addresses only: a URL in a misleading spelling does not change that, nor does
// a host name that resolves to a private address when the client connects.
package guard

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"remit/internal/webhook"
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

// A Client posts to merchants' URLs and checks them beforehand. It follows no
// redirect, uses no proxy, and keeps connections only for seconds.
type Client struct {
	loopback bool
	timeout  time.Duration // of a post
	resolver *net.Resolver
	allowed  func(netip.Addr) bool
	public   *http.Client
	local    *http.Client // nil unless loopback
}

var (
	_ webhook.Sender  = (*Client)(nil)
	_ webhook.Checker = (*Client)(nil)
)

// NewClient returns a client. With loopback, which is for stacks on one machine,
// it also takes http://127.0.0.1, http://localhost and http://[::1].
func NewClient(loopback bool) *Client {
	return newClient(loopback, net.DefaultResolver, Public, nil)
}

// newClient makes a client that connects to the addresses that are allowed.
// config says how servers' certificates are checked; nil is the default.
func newClient(loopback bool, resolver *net.Resolver, allowed func(netip.Addr) bool, config *tls.Config) *Client {
	c := &Client{loopback: loopback, timeout: webhook.SendTimeout, resolver: resolver, allowed: allowed}
	if config == nil {
		config = &tls.Config{}
	}
	config.MinVersion = tls.VersionTLS12
	c.public = plainClient(config, (&net.Dialer{
		Timeout: dialTimeout, Resolver: resolver, Control: only(allowed),
	}).DialContext)
	if loopback {
		c.local = plainClient(config, dialLocal)
	}
	return c
}

// plainClient returns a client that makes one HTTP/1.1 exchange as it is told,
// without a proxy, cookies, redirects or decompression.
func plainClient(config *tls.Config, dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Client {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  nil,
			DialContext:            dial,
			TLSClientConfig:        config,
			TLSHandshakeTimeout:    dialTimeout,
			Protocols:              &protocols,
			DisableCompression:     true,
			MaxResponseHeaderBytes: headerLimit,
			MaxIdleConns:           idleTotal,
			MaxIdleConnsPerHost:    idlePerHost,
			IdleConnTimeout:        idleTimeout,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// only refuses connections to addresses that are not allowed. It runs after the
// look-up of the name, for the address to which the socket is about to be
// connected, so that no later look-up can put another in its place.
func only(allowed func(netip.Addr) bool) func(network, address string, _ syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		ap, err := netip.ParseAddrPort(address)
		if err != nil || !allowed(ap.Addr()) {
			return errNotPublic
		}
		return nil
	}
}

// dialLocal connects to this machine. It takes localhost for a loopback address
// without a look-up.
func dialLocal(ctx context.Context, _, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
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

// Check implements webhook.Checker. The name is looked up, and each of its
// addresses must be public. A name that does not resolve is accepted, since Post
// checks the connection.
func (c *Client) Check(ctx context.Context, url string) error {
	t, err := parse(url, c.loopback)
	if err != nil || t.loopback || t.addr.IsValid() {
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
			return &webhook.URLError{Reason: "has a host name that resolves to an address that is not public"}
		}
	}
	return nil
}
