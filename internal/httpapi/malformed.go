package httpapi

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"strconv"
)

// Listener returns l with one change for an http.Server of ours: what
// net/http refuses before any handler sees it (a path with %zz, a header with a
// NUL, too many headers, an unknown expectation) is answered as a problem like
// all others, instead of in plain text. newID makes request ids.
func Listener(l net.Listener, newID func() string) net.Listener { return listener{l, newID} }

type listener struct {
	net.Listener
	newID func() string
}

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &connection{conn, l.newID}, nil
}

type connection struct {
	net.Conn
	newID func() string
}

// What begins a refusal, and what every answer of our handlers has in the
// first bytes that net/http writes of it.
var (
	refusalPrefixes = [][]byte{[]byte("HTTP/1.1 4"), []byte("HTTP/1.1 5"), []byte("HTTP/1.0 4"), []byte("HTTP/1.0 5")}
	ourHeader       = []byte("\r\nX-Request-Id: ")
)

// Write implements net.Conn. net/http writes each refusal of its own at once,
// and closes the connection after it.
func (c *connection) Write(b []byte) (int, error) {
	for _, prefix := range refusalPrefixes {
		if bytes.HasPrefix(b, prefix) && !bytes.Contains(b, ourHeader) {
			if _, err := c.Conn.Write(malformed(c.newID())); err != nil {
				return 0, err
			}
			return len(b), nil
		}
	}
	return c.Conn.Write(b)
}

// CloseWrite lets net/http end a connection as gently as without us: the
// client reads the refusal before it learns that nobody listens.
func (c *connection) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// malformed returns the whole response to what is no request.
func malformed(id string) []byte {
	body, _ := json.Marshal(problemOf(errMalformed).answer().body) // text
	h := http.Header{
		"Content-Type": {"application/json"}, "Cache-Control": {"no-store"}, "X-Request-Id": {id},
		"Content-Length": {strconv.Itoa(len(body))}, "Connection": {"close"},
	}
	var b bytes.Buffer
	b.WriteString("HTTP/1.1 400 Bad Request\r\n")
	_ = h.Write(&b) // a buffer takes everything
	b.WriteString("\r\n")
	b.Write(body)
	return b.Bytes()
}
