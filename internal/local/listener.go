package local

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"strconv"
)

// refusals is a net.Listener with one change for an http.Server of ours. A
// request that net/http refuses before any handler sees it (a path with %zz, a
// header with a NUL, too many headers, an unknown expectation) is answered as a
// problem like all others, instead of in plain text.
type refusals struct{ net.Listener }

// Accept implements net.Listener.
func (l refusals) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &connection{conn}, nil
}

type connection struct{ net.Conn }

// The first bytes of a refusal, and the header that every answer of our handlers
// has in the first bytes that net/http writes of it.
var (
	refusalPrefixes = [][]byte{[]byte("HTTP/1.1 4"), []byte("HTTP/1.1 5"), []byte("HTTP/1.0 4"), []byte("HTTP/1.0 5")}
	ourHeader       = []byte("\r\nX-Request-Id: ")
)

// Write implements net.Conn. net/http writes each refusal of its own at once,
// and closes the connection after it.
func (c *connection) Write(b []byte) (int, error) {
	for _, prefix := range refusalPrefixes {
		if bytes.HasPrefix(b, prefix) && !bytes.Contains(b, ourHeader) {
			if _, err := c.Conn.Write(malformed()); err != nil {
				return 0, err
			}
			return len(b), nil
		}
	}
	return c.Conn.Write(b)
}

// CloseWrite lets net/http end the connection as gently as one that is not
// wrapped: the client reads the refusal before it learns of the end.
func (c *connection) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// malformed returns the whole answer to bytes that are no request.
func malformed() []byte {
	const body = `{"detail":"This is not a well-formed HTTP request.","code":"request_malformed"}`
	h := http.Header{
		"Content-Type": {"application/json"}, "Cache-Control": {"no-store"}, "X-Request-Id": {requestID()},
		"Content-Length": {strconv.Itoa(len(body))}, "Connection": {"close"},
	}
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 400 Bad Request\r\n")
	_ = h.Write(&b) // a buffer takes everything
	fmt.Fprintf(&b, "\r\n%s", body)
	return b.Bytes()
}
