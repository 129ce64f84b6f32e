package httpapi_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"remit/internal/httpapi"
)

// raw sends bytes to a server of a's router and reads one answer.
func (a *api) raw(request string) answered {
	a.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		a.Fatal(err)
	}
	server := &http.Server{Handler: a.router, DisableGeneralOptionsHandler: true, MaxHeaderBytes: 4 << 10}
	go func() { _ = server.Serve(httpapi.Listener(l, func() string { return "conn-1" })) }()
	defer func() { _ = server.Close() }()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		a.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, request); err != nil {
		a.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		a.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		a.Fatal(err)
	}
	return answered{answer.StatusCode, answer.Header, string(body)}
}

// TestMalformedRequests: what net/http refuses by itself looks like all our
// answers do.
func TestMalformedRequests(t *testing.T) {
	const host = "Host: x\r\n"
	const post = "POST /create-api-key HTTP/1.1\r\n" + host + "Content-Type: application/json\r\n"
	for _, test := range []struct {
		name, request string
		status        int
		part          string
	}{
		{"a path with a broken escape", "GET /balance/%zz HTTP/1.1\r\n" + host + "\r\n", 400, "request_malformed"},
		{"a blank in a path", "GET /trans actions HTTP/1.1\r\n" + host + "\r\n", 400, "request_malformed"},
		{"a method that is none", "G@T /webhooks HTTP/1.1\r\n" + host + "\r\n", 400, "request_malformed"},
		{"no host", "GET /webhooks HTTP/1.1\r\n\r\n", 400, "request_malformed"},
		{"a version that is none", "GET /webhooks HTTP/3.7\r\n" + host + "\r\n", 400, "request_malformed"},
		{"a NUL in a header", "GET /webhooks HTTP/1.1\r\n" + host + "X-A: \x00\r\n\r\n", 400, "request_malformed"},
		{"headers without end", "GET /webhooks HTTP/1.1\r\n" + host + "X-A: " + strings.Repeat("a", 9<<10) + "\r\n\r\n", 400, "request_malformed"},
		{"a negative length", post + "Content-Length: -1\r\n\r\n{}", 400, "request_malformed"},
		{"two lengths", post + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}", 400, "request_malformed"},
		{"an unknown transfer encoding", post + "Transfer-Encoding: zip\r\n\r\n{}", 400, "request_malformed"},
		{"an unknown expectation", post + "Expect: miracles\r\nContent-Length: 2\r\n\r\n{}", 400, "request_malformed"},
		{"an unknown expectation of an old version", "GET /webhooks HTTP/1.0\r\nExpect: miracles\r\n\r\n", 400, "request_malformed"},
		{"what is no HTTP", "hello\r\n\r\n", 400, "request_malformed"},
		{"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, "request_malformed"},
		{"broken chunks are a broken body", post + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", 422, "json_invalid"},
		{"OPTIONS * is no route", "OPTIONS * HTTP/1.1\r\n" + host + "\r\n", 404, "Not Found"},
		{"CONNECT is no route", "CONNECT x:80 HTTP/1.1\r\n" + host + "\r\n", 404, "Not Found"},
		{"the whole URL as the path", "GET http://x/webhooks HTTP/1.1\r\n" + host + "\r\n", 401, "Invalid API Key"},
		{"an old version", "GET /webhooks HTTP/1.0\r\n\r\n", 401, "Invalid API Key"},
		{"a good request", "GET /sandbox HTTP/1.1\r\n" + host + "\r\n", 200, "rpc_url"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := newAPI(t).raw(test.request)
			got.want(t, test.status, test.part)
			for name, want := range map[string]string{"Content-Type": "application/json", "Cache-Control": "no-store"} {
				if got.header.Get(name) != want {
					t.Errorf("%s: %q", name, got.header.Get(name))
				}
			}
			if got.header.Get("X-Request-Id") == "" {
				t.Error("no X-Request-Id")
			}
		})
	}
}
