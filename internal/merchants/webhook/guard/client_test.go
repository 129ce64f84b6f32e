package guard_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/merchants/webhook/guard"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

// A receiver is an HTTPS server on this machine that is reached as hook.example, as one on the internet would be.
type receiver struct {
	*httptest.Server
	hits atomic.Int32
}

// receive starts a receiver whose TLS the caller may change first.
func receive(t *testing.T, h http.HandlerFunc, change ...func(*tls.Config)) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.hits.Add(1)
		h(w, req)
	}))
	r.Config.ErrorLog = log.New(io.Discard, "", 0)
	r.EnableHTTP2 = true
	r.TLS = &tls.Config{}
	for _, c := range change {
		c(r.TLS)
	}
	r.StartTLS()
	t.Cleanup(r.Close)
	return r
}

// url is the receiver's under a name. The certificate is for example.com.
func (r *receiver) url(host string) string {
	_, port, _ := net.SplitHostPort(r.Listener.Addr().String())
	return "https://" + net.JoinHostPort(host, port) + "/in?x=1"
}

// client returns a client that trusts all receivers, finds example.com here and connects to the allowed addresses.
func (r *receiver) client(t *testing.T, allowed func(netip.Addr) bool) *guard.Client {
	t.Helper()
	return r.asking(names(t, map[string][]string{"example.com": {"127.0.0.1"}, "other.example": {"127.0.0.1"}}), allowed)
}

// asking returns the same client with another resolver.
func (r *receiver) asking(resolver *net.Resolver, allowed func(netip.Addr) bool) *guard.Client {
	roots := x509.NewCertPool()
	roots.AddCert(r.Certificate())
	return guard.NewTestClient(false, resolver, allowed, &tls.Config{RootCAs: roots})
}

// thisMachine stands for the internet.
func thisMachine(a netip.Addr) bool { return a.IsLoopback() }

