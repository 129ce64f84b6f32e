package ethrpc_test

import (
	_ "embed" // testdata/replies.tsv
	"encoding/hex"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/evm/chain"
)

// signed is a transaction that eth-account 0.14.0 (Python) signed, and its hash.
const signedHash = "0xba515805c0291f3d72fb88628ee9fe2302b7b7c4c289d0a08b67615d65caae64"

var signed, _ = hex.DecodeString("02f87c0180809a0100000000000000000000000000000000000000000000000000825208949d8a62f656a8d1615c1294fd71e9cfb3e4855a4f8080" +
	"c001a07cf39756638260e0336166a7c6db683e7588de73d39df415b0420bf7cca17f40a040e9fd1207db0e23f75e786710960473fe77709f8fc7cee4a854318d5a60717f")

func TestTakesNothingForAnAnswerThatIsNone(t *testing.T) {
	answer := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }
	}
	const gap, id = `{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"nonce too low"}}`, `{"jsonrpc":"2.0","id":1,"result":"0x14a34"}`
	for _, row := range []struct {
		name    string
		handler http.HandlerFunc
	}{
		{"another hash than the bytes have", answer(`[` + id + `,{"jsonrpc":"2.0","id":2,"result":"0x` + strings.Repeat("ab", 32) + `"}]`)},
		{"a hash of null", answer(`[` + id + `,{"jsonrpc":"2.0","id":2,"result":null}]`)},
		{"no answer to this call", answer(`[` + id + `]`)},
		{"a refusal by a node whose chain id is not known", answer(`[` + gap + `]`)},
		{"a refusal by a node that refuses to name its chain",
			answer(`[` + gap + `,{"jsonrpc":"2.0","id":1,"error":{"code":-32005,"message":"slow down"}}]`)},
		{"a refusal by a node of another chain", answer(`[` + gap + `,{"jsonrpc":"2.0","id":1,"result":"0x1"}]`)},
		{"one error for the whole batch", answer(`{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"nonce too low"}}`)},
		{"an empty body", answer(``)},
		{"an empty batch", answer(`[]`)},
		{"a page", answer(`<html>nonce too low</html>`)},
		{"half an answer", answer(`[` + id + `,{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"nonce too low"}`)},
		{"a hang-up", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			if reply := open(t, handle(t, row.handler)).Send(t.Context(), signed); reply.Class != chain.Ambiguous || reply.Detail == "" {
				t.Errorf("reply %+v, want ambiguous and why", reply)
			}
		})
	}
}

func TestHTTPStatusesAreAmbiguousWhateverTheySay(t *testing.T) {
	const body = `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"intrinsic gas too low"}}`
	for _, status := range []int{301, 307, 308, 400, 401, 403, 404, 408, 413, 425, 429, 500, 502, 503, 504, 520} {
		reply := open(t, handle(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				t.Errorf("HTTP %d: the redirect was followed", status)
			}
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		})).Send(t.Context(), signed)
		if reply.Class != chain.Ambiguous {
			t.Errorf("HTTP %d: %+v, want ambiguous", status, reply)
		}
	}
}

//go:embed testdata/replies.tsv
var replies string

// said is one text of one client, as it goes over the wire.
type said struct {
	class               chain.Class
	client, code, words string
}

// recorded returns the texts of testdata/replies.tsv.
func recorded() (all []said) {
	for line := range strings.Lines(replies) {
		if f := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); len(f) == 5 {
			all = append(all, said{chain.Class(f[0]), f[1], f[2], f[3]})
		}
	}
	return all
}

func TestClassifiesWhatClientsSay(t *testing.T) {
	for _, row := range recorded() {
		t.Run(row.client+": "+row.words, func(t *testing.T) {
			s := serve(t, map[string]func(request) raw{"eth_sendRawTransaction": always(failure(row.code, row.words))})
			got := open(t, s.URL).Send(t.Context(), []byte{2})
			if got.Class != row.class {
				t.Errorf("class %s, want %s", got.Class, row.class)
			}
			if !strings.Contains(got.Detail, row.words) || !strings.Contains(got.Detail, row.code) {
				t.Errorf("detail %q does not say %s %q", got.Detail, row.code, row.words)
			}
		})
	}
}

func TestEveryClassHasARecordedText(t *testing.T) {
	for _, class := range chain.Classes() {
		if class != chain.Accepted && !slices.ContainsFunc(recorded(), func(s said) bool { return s.class == class }) {
			t.Errorf("no recorded text of class %s", class)
		}
	}
}
