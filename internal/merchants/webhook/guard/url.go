package guard

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"code.dny.dev/ssrf"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
)

const (
	urlLimit   = 2048 // characters
	hostLimit  = 253  // RFC 1035, section 2.3.4, less the final dot and length
	labelLimit = 63   // the same
)

// loopbacks are the only spellings of this machine that a local stack takes.
var loopbacks = []string{"http://127.0.0.1", "http://localhost", "http://[::1]"}

type target struct {
	url      *url.URL
	host     string // without brackets
	loopback bool
}

// parse reads a URL as the client would follow it and refuses a URL that is not written plainly. It repairs nothing:
// attackers get around checks like these by URLs that two programs repair differently.
func parse(raw string, loopback, live bool) (target, error) {
	switch {
	case utf8.RuneCountInString(raw) > urlLimit:
		return refuse("must have at most 2048 characters")
	case !utf8.ValidString(raw) || strings.ContainsFunc(raw, odd):
		return refuse("must not contain blanks, control characters or backslashes")
	case strings.Contains(raw, "#"):
		return refuse("must not have a fragment")
	}
	u, err := url.Parse(raw)
	if err != nil {
		return refuse("is not a URL")
	}
	t := target{url: u, host: u.Hostname(), loopback: loopback && isLoopback(raw)}
	switch {
	case loopback && u.Scheme != "https" && !t.loopback:
		return refuse("must begin with https://, or on this machine with http://127.0.0.1, http://localhost or http://[::1]")
	case u.Scheme != "https" && !t.loopback:
		return refuse("must begin with https://")
	case u.User != nil:
		return refuse("must not contain a user name or a password")
	case t.host == "":
		return refuse("must name a host")
	case !validPort(u):
		return refuse("has a port that is not from 1 to 65535")
	case t.loopback:
		return t, nil
	case live && u.Port() != "" && u.Port() != "443" && u.Port() != "8443":
		return refuse("must have port 443 or 8443, or none")
	}
	return t.withHost()
}

// odd reports a character that no URL may hold and that some parsers skip or take for another.
func odd(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || r == '\\' }

// isLoopback reports whether raw is this machine in a permitted spelling. The parser checks the part behind the host.
func isLoopback(raw string) bool {
	for _, l := range loopbacks {
		if rest, ok := strings.CutPrefix(raw, l); ok && (rest == "" || strings.ContainsRune(":/?", rune(rest[0]))) {
			return true
		}
	}
	return false
}

func validPort(u *url.URL) bool {
	if strings.HasSuffix(u.Host, ":") {
		return false
	}
	port := u.Port()
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && n > 0
}

// withHost returns t if its host is a plain name or a public address.
func (t target) withHost() (target, error) {
	host := strings.ToLower(t.host)
	if strings.HasPrefix(t.url.Host, "[") {
		return t.withAddress(host)
	}
	labels := strings.Split(host, ".")
	for _, l := range labels {
		if l == "" || len(l) > labelLimit || strings.Trim(l, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return refuse("must have a plain host name: ASCII letters, digits, hyphens and single dots, international names as xn--")
		}
	}
	switch last := labels[len(labels)-1]; {
	case len(host) > hostLimit:
		return refuse("has a host name that is too long")
	case numeric(last):
		return t.withAddress(host)
	case last == "localhost":
		return refuse("must not be on this machine")
	}
	return t, nil
}

// numeric reports whether a host that ends in label is an IPv4 address in any spelling (URL Standard, "ends in a
// number").
func numeric(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// withAddress returns t if host is a public address in its usual spelling.
func (t target) withAddress(host string) (target, error) {
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return refuse("has an address that is not four decimal numbers or plain IPv6")
	}
	if !Public(addr) {
		return refuse("must have a public address")
	}
	return t, nil
}

// public refuses the addresses of IANA's special-purpose registries, all of IPv6 that is no global unicast, and
// 6bone's, which were returned (RFC 3701).
var public = ssrf.New(ssrf.WithDeniedV6Prefixes(netip.MustParsePrefix("3ffe::/16")))

// Public reports whether a host on the internet can have address a: none with a zone, or of IPv4 written as IPv6.
func Public(a netip.Addr) bool { return a.IsValid() && a.Zone() == "" && public.SafeAddr(a) == nil }

func refuse(reason string) (target, error) { return target{}, refusal(reason) }

func refusal(reason string) error { return &webhook.FieldError{Field: "url", Reason: reason} }