func answer(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func TestPostSendsExactlyWhatItIsGiven(t *testing.T) {
	var got *http.Request
	var body []byte
	r := receive(t, func(_ http.ResponseWriter, req *http.Request) {
		got = req
		body, _ = io.ReadAll(req.Body)
	})
	header := http.Header{"Webhook-Id": {"evt_1"}, "Content-Type": {"application/json"}, "User-Agent": {"Webhooks/1"}}
	sent := []byte("{\"a\":\"Söđ 🧁\x00\u2028\"}")
	a, err := r.client(t, thisMachine).Post(t.Context(), r.url("example.com"), header, sent)
	if err != nil || a.StatusCode != 200 {
		t.Fatalf("%+v, %v", a, err)
	}
	want := header.Clone()
	want.Set("Content-Length", fmt.Sprint(len(sent)))
	if diff := cmp.Diff(want, got.Header); diff != "" || got.Method != "POST" || got.RequestURI != "/in?x=1" ||
		got.Proto != "HTTP/1.1" || string(body) != string(sent) {
		t.Errorf("%s %s %s %q\n%s", got.Method, got.RequestURI, got.Proto, body, diff)
	}
}

// TestReceivers posts to a receiver of each kind: its reply to one request, and the answer or the error that we note.
func TestReceivers(t *testing.T) {
	tabletest.Run(t, nil, func(t *testing.T, c tabletest.Case) {
		r := receive(t, func(w http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			conn, _, _ := http.NewResponseController(w).Hijack()
			_, _ = io.WriteString(conn, c.In[0])
			_ = conn.Close()
		})
		got, err := r.client(t, thisMachine).Post(t.Context(), r.url("example.com"), http.Header{}, []byte("{}"))
		said := strings.TrimSpace(fmt.Sprintf("%d %s %s", got.StatusCode, got.RetryAfter, got.Body))
		if reason, fails := strings.CutPrefix(c.Want, "!"); fails {
			expect(t, err, reason)
		} else if expect(t, err, ""); said != c.Want {
			t.Errorf("answered %q, want %q", said, c.Want)
		}
		if n := r.hits.Load(); n != 1 {
			t.Errorf("it got the message %d times", n)
		}
	})
}

func expect(t *testing.T, err error, reason string) {
	t.Helper()
	sent, ok := errors.AsType[*webhook.SendError](err)
	if reason == "" && err != nil || reason != "" && (!ok || sent.Reason != reason) {
		t.Errorf("error %v, want %q", err, reason)
	}
}

// TestAnEndlessBodyIsCutOff: a receiver that has answered does not hold us.
func TestAnEndlessBodyIsCutOff(t *testing.T) {
	for name, chunk := range map[string]int{"fast": 1 << 16, "drop by drop": 1} {
		r := receive(t, func(w http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			for req.Context().Err() == nil {
				if _, err := w.Write(make([]byte, chunk)); err != nil {
					return
				}
				_ = http.NewResponseController(w).Flush()
				time.Sleep(50 * time.Millisecond)
			}
		})
		client := r.client(t, thisMachine)
		begun := time.Now()
		a, err := client.Post(t.Context(), r.url("example.com"), http.Header{}, nil)
		if err != nil || a.StatusCode != 200 || len(a.Body) == 0 || len(a.Body) > webhook.ResponseLimit {
			t.Errorf("%s: %d, %d bytes, %v", name, a.StatusCode, len(a.Body), err)
		}
		if took := time.Since(begun); took > 20*time.Second {
			t.Errorf("%s: it took %v", name, took)
		}
	}
}

// TestTime: a receiver that takes the message and says nothing is given up.
func TestTime(t *testing.T) {
	if got := *guard.NewClient(false, false).Timeout(); got != 15*time.Second {
		t.Errorf("a post may take %v, want 15 s", got)
	}
	r := receive(t, func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body) // only then the server notices that the client has gone
		<-req.Context().Done()
		panic(http.ErrAbortHandler) // on a return it can still send an answer while the client closes the connection
	})
	client := r.client(t, thisMachine)
	*client.Timeout() = time.Second
	begun := time.Now()
	_, err := client.Post(t.Context(), r.url("example.com"), http.Header{}, nil)
	expect(t, err, "there was no answer in time")
	if took := time.Since(begun); took < time.Second || took > 18*time.Second {
		t.Errorf("given up after %v, want 1 s", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := client.Post(ctx, r.url("example.com"), http.Header{}, nil); err != context.DeadlineExceeded {
		t.Errorf("a post that its caller called off: %v", err)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		target := receive(t, answer(200, ""))
		r := receive(t, func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, target.url("example.com"), status)
		})
		a, err := r.client(t, thisMachine).Post(t.Context(), r.url("example.com"), http.Header{}, []byte("{}"))
		if err != nil || a.StatusCode != status || target.hits.Load() != 0 {
			t.Errorf("%d: answer %d, %v, target hit %d times", status, a.StatusCode, err, target.hits.Load())
		}
	}
}

// TestRebinding: a name server says one thing when asked first and another when asked again.
func TestRebinding(t *testing.T) {
	r := receive(t, answer(200, ""))
	var asked atomic.Int32
	client := r.asking(namesOf(t, func(string) []string {
		if asked.Add(1) <= 2 { // A and AAAA
			return []string{"93.184.216.34"}
		}
		return []string{"127.0.0.1"}
	}), guard.Public)
	url := r.url("example.com")
	if err := client.Check(t.Context(), url); err != nil {
		t.Fatalf("at registration: %v", err)
	}
	_, err := client.Post(t.Context(), url, http.Header{}, nil)
	expect(t, err, "the host name resolves to an address that is not public")
	if r.hits.Load() != 0 {
		t.Error("it was reached")
	}
}

// TestAmongSeveralAddressesOnlyPublicOnesAreTried stands 127.0.0.1 for a public
// address and 127.0.0.2, at which a server listens too, for a private one.
func TestAmongSeveralAddressesOnlyPublicOnesAreTried(t *testing.T) {
	r := receive(t, answer(200, ""))
	_, port, _ := net.SplitHostPort(r.Listener.Addr().String())
	private := must.Get(net.Listen("tcp", "127.0.0.2:"+port))(t)
	defer private.Close()
	client := r.asking(names(t, map[string][]string{"example.com": {"127.0.0.2", "127.0.0.1"}}), func(a netip.Addr) bool {
		return a == netip.MustParseAddr("127.0.0.1")
	})
	if a, err := client.Post(t.Context(), r.url("example.com"), http.Header{}, nil); err != nil || a.StatusCode != 200 {
		t.Errorf("%d, %v", a.StatusCode, err)
	}
	must.OK(t, private.(*net.TCPListener).SetDeadline(time.Now().Add(100*time.Millisecond)))
	if _, err := private.Accept(); err == nil {
		t.Error("the private address was connected to")
	}
}

