package guard

import (
	"crypto/tls"
	"net"
	"net/netip"
	"time"
)

// NewTestClient is NewClient with a resolver, allowed addresses and certificates of the test's choice. A post may take
// so long that a busy machine is never too slow.
func NewTestClient(loopback bool, resolver *net.Resolver, allowed func(netip.Addr) bool, config *tls.Config) *Client {
	c := newClient(loopback, resolver, allowed, config)
	c.timeout = time.Minute
	return c
}

// Timeout is how long a post may take.
func (c *Client) Timeout() *time.Duration { return &c.timeout }
