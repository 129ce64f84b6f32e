package guard_test

import (
	"errors"
	"net"
	"strings"
	"testing"

	"remit/internal/webhook"
	"remit/internal/webhook/guard"
)

const (
	notPublic = "must have a public address"
	notPlain  = "must have a plain host name"
	notUsual  = "has an address that is not four decimal numbers or plain IPv6"
	onMachine = "must not be on this machine"
	notHTTPS  = "must begin with https://"
	userinfo  = "must not contain a user name or a password"
	badChars  = "must not contain blanks, control characters or backslashes"
	noHost    = "must name a host"
	noURL     = "is not a URL"
	badPort   = "has a port"
	fragment  = "must not have a fragment"
	tooLong   = "must have at most 2048 characters"
	longHost  = "has a host name that is too long"
	fine      = ""
)

// urls are URLs of merchants and of attackers, each with the answer of a deployed
// stack.
var urls = []struct{ url, want string }{
	// Merchants' URLs.
	{"https://example.com", fine},
	{"https://example.com/hooks/remit?shop=1&a=%20b", fine},
	{"https://EXAMPLE.com:8443/", fine},
	{"HTTPS://example.com/", fine},
	{"https://a-b.c_d.example.co.uk./", notPlain}, // a final dot is another spelling
	{"https://xn--bcher-kva.example/", fine},
	{"https://93.184.216.34/", fine},
	{"https://[2606:2800:220:1:248:1893:25c8:1946]:8443/x", fine},
	{"https://1.example.com", fine},
	{"https://0x7f.example", fine},
	{"https://example.com/ü?ü=ü", fine},
	{"https://example.com?x", fine},

	// Texts that are no URL to post to.
	{"", notHTTPS},
	{"example.com", notHTTPS},
	{"//example.com", notHTTPS},
	{"http://example.com", notHTTPS},
	{"http://127.0.0.1", notHTTPS},
	{"http://localhost:3000/x", notHTTPS},
	{"ftp://example.com", notHTTPS},
	{"file:///etc/passwd", notHTTPS},
	{"gopher://example.com", notHTTPS},
	{"javascript:alert(1)", notHTTPS},
	{"https:", noHost},
	{"https:example.com", noHost},
	{"https:/example.com", noHost},
	{"https://", noHost},
	{"https:///path", noHost},
	{"https://:443/", noHost},
	{"https://?x", noHost},
	{"https://example.com#", fragment},
	{"https://example.com/#a", fragment},
	{"https://#@127.0.0.1/", fragment},
	{"https://example.com:0/", badPort},
	{"https://example.com:65536/", badPort},
	{"https://example.com:/", badPort},
	{"https://example.com:http/", noURL},
	{"https://example.com:-1/", noURL},
	{"https://" + strings.Repeat("a", 2040) + ".example", tooLong},
	{"https://example.com/" + strings.Repeat("é", 2028), fine},
	{"https://example.com/" + strings.Repeat("é", 2029), tooLong},
	{"https://" + strings.Repeat("a", 64) + ".example/", notPlain},
	{"https://" + strings.Repeat("a.", 124) + "example/", longHost},

	// A host that two programs read differently.
	{"https://user@example.com/", userinfo},
	{"https://user:pw@example.com/", userinfo},
	{"https://@example.com/", userinfo},
	{"https://:@example.com/", userinfo},
	{"https://example.com@127.0.0.1/", userinfo},
	{"https://example.com:443@127.0.0.1/", userinfo},
	{`https://example.com\@127.0.0.1/`, badChars},
	{`https:\\example.com`, badChars},
	{" https://example.com", badChars},
	{"https://example.com ", badChars},
	{"https://exam ple.com", badChars},
	{"https://example.com/\tx", badChars},
	{"https://example.com/\r\nHost: a", badChars},
	{"https://example.com/\x00", badChars},
	{"https://example.com/\u00a0", badChars},
	{"https://example.com/\xff", badChars},
	{"https://exam%70le.com/", noURL},
	{"https://127.0.0.1%00.example.com/", noURL},
	{"https://example..com/", notPlain},
	{"https://.example.com/", notPlain},
	{"https://example.com../", notPlain},
	{"https://exa$mple.com/", notPlain},
	{"https://exa,mple.com/", notPlain},
	{"https://bücher.example/", notPlain},
	{"https://ⓔxample.com/", notPlain},
	{"https://example。com/", notPlain},
	{"https://１２７.０.０.１/", notPlain},
	{"https://%e2%91%a0.example/", notPlain},

	// This machine and private networks, in every spelling.
	{"https://localhost/", onMachine},
	{"https://LOCALHOST:8443/", onMachine},
	{"https://localhost./", notPlain},
	{"https://a.localhost/", onMachine},
	{"https://127.0.0.1/", notPublic},
	{"https://127.0.0.1./", notPlain},
	{"https://127.255.255.254/", notPublic},
	{"https://127.1/", notUsual},
	{"https://127.0.1/", notUsual},
	{"https://2130706433/", notUsual},
	{"https://017700000001/", notUsual},
	{"https://0177.0.0.1/", notUsual},
	{"https://0x7f000001/", notUsual},
	{"https://0X7F.0.0.1/", notUsual},
	{"https://0x7f.0x0.0x0.0x1/", notUsual},
	{"https://127.0.0.0x1/", notUsual},
	{"https://127.000.000.001/", notUsual},
	{"https://1.2.3/", notUsual},
	{"https://1.2.3.4.5/", notUsual},
	{"https://256.256.256.256/", notUsual},
	{"https://99999999999/", notUsual},
	{"https://0/", notUsual},
	{"https://0x/", notUsual},
	{"https://0.0.0.0/", notPublic},
	{"https://10.0.0.1/", notPublic},
	{"https://172.16.0.1/", notPublic},
	{"https://192.168.1.1/", notPublic},
	{"https://169.254.169.254/latest/meta-data/", notPublic},
	{"https://169.254.100.1/", notPublic},
	{"https://100.64.0.1/", notPublic},
	{"https://198.18.0.1/", notPublic},
	{"https://192.0.2.1/", notPublic},
	{"https://224.0.0.1/", notPublic},
	{"https://255.255.255.255/", notPublic},
	{"https://[::]/", notPublic},
	{"https://[::1]/", notPublic},
	{"https://[0:0:0:0:0:0:0:1]/", notPublic},
	{"https://[::127.0.0.1]/", notPublic},
	{"https://[::ffff:127.0.0.1]/", notPublic},
	{"https://[::ffff:7f00:1]/", notPublic},
	{"https://[::ffff:0:127.0.0.1]/", notPublic},
	{"https://[::ffff:93.184.216.34]/", notPublic}, // public, in a spelling that hides addresses
	{"https://[64:ff9b::7f00:1]/", notPublic},
	{"https://[64:ff9b::93.184.216.34]/", notPublic},
	{"https://[64:ff9b:1::7f00:1]/", notPublic},
	{"https://[2002:7f00:1::]/", notPublic},
	{"https://[2002:c0a8:101::1]/", notPublic},
	{"https://[2001:0:1:2:3:4:80ff:fffe]/", notPublic},
	{"https://[2001:db8::1]/", notPublic},
	{"https://[3fff::1]/", notPublic},
	{"https://[fc00::1]/", notPublic},
	{"https://[fd00:ec2::254]/", notPublic},
	{"https://[fe80::1]/", notPublic},
	{"https://[fe80::1%25eth0]/", notPublic},
	{"https://[2606:2800:220:1::1%25eth0]/", notPublic},
	{"https://[fec0::1]/", notPublic},
	{"https://[ff02::1]/", notPublic},
	{"https://[100::1]/", notPublic},
	{"https://[5f00::1]/", notPublic},
	{"https://[::1/", noURL},
	{"https://::1/", noURL},
	{"https://[127.0.0.1]/", noURL},
	{"https://[example.com]/", noURL},
	{"https://[v1.x]/", noURL},
}

