package ethrpc

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/remit-payouts/remit/internal/evm/chain"
)

// maxWords is the most bytes of a node's message in an error.
const maxWords = 300

// A Rejection is the JSON-RPC error with which a node answered one call.
type Rejection struct {
	Code  int    // JSON-RPC error code
	Words string // the node's message and textual data, cut to 300 bytes, without the URL's secrets
	data  []byte // the revert data; nil: unknown
}

func (r *Rejection) Error() string {
	return fmt.Sprintf("%v: %s (%d)", chain.ErrRejected, r.Words, r.Code)
}

// Is implements the interface of errors.Is: every Rejection is a chain.ErrRejected.
func (r *Rejection) Is(target error) bool { return target == chain.ErrRejected }

func isRejection(err error) bool {
	_, ok := errors.AsType[*Rejection](err)
	return ok
}

// rejection turns a call's error into a *Rejection if the node sent it.
func (n *Node) rejection(err error) error {
	if err == nil {
		return nil
	}
	answer, ok := errors.AsType[*rpcError](err)
	if !ok {
		return n.secrets.clean(err)
	}
	words := answer.Error()
	if data, ok := answer.Data.(string); ok && data != "" {
		words += ": " + data
	}
	return &Rejection{Code: answer.Code, Words: n.secrets.cut(words), data: revertedWith(answer.Data)}
}

// revertedWith reads revert data: "0x…", {"data": "0x…"} of Hardhat, "Reverted 0x…" of Nethermind.
func revertedWith(data any) []byte {
	if object, ok := data.(map[string]any); ok {
		data = object["data"]
	}
	words, _ := data.(string)
	_, digits, _ := strings.Cut(words, "0x")
	b, _ := hex.DecodeString(digits) // nil is none
	return b
}

// unanswered returns a failed request's error without the URL's secrets: net/http and gateways quote it.
func (n *Node) unanswered(err error) error {
	if status, ok := errors.AsType[*httpError](err); ok {
		return fmt.Errorf("HTTP %d: %s", status.Status, n.secrets.cut(string(status.Body)))
	}
	if outer, ok := errors.AsType[*url.Error](err); ok {
		err = outer.Err
	}
	return n.secrets.clean(err)
}

// secrets are the parts of a node's URL that may be a provider's key, longest first.
type secrets []string

// secretsOf returns the parts of u, except scheme and host, that are long enough to be a key.
func secretsOf(u *url.URL) secrets {
	parts := []string{u.String(), u.RequestURI(), u.Path, u.EscapedPath(), u.RawQuery, u.Fragment}
	parts = append(parts, strings.Split(u.Path, "/")...)
	for _, values := range u.Query() {
		parts = append(parts, values...)
	}
	if password, ok := u.User.Password(); ok {
		parts = append(parts, password)
	}
	parts = append(parts, u.User.String(), u.User.Username())
	parts = slices.DeleteFunc(parts, func(p string) bool { return len(p) < 8 })
	slices.SortFunc(parts, func(a, b string) int { return len(b) - len(a) })
	return parts
}

func (s secrets) hide(text string) string {
	for _, secret := range s {
		text = strings.ReplaceAll(text, secret, "…")
	}
	return text
}

func (s secrets) cut(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(s.hide(text), "?")), " ")
	if len(text) > maxWords {
		text = strings.ToValidUTF8(text[:maxWords], "") + "…"
	}
	return text
}

// clean returns err, or only its text if that contains a secret.
func (s secrets) clean(err error) error {
	if text := err.Error(); s.hide(text) != text {
		return errors.New(s.cut(text))
	}
	return err
}
