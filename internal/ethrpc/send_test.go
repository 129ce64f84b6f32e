package ethrpc_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"remit/internal/chain"
	"remit/internal/ethrpc"
)

// signed is a transaction that eth-account 0.14.0 (Python) signed, and its hash.
const signedHash = "0xba515805c0291f3d72fb88628ee9fe2302b7b7c4c289d0a08b67615d65caae64"

var signed = []byte("\x02\xf8\x7c\x01\x80\x80\x9a\x01" + strings.Repeat("\x00", 25) + "\x82\x52\x08\x94" +
	"\x9d\x8a\x62\xf6\x56\xa8\xd1\x61\x5c\x12\x94\xfd\x71\xe9\xcf\xb3\xe4\x85\x5a\x4f\x80\x80\xc0\x01\xa0" +
	"\x7c\xf3\x97\x56\x63\x82\x60\xe0\x33\x61\x66\xa7\xc6\xdb\x68\x3e\x75\x88\xde\x73\xd3\x9d\xf4\x15\xb0\x42\x0b\xf7\xcc\xa1\x7f\x40\xa0" +
	"\x40\xe9\xfd\x12\x07\xdb\x0e\x23\xf7\x5e\x78\x67\x10\x96\x04\x73\xfe\x77\x70\x9f\x8f\xc7\xce\xe4\xa8\x54\x31\x8d\x5a\x60\x71\x7f")

func TestSendsTheBytesInOneRequest(t *testing.T) {
	var sent string
	s := serve(t, map[string]func(request) raw{"eth_sendRawTransaction": func(r request) raw {
		sent = r.arg(0)
		return result(`"` + signedHash + `"`)
	}})
	node := open(t, s.URL)
	for range 2 {
		if reply := node.Send(t.Context(), signed); reply.Class != chain.Accepted {
			t.Fatalf("reply %+v, want accepted", reply)
		}
	}
	if !strings.HasPrefix(sent, "0x02f87c0180809a01") || len(sent) != 2+2*len(signed) {
		t.Errorf("sent %s", sent)
	}
	if got := s.methods(); len(got) != 2 || len(got[1]) != 1 {
		t.Errorf("requests %v, want two, the second without eth_chainId", got)
	}
}

func TestTakesNothingForAnAnswerThatIsNone(t *testing.T) {
	answer := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }
	}
	const gap, id = `{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"nonce too low"}}`, `{"jsonrpc":"2.0","id":1,"result":"0x14a34"}`
	for _, row := range []struct {
		name    string
		handler http.HandlerFunc
	}{
		{"another hash than that of the bytes", answer(`[` + id + `,{"jsonrpc":"2.0","id":2,"result":"0x` + strings.Repeat("ab", 32) + `"}]`)},
		{"a hash of null", answer(`[` + id + `,{"jsonrpc":"2.0","id":2,"result":null}]`)},
		{"no answer to this call", answer(`[` + id + `]`)},
		{"a refusal by a node whose chain id is not known", answer(`[` + gap + `]`)},
		{"a refusal by a node that refuses to name its chain", answer(`[` + gap + `,{"jsonrpc":"2.0","id":1,"error":{"code":-32005,"message":"slow down"}}]`)},
		{"a refusal by a node of another chain", answer(`[` + gap + `,{"jsonrpc":"2.0","id":1,"result":"0x1"}]`)},
		{"one error for the whole batch", answer(`{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"nonce too low"}}`)},
		{"an empty body", answer(``)},
		{"an empty batch", answer(`[]`)},
		{"a page", answer(`<html>nonce too low</html>`)},
		{"half an answer", answer(`[` + id + `,{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"nonce too low"}`)},
		{"a hang-up", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := httptest.NewServer(row.handler)
			defer s.Close()
			if reply := open(t, s.URL).Send(t.Context(), signed); reply.Class != chain.Ambiguous || reply.Detail == "" {
				t.Errorf("reply %+v, want ambiguous and why", reply)
			}
		})
	}
}

func TestHTTPStatusesAreAmbiguousWhateverTheySay(t *testing.T) {
	const body = `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"intrinsic gas too low"}}`
	for _, status := range []int{301, 307, 308, 400, 401, 403, 404, 408, 413, 425, 429, 500, 502, 503, 504, 520} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}))
		reply := open(t, s.URL).Send(t.Context(), signed)
		s.Close()
		if reply.Class != chain.Ambiguous {
			t.Errorf("HTTP %d: %+v, want ambiguous", status, reply)
		}
	}
}

func TestTimeAndDistanceAreAmbiguous(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer s.Close()
	defer close(release)
	node, err := ethrpc.Open(s.URL, ethrpc.Config{ChainID: chainID, Timeout: 20 * time.Millisecond})
	must(t, err)
	if reply := node.Send(t.Context(), signed); reply.Class != chain.Ambiguous || !strings.Contains(reply.Detail, "deadline") {
		t.Errorf("after the node's own time limit: %+v", reply)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if reply := node.Send(ctx, signed); reply.Class != chain.Ambiguous {
		t.Errorf("cancelled: %+v", reply)
	}
	if reply := open(t, "http://127.0.0.1:1").Send(t.Context(), signed); reply.Class != chain.Ambiguous {
		t.Errorf("refused connection: %+v", reply)
	}
}