// local are URLs on a stack on one machine.
var local = []struct{ url, want string }{
	{"http://127.0.0.1", fine},
	{"http://127.0.0.1/", fine},
	{"http://127.0.0.1:3000/x?y=1", fine},
	{"http://127.0.0.1?y", fine},
	{"http://localhost", fine},
	{"http://localhost:3000/x", fine},
	{"http://[::1]", fine},
	{"http://[::1]:3000/x", fine},
	{"https://example.com/", fine},
	{"http://127.0.0.1:3000/#x", fragment},
	{"http://127.0.0.1:0/", badPort},
	{"http://127.0.0.1:/", badPort},
	{"http://127.0.0.1:99999/", badPort},
	{"http://user@127.0.0.1/", notHTTPS},
	{"http://127.0.0.1:80@example.com/", userinfo},
	{"http://127.0.0.1.example.com/", notHTTPS},
	{"http://127.0.0.1@example.com/", notHTTPS},
	{"http://localhost.example.com/", notHTTPS},
	{"http://localhost./", notHTTPS},
	{"http://LOCALHOST/", notHTTPS},
	{"HTTP://localhost/", notHTTPS},
	{"http://127.0.0.2/", notHTTPS},
	{"http://127.1/", notHTTPS},
	{"http://2130706433/", notHTTPS},
	{"http://0.0.0.0/", notHTTPS},
	{"http://[0:0:0:0:0:0:0:1]/", notHTTPS},
	{"http://[::ffff:127.0.0.1]/", notHTTPS},
	{"http://[::1%25lo]/", notHTTPS},
	{"http://10.0.0.1/", notHTTPS},
	{"http://example.com/", notHTTPS},
	{"https://127.0.0.1/", notPublic},
	{"https://localhost/", onMachine},
	{"https://[::1]/", notPublic},
}

