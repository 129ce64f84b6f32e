// Package merchant has the commands of a merchant, who has an API key and a receiver of
// webhooks. They know a stack only by its URL.
package merchant

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"unicode/utf8"

	remit "github.com/remit-payouts/remit/sdk/go"
)

// connect returns a client of the stack at that URL, which repeats nothing. An empty key is no key.
func connect(url, key string) *remit.Client {
	return &remit.Client{URL: strings.TrimSuffix(url, "/"), Key: key, Once: true}
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

// Plain returns an error's text, with the cause of a lost request in words.
func Plain(err error) string {
	text, lost := err.Error(), &url.Error{}
	if errors.As(err, &lost) {
		cause, at := lost.Err, lost.URL
		for inner := errors.Unwrap(cause); inner != nil; inner = errors.Unwrap(cause) {
			cause = inner
		}
		if u, err := url.Parse(at); err == nil {
			at = u.Host
		}
		why := "the connection to " + at + " broke: " + cause.Error()
		if name, is := errors.AsType[*net.DNSError](lost); is {
			why = "nobody knows the name " + name.Name + "; correct the URL"
		} else if errors.Is(lost, syscall.ECONNREFUSED) {
			why = "nothing listens at " + at
		} else if lost.Timeout() {
			why = "no answer from " + at
		}
		text = strings.ReplaceAll(text, strings.ReplaceAll(lost.Error(), "\n", "; "), why)
	}
	return plainWords.Replace(text)
}

// plainWords has Go's words for the ends of a context.
var plainWords = strings.NewReplacer("interrupt signal received", "interrupted", "terminated signal received", "interrupted",
	"; context canceled", "", "context canceled", "interrupted", "; context deadline exceeded", "", "context deadline exceeded", "no answer in time")

// widest is the most columns of a line that a command prints for people.
const widest = 200

// Fold breaks lines that are too wide at their blanks.
func Fold(text string) string {
	var folded strings.Builder
	for line := range strings.SplitAfterSeq(text, "\n") {
		for width := utf8.RuneCountInString(strings.TrimRight(line, "\n")); width > widest; width = utf8.RuneCountInString(line) {
			end := len(string([]rune(line)[:widest]))
			if blank := strings.LastIndexByte(line[:end], ' '); blank > widest/2 {
				end = blank
			}
			folded.WriteString(line[:end] + "\n")
			line = "    " + strings.TrimLeft(line[end:], " ")
		}
		folded.WriteString(line)
	}
	return folded.String()
}

// A folding writer folds each text that it is given.
type folding struct{ io.Writer }

func (f folding) Write(b []byte) (int, error) {
	_, err := io.WriteString(f.Writer, Fold(string(b)))
	return len(b), err
}

// counted is as "1 row" and "2 batches".
func counted(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "ch"):
		noun += "e"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
