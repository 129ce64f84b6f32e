package guard

import (
	"crypto/tls"
	"net"
	"net/netip"
	"time"
)

// NewTestClient is NewClient with a resolver, allowed addresses, certificates
// and a timeout of the test's choice.
func NewTestClient(loopback bool, resolver *net.Resolver, allowed func(netip.Addr) bool, config *tls.Config, timeout time.Duration) *Client {
	c := newClient(loopback, resolver, allowed, config)
	c.timeout = timeout
	return c
}

// Special is the table.
func Special() []netip.Prefix { return special }

// Timeout is how long a post may take.
func (c *Client) Timeout() time.Duration { return c.timeout }
