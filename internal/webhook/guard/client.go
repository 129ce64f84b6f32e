// Package guard is the HTTP client that merchants' URLs are given to. It goes
// to public addresses only, whatever a URL is made to look like and whatever
// its name resolves to at the moment of connecting.
package guard

import (
	"context"
	"net/http"

	"remit/internal/webhook"
)

// A Client posts to merchants' URLs and checks them beforehand. It follows no
// redirect, uses no proxy, and keeps connections only for seconds.
type Client struct {
	public *http.Client
}

var (
	_ webhook.Sender  = (*Client)(nil)
	_ webhook.Checker = (*Client)(nil)
)

// NewClient returns a client. With loopback, which is for stacks on one machine,
// it also takes http://127.0.0.1, http://localhost and http://[::1].
func NewClient(loopback bool) *Client { return &Client{} }

// Post implements webhook.Sender.
func (c *Client) Post(ctx context.Context, url string, header http.Header, body []byte) (webhook.Answer, error) {
	panic("TODO")
}

// Check implements webhook.Checker. The name is looked up, and every address
// it has must be public; one that does not resolve is accepted.
func (c *Client) Check(ctx context.Context, url string) error { panic("TODO") }
