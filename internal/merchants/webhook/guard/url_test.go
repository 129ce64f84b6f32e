package guard_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/merchants/webhook/guard"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

// accepted is the answer of a stack that takes a URL.
const accepted = "accepted"

// table reads a file of URLs and returns the answer of each.
func table(t testing.TB, file string) map[string]string {
	t.Helper()
	text := must.Get(os.ReadFile("testdata/" + file))(t)
	answers, answer := map[string]string{}, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if heading, ok := strings.CutPrefix(line, "= "); ok {
			answer = heading
		} else if line != "" && !strings.HasPrefix(line, "# ") {
			answers[must.Get(strconv.Unquote(line))(t)] = answer
		}
	}
	return answers
}

// deployed returns the URLs with the answers of a deployed stack.
func deployed(t testing.TB) map[string]string {
	t.Helper()
	answers := table(t, "urls.txt")
	answers["https://"+strings.Repeat("a", 2040)+".example"] = "must have at most 2048 characters"
	answers["https://example.com/"+strings.Repeat("é", 2028)] = accepted
	answers["https://example.com/"+strings.Repeat("é", 2029)] = "must have at most 2048 characters"
	answers["https://"+strings.Repeat("a", 64)+".example/"] = "must have a plain host name"
	answers["https://"+strings.Repeat("a", 63)+".example/"] = accepted
	answers["https://a"+strings.Repeat("a.", 123)+"example/"] = "has a host name that is too long"
	answers["https://"+strings.Repeat("a.", 123)+"example/"] = accepted
	return answers
}

// TestURLs: but for the three spellings of its machine, a local stack is as strict as a deployed one.
func TestURLs(t *testing.T) {
	strict := guard.NewTestClient(false, names(t, nil), guard.Public, nil)
	local := guard.NewTestClient(true, names(t, nil), guard.Public, nil)
	for url, want := range deployed(t) {
		check(t, strict, url, want)
		if !strings.HasPrefix(url, "http://127.0.0.1") && !strings.HasPrefix(url, "http://localhost:") {
			check(t, local, url, want)
		}
	}
	for url, want := range table(t, "local.txt") {
		check(t, local, url, want)
	}
}

// check fails the test unless the client gives a URL the answer that is wanted, and posts to no URL that it refuses.
func check(t *testing.T, client *guard.Client, url, want string) {
	t.Helper()
	err := client.Check(t.Context(), url)
	if want == accepted {
		if err != nil {
			t.Errorf("%.60q: %v", url, err)
		}
		return
	}
	refused, ok := errors.AsType[*webhook.FieldError](err)
	if !ok || !strings.HasPrefix(refused.Reason, want) {
		t.Errorf("%.60q: %v, want %q", url, err, want)
	}
	if _, err := client.Post(t.Context(), url, nil, nil); err == nil {
		t.Errorf("%.60q was posted to", url)
	}
}

// TestNamesAreLookedUp: every address of a name must be public.
func TestNamesAreLookedUp(t *testing.T) {
	client := guard.NewTestClient(false, names(t, map[string][]string{
		"public.example": {"93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"},
		"inside.example": {"10.0.0.7"},
		"meta.example":   {"169.254.169.254"},
		"mixed.example":  {"93.184.216.34", "127.0.0.1"},
		"six.example":    {"::1"},
		"mapped.example": {"::ffff:10.0.0.1"},
		"nat64.example":  {"64:ff9b::a00:1"},
	}), guard.Public, nil)
	for _, host := range []string{"public", "nowhere"} {
		check(t, client, "https://"+host+".example/", accepted)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := client.Check(ctx, "https://inside.example/"); !errors.Is(err, context.Canceled) {
		t.Errorf("a look-up that was called off: %v", err)
	}
	for _, host := range []string{"inside", "meta", "mixed", "six", "mapped", "nat64"} {
		check(t, client, "https://"+host+".example/", "has a host name that resolves to an address that is not public")
	}
}

// unnamed asks a name server that is down.
var unnamed = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
	return nil, errors.New("no name server")
}}

// TestADeadNameServerDoesNotRefuse: the connection is checked again.
func TestADeadNameServerDoesNotRefuse(t *testing.T) {
	check(t, guard.NewTestClient(false, unnamed, guard.Public, nil), "https://example.com/", accepted)
}