func TestURLs(t *testing.T) {
	nothing := names(t, nil)
	for stack, rows := range map[string][]struct{ url, want string }{"deployed": urls, "local": local} {
		client := guard.NewTestClient(stack == "local", nothing, guard.Public, nil, webhook.SendTimeout)
		for _, row := range rows {
			check(t, stack, client, row.url, row.want)
		}
	}
}

// TestALocalStackTakesNothingElse: but for the three spellings it is as strict.
func TestALocalStackTakesNothingElse(t *testing.T) {
	client := guard.NewTestClient(true, names(t, nil), guard.Public, nil, webhook.SendTimeout)
	for _, row := range urls {
		if !strings.HasPrefix(row.url, "http://127.0.0.1") && !strings.HasPrefix(row.url, "http://localhost:") {
			check(t, "local", client, row.url, row.want)
		}
	}
}

func check(t *testing.T, stack string, client *guard.Client, url, want string) {
	t.Helper()
	err := client.Check(t.Context(), url)
	if want == fine {
		if err != nil {
			t.Errorf("%s: %.60q: %v", stack, url, err)
		}
		return
	}
	refused, ok := errors.AsType[*webhook.URLError](err)
	if !ok || !strings.HasPrefix(refused.Reason, want) {
		t.Errorf("%s: %.60q: %v, want %q", stack, url, err, want)
	}
	// A URL that is refused at registration is not posted to either.
	if _, err := client.Post(t.Context(), url, nil, nil); err == nil {
		t.Errorf("%s: %.60q was posted to", stack, url)
	}
}

// TestNamesAreLookedUp: every address of a name must be public.
func TestNamesAreLookedUp(t *testing.T) {
	resolver := names(t, map[string][]string{
		"public.example": {"93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"},
		"inside.example": {"10.0.0.7"},
		"meta.example":   {"169.254.169.254"},
		"mixed.example":  {"93.184.216.34", "127.0.0.1"},
		"six.example":    {"::1"},
		"mapped.example": {"::ffff:10.0.0.1"},
		"nat64.example":  {"64:ff9b::a00:1"},
	})
	client := guard.NewTestClient(false, resolver, guard.Public, nil, webhook.SendTimeout)
	const inside = "has a host name that resolves to an address that is not public"
	for host, want := range map[string]string{
		"public.example": fine, "inside.example": inside, "meta.example": inside, "mixed.example": inside,
		"six.example": inside, "mapped.example": inside, "nat64.example": inside, "nowhere.example": fine,
	} {
		err := client.Check(t.Context(), "https://"+host+"/")
		if refused, ok := errors.AsType[*webhook.URLError](err); want == fine && err != nil || want != fine && (!ok || refused.Reason != want) {
			t.Errorf("%s: %v, want %q", host, err, want)
		}
	}
}

// TestADeadNameServerDoesNotRefuse: the connection is checked again.
func TestADeadNameServerDoesNotRefuse(t *testing.T) {
	dead := &net.Resolver{PreferGo: true, Dial: refuseDial}
	client := guard.NewTestClient(false, dead, guard.Public, nil, webhook.SendTimeout)
	if err := client.Check(t.Context(), "https://example.com/"); err != nil {
		t.Error(err)
	}
}

func FuzzCheck(f *testing.F) {
	for _, rows := range [][]struct{ url, want string }{urls, local} {
		for _, row := range rows {
			f.Add(row.url)
		}
	}
	f.Fuzz(func(t *testing.T, url string) {
		// This resolver knows no name, so every URL that is accepted has a plain
		// name or a public address.
		everywhere := &net.Resolver{PreferGo: true, Dial: refuseDial}
		client := guard.NewTestClient(false, everywhere, guard.Public, nil, webhook.SendTimeout)
		if client.Check(t.Context(), url) != nil {
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
