package main_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestClientsThatLeave: a client that says nothing more is answered like any
// other, and one that is gone is not taken for a failure of nodes or tables.
func TestClientsThatLeave(t *testing.T) {
	p, m := local(t, "--chain-listen", "127.0.0.1:0", "--block-time", "250ms")
	m.join()
	ask := func(i int, leave bool) int {
		conn, err := net.Dial("tcp", strings.TrimPrefix(m.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		if _, err := fmt.Fprintf(conn, "GET /balance/0x%040x HTTP/1.1\r\nHost: x\r\nx-api-key: %s\r\n\r\n", i+4096, m.key); err != nil {
			t.Fatal(err)
		}
		if leave {
			return 0
		}
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		return answer.StatusCode
	}
	for i := range 50 {
		if status := ask(i, false); status != 200 {
			t.Fatalf("a client that says nothing more got %d", status)
		}
		ask(i, true)
	}
	if err := p.interrupt(); err != nil { // waits for what is being answered
		t.Errorf("Ctrl-C: %v", err)
	}
	if log := p.stderr.String(); strings.Contains(log, "request failed") {
		t.Errorf("it logged failures:\n%.2000s", log)
	}
}