func TestTLS(t *testing.T) {
	for _, test := range []struct {
		name   string
		host   string
		change func(*tls.Config)
		trust  bool
		reason string
	}{
		{"1.3", "example.com", func(c *tls.Config) { c.MinVersion = tls.VersionTLS13 }, true, ""},
		{"1.2", "example.com", func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }, true, ""},
		{"1.1", "example.com", func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 },
			true, "the TLS handshake failed"},
		{"a certificate of no known authority", "example.com", func(*tls.Config) {}, false, "the TLS certificate is not valid for this host"},
		{"another name's certificate", "other.example", func(*tls.Config) {}, true, "the TLS certificate is not valid for this host"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := receive(t, answer(200, ""), test.change)
			client := r.client(t, thisMachine)
			if !test.trust {
				client = guard.NewTestClient(false, names(t, map[string][]string{"example.com": {"127.0.0.1"}}), thisMachine, nil)
			}
			_, err := client.Post(t.Context(), r.url(test.host), http.Header{}, nil)
			expect(t, err, test.reason)
		})
	}
}

func TestUnreachable(t *testing.T) {
	r := receive(t, answer(200, ""))
	client := r.client(t, thisMachine)
	url := r.url("example.com")
	r.Close()
	_, err := client.Post(t.Context(), url, http.Header{}, nil)
	expect(t, err, "the connection was refused")
	_, err = client.Post(t.Context(), "https://nowhere.example/", http.Header{}, nil)
	expect(t, err, "the host name does not resolve")

	plain := httptest.NewServer(answer(200, ""))
	defer plain.Close()
	_, port, _ := net.SplitHostPort(plain.Listener.Addr().String())
	_, err = client.Post(t.Context(), "https://example.com:"+port, http.Header{}, nil)
	expect(t, err, "the port does not speak TLS")
}

// TestNoProxyIsAsked: a proxy in the environment gets no webhook. net/http reads it once a process, hence a child.
func TestNoProxyIsAsked(t *testing.T) {
	r := receive(t, answer(200, ""))
	if os.Getenv("GUARD_TEST_CHILD") != "" {
		_, err := r.client(t, thisMachine).Post(t.Context(), r.url("example.com"), http.Header{}, nil)
		expect(t, err, "")
		return
	}
	trap := httptest.NewServer(answer(502, ""))
	defer trap.Close()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNoProxyIsAsked$")
	child.Env = append(os.Environ(), "GUARD_TEST_CHILD=1", "NO_PROXY=", "no_proxy=")
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY"} {
		child.Env = append(child.Env, name+"="+trap.URL)
	}
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestALocalStackPostsToThisMachine in each of the three spellings.
func TestALocalStackPostsToThisMachine(t *testing.T) {
	// A name server that lies about localhost must not matter.
	resolver := names(t, map[string][]string{"localhost": {"93.184.216.34"}})
	client := guard.NewTestClient(true, resolver, guard.Public, nil)
	for _, test := range []struct{ listen, host string }{
		{"127.0.0.1", "127.0.0.1"}, {"127.0.0.1", "localhost"}, {"::1", "[::1]"}, {"::1", "localhost"},
	} {
		l := must.Get(net.Listen("tcp", net.JoinHostPort(test.listen, "0")))(t)
		server := &httptest.Server{Listener: l, Config: &http.Server{Handler: answer(204, "")}}
		server.Start()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		if test.host != "localhost" { // at the other address of this machine is nobody who is meant
			address := net.JoinHostPort(map[string]string{"127.0.0.1": "::1", "::1": "127.0.0.1"}[test.listen], port)
			if other, err := net.Listen("tcp", address); err == nil {
				defer other.Close()
			}
		}
		url := "http://" + test.host + ":" + port + "/x"
		if err := client.Check(t.Context(), url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
		if a, err := client.Post(t.Context(), url, http.Header{}, nil); err != nil || a.StatusCode != 204 {
			t.Errorf("%s: %d, %v", url, a.StatusCode, err)
		}
		if _, err := guard.NewClient(false, false).Post(t.Context(), url, http.Header{}, nil); err == nil {
			t.Errorf("%s: a deployed stack posted to it", url)
		}
		server.Close()
	}
}
