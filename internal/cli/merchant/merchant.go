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

	remit "github.com/remit-payouts/remit/sdk/go"
)

// connect returns a client of the stack at that URL, which repeats nothing. An empty key is no key.
func connect(url, key string) *remit.Client {
	return &remit.Client{URL: strings.TrimSuffix(url, "/"), Key: key, Once: true}
}

// assetOf returns the asset of that name, or the default one.
func assetOf(ctx context.Context, c *remit.Client, name string) (remit.ListedAsset, error) {
	all, err := connect(c.URL, c.Key).Assets(ctx)
	for _, a := range all {
		if name == "" && a.Default || strings.EqualFold(name, a.Asset) {
			return a, nil
		}
	}
	if err != nil {
		return remit.ListedAsset{}, fmt.Errorf("reading the assets; check --url: %w", err)
	}
	return remit.ListedAsset{}, fmt.Errorf("%s has no asset %q: choose one of GET /assets", c.URL, name)
}

// join gives the client the key of a new merchant, unless it has a key. It fails on a stack
// where only operators make keys.
func join(ctx context.Context, c *remit.Client, name string) error {
	if c.Key != "" {
		return nil
	}
	made, err := c.CreateMerchant(ctx, remit.CreateAPIKeyRequest{MerchantName: name})
	c.Key = made.APIKey
	if p, ok := errors.AsType[*remit.Refused](err); ok && p.Status == http.StatusForbidden {
		return fmt.Errorf("creating a merchant: %w; make a key with remit keys create and pass it with --key", err)
	}
	if err != nil {
		return fmt.Errorf("creating a merchant: %w", err)
	}
	return nil
}

// explained returns err, or the advice to start a stack if none listens.
func explained(err error, c *remit.Client) error {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("nothing listens at %s; start a stack there with remit local, or pass the URL of another", c.URL)
	}
	return err
}
