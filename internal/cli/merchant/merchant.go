// Package merchant has the commands of a merchant, who has an API key and a receiver of
// webhooks. They know a stack only by its URL.
package merchant

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"syscall"

	"github.com/remit-payouts/remit/internal/cli/client"
)

// connect returns a client of the stack at that URL. An empty key is no key.
func connect(url, key string) *client.Client {
	return &client.Client{URL: strings.TrimSuffix(url, "/"), Key: key}
}

// join gives the client the key of a new merchant, unless it has a key. It fails on a stack
// where only operators make keys.
func join(ctx context.Context, c *client.Client, name string) error {
	if c.Key != "" {
		return nil
	}
	var err error
	c.Key, err = c.CreateKey(ctx, name)
	if p, ok := errors.AsType[*client.Problem](err); ok && p.Status == http.StatusForbidden {
		return fmt.Errorf("creating a merchant: %w; make a key with remit keys create and pass it with --key", err)
	}
	if err != nil {
		return fmt.Errorf("creating a merchant: %w", err)
	}
	return nil
}

// explained returns err, or the advice to start a stack if none listens.
func explained(err error, c *client.Client) error {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("nothing listens at %s; start a stack there with remit local, or pass the URL of another", c.URL)
	}
	return err
}
