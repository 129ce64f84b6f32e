// Package merchant has the commands of a merchant. They know a stack only by its URL.
package merchant

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"regexp"
	"strings"
	"syscall"

	remit "github.com/remit-payouts/remit/sdk/go"
)

// connect returns a client of the stack at that URL, which repeats nothing. An empty key is no key.
func connect(url, key string) *remit.Client {
	return &remit.Client{URL: strings.TrimSuffix(url, "/"), Key: key, Once: true}
}

// assetsOf returns the assets of the stack, and that of a name; see assetOf.
func assetsOf(ctx context.Context, c *remit.Client, name string) ([]remit.ListedAsset, remit.ListedAsset, error) {
	all, err := c.Assets(ctx)
	if err != nil {
		return nil, remit.ListedAsset{}, fmt.Errorf("reading the assets; check --url and --key: %w", err)
	}
	one, err := assetOf(all, name)
	return all, one, err
}

// assetOf returns the asset of that name, or of that symbol if no other has it, or the default.
func assetOf(all []remit.ListedAsset, name string) (found remit.ListedAsset, err error) {
	have, n := []string{}, 0
	for _, a := range all {
		if name == "default" && a.Default || strings.EqualFold(name, a.Asset) {
			return a, nil
		} else if strings.EqualFold(name, a.Token) {
			found, n = a, n+1
		}
		have = append(have, fmt.Sprintf("%s (%s on %s)", a.Asset, a.Token, a.Network))
	}
	if n != 1 {
		err = fmt.Errorf("asset %q: name one of %s", name, strings.Join(have, ", "))
	}
	return found, err
}

// join gives the client the key of a new merchant, unless it has one. It fails where only operators make keys.
func join(ctx context.Context, c *remit.Client, name string) error {
	if c.Key != "" {
		return nil
	}
	made, err := c.CreateMerchant(ctx, remit.CreateAPIKeyRequest{MerchantName: name})
	c.Key = made.APIKey
	if err != nil {
		return fmt.Errorf("creating a merchant: %w; make a key with remit keys create and pass it with --key", err)
	}
	return nil
}

// explained returns err, with the advice to start a stack if none listens.
func explained(err error, c *remit.Client) error {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("nothing listens at %s; start it with make run or remit local, or pass another URL", c.URL)
	}
	return err
}

// Plain returns an error's text, with the cause of a lost request in words.
func Plain(err error) string {
	text, at, why, lost := err.Error(), "", "", error(nil)
	if request, ok := errors.AsType[*url.Error](err); ok {
		if u, err := url.Parse(request.URL); err == nil {
			lost, at = request, u.Host
		}
	} else if dial, ok := errors.AsType[*net.OpError](err); ok && dial.Op == "dial" {
		lost, at = dial, fmt.Sprint(dial.Addr)
	}
	if lost != nil {
		for cause := lost; cause != nil; cause = errors.Unwrap(cause) {
			why = "the connection to " + at + " broke: " + cause.Error()
		}
		if unknown, is := errors.AsType[*net.DNSError](lost); is {
			why = "nobody knows the name " + unknown.Name + "; check the URL (or AWS region) and the network"
		} else if errors.Is(lost, syscall.ECONNREFUSED) {
			why = "nothing listens at " + at
		} else if late, is := errors.AsType[net.Error](lost); is && late.Timeout() {
			why = "no answer from " + at
		}
		text = strings.ReplaceAll(text, strings.ReplaceAll(lost.Error(), "\n", "; "), why)
	}
	return plainWords.Replace(text)
}

// plainWords has Go's words for the ends of a context, and Go's and AWS's for a request without an answer.
var plainWords = strings.NewReplacer("interrupt signal received", "interrupted", "; context canceled", "",
	"context canceled", "interrupted", "; context deadline exceeded", "", "context deadline exceeded",
	"no answer in time", "http: server gave HTTP response to HTTPS client", "it speaks http, not https",
	"https response error StatusCode: 0, RequestID: , request send failed, ", "")

func usable(at string) bool {
	u, err := url.Parse(at)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

var wide, part = regexp.MustCompile(`(?m)^.{201,}$`), regexp.MustCompile(`(.{1,195})(?: +|$)|(.{195})`)

// Fold breaks the lines of a text that have more than 200 columns, at their blanks.
func Fold(text string) string {
	return wide.ReplaceAllStringFunc(text, func(line string) string {
		return strings.TrimRight(part.ReplaceAllString(line, "$1$2\n    "), "\n ")
	})
}

type folding struct{ io.Writer }

func (f folding) Write(b []byte) (int, error) {
	_, err := io.WriteString(f.Writer, Fold(string(b)))
	return len(b), err
}

// counted is as "1 row" and "2 batches".
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, strings.Replace(noun, "batch", "batche", 1))
}