// FuzzCheck: without names, every URL that is accepted has a plain name or a public address.
func FuzzCheck(f *testing.F) {
	for _, answers := range []map[string]string{deployed(f), table(f, "local.txt")} {
		for url := range answers {
			f.Add(url)
		}
	}
	f.Fuzz(func(t *testing.T, url string) {
		if guard.NewTestClient(false, unnamed, guard.Public, nil).Check(t.Context(), url) != nil {
			return
		}
		host := url[len("https://"):]
		if i := strings.IndexAny(host, "/?"); i >= 0 {
			host = host[:i]
		}
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		if strings.ContainsAny(host, "@\\% \t#") || !strings.EqualFold(url[:8], "https://") || len(host) == 0 {
			t.Errorf("accepted %q", url)
		}
		if strings.EqualFold(host, "localhost") || strings.HasSuffix(strings.ToLower(host), ".localhost") {
			t.Errorf("accepted %q", url)
		}
	})
}

// names returns a resolver that asks a name server of its own, which knows these names and no others.
func names(t testing.TB, known map[string][]string) *net.Resolver {
	t.Helper()
	return namesOf(t, func(host string) []string { return known[host] })
}

// namesOf is names for a name server that may change its mind.
func namesOf(t testing.TB, lookup func(host string) []string) *net.Resolver {
	t.Helper()
	server := must.Get(net.ListenPacket("udp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = server.Close() })
	go serveNames(server, lookup)
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", server.LocalAddr().String())
	}}
}

func serveNames(server net.PacketConn, lookup func(string) []string) {
	buf := make([]byte, 1500)
	for {
		n, from, err := server.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:n]) != nil || len(m.Questions) != 1 {
			continue
		}
		q := m.Questions[0]
		addrs := lookup(q.Name.String()[:len(q.Name.String())-1])
		m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
		if len(addrs) == 0 {
			m.RCode = dnsmessage.RCodeNameError
		}
		for _, text := range addrs {
			a := netip.MustParseAddr(text)
			head := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}
			switch {
			case a.Is4() && q.Type == dnsmessage.TypeA:
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: a.As4()}})
			case a.Is6() && q.Type == dnsmessage.TypeAAAA:
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: head, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
			}
		}
		if reply, err := m.Pack(); err == nil {
			_, _ = server.WriteTo(reply, from)
		}
	}
}

// TestPublic: of a prefix the first and the last address.
func TestPublic(t *testing.T) {
	tabletest.Run(t, nil, func(t *testing.T, c tabletest.Case) {
		ends := []string{c.Name}
		if p, err := netip.ParsePrefix(c.Name); err == nil {
			ends = []string{p.Addr().String(), last(p).String()}
		}
		for _, text := range ends {
			if public := guard.Public(netip.MustParseAddr(text)); public != (c.Want == "public") {
				t.Errorf("%s is public: %t", text, public)
			}
		}
	})
	if guard.Public(netip.Addr{}) {
		t.Error("no address at all is public")
	}
}

// last returns the last address of p.
func last(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// TestPortsOfALiveStack: those of HTTPS, at registration and at each post.
func TestPortsOfALiveStack(t *testing.T) {
	const refused = "must have port 443 or 8443, or none"
	for url, want := range map[string]string{
		"https://8.8.8.8/": "", "https://8.8.8.8:443/": "", "https://8.8.8.8:8443/": "", "https://[2606:4700::1]:8443/": "",
		"https://8.8.8.8:22/": refused, "https://8.8.8.8:80/": refused, "https://8.8.8.8:4443/": refused, "https://8.8.8.8:0443/": refused,
		"https://nothing.example:25/": refused,
	} {
		live, test := guard.NewClient(false, true), guard.NewClient(false, false)
		err := live.Check(t.Context(), url)
		if bad, _ := errors.AsType[*webhook.FieldError](err); (err != nil) != (want != "") || bad != nil && bad.Reason != want {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
		if want == "" {
			continue
		}
		if _, err := live.Post(t.Context(), url, http.Header{}, nil); err == nil || !strings.Contains(err.Error(), "the URL is not acceptable") {
			t.Errorf("posting to %s: %v", url, err)
		}
		if !strings.Contains(url, "example") {
			must.OK(t, test.Check(t.Context(), url))
		}
	}
}
