package guard

import (
	"crypto/tls"
	"net"
	"net/netip"
	"time"
)

// NewTestClient is NewClient with everything it takes from the world given.
func NewTestClient(loopback bool, resolver *net.Resolver, allowed func(netip.Addr) bool, config *tls.Config, timeout time.Duration) *Client {
	c := newClient(loopback, resolver, allowed, config)
	c.timeout = timeout
	return c
}

// Special is the table.
func Special() []netip.Prefix { return special }

// Timeout is how long a post may take.
func (c *Client) Timeout() time.Duration { return c.timeout }
