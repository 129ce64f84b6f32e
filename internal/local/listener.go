package local

import (
	"bytes"
	"fmt"
	"net"
	"regexp"
)

// refusals is a listener with one change for an http.Server of ours. A request
// that net/http refuses before any handler sees it (a path with %zz, a header with
// a NUL, too many headers, an unknown expectation) is answered as a problem like
// all others, instead of in plain text.
type refusals struct{ *net.TCPListener }

// Accept implements net.Listener.
func (l refusals) Accept() (net.Conn, error) {
	conn, err := l.AcceptTCP()
	if err != nil {
		return nil, err
	}
	return connection{conn}, nil
}

// A connection can CloseWrite, as one that is not wrapped: the client reads a
// refusal before it learns of the end.
type connection struct{ *net.TCPConn }

// The beginning of a refusal, and the header that every answer of our handlers
// has in the first bytes that net/http writes of it.
var (
	refusal   = regexp.MustCompile(`^HTTP/1\.[01] [45]`)
	ourHeader = []byte("\r\nX-Request-Id: ")
)

// Write implements net.Conn. net/http writes each refusal of its own at once,
// and closes the connection after it.
func (c connection) Write(b []byte) (int, error) {
	if !refusal.Match(b) || bytes.Contains(b, ourHeader) {
		return c.TCPConn.Write(b)
	}
	const body = `{"detail":"This is not a well-formed HTTP request.","code":"request_malformed"}`
	_, err := fmt.Fprintf(c.TCPConn, "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nCache-Control: no-store\r\n"+
		"X-Request-Id: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", requestID(), len(body), body)
	if err != nil {
		return 0, err
	}
	return len(b), nil
}
