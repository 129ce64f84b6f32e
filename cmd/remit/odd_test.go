package main_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"remit/internal/httpapi"
)

var (
	seed     = flag.Uint64("seed", 2041, "seed of the requests of TestOddRequests")
	requests = flag.Int("requests", 4_000, "how many odd requests to send")
)

// TestOddRequests sends a running stack, byte by byte, requests that no
// well-meaning client sends, to every route. Every answer is JSON that
// openapi.yaml describes, is not a 5xx, and repeats nothing of its request. A client
// that says nothing more is answered like any other, and one that is gone is not
// taken for a failure of nodes or tables.
func TestOddRequests(t *testing.T) {
	p, m := local(t)
	m.join()
	// Requests rotate and revoke the first key, and are made with another.
	first := m.must("GET", "/api-keys", "")["data"].([]any)[0].(map[string]any)["id"].(string)
	m.key = m.must("POST", "/api-keys/"+first+"/rotate", "{}")["api_key"].(string)
	hook := m.must("POST", "/webhooks", `{"url":"http://127.0.0.1:9/"}`)["id"].(string)
	hash := m.must("POST", "/send-payment", `{"to":"`+payee+`","amount":1}`)["tx_hash"].(string)
	known := strings.NewReplacer("/api-keys/{id}", "/api-keys/"+first, "/webhooks/{id}/delete", "/webhooks/we_unknown/delete", "/webhooks/{id}", "/webhooks/"+hook,
		"{delivery_id}", "dlv_1", "{tx_hash}", hash, "{address}", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed")
	var senders errgroup.Group
	senders.SetLimit(8)
	statuses := make([]int, *requests)
	for i := range statuses {
		senders.Go(func() (err error) {
			o := oddRequest(rand.New(rand.NewPCG(*seed, uint64(i))), known, m.key)
			if statuses[i], err = o.send(strings.TrimPrefix(m.url, "http://")); err != nil {
				t.Errorf("request %d of seed %d: %v\nsent: %.1000q", i, *seed, err, o.bytes)
			}
			return nil
		})
	}
	_ = senders.Wait()
	answered := map[int]int{}
	for _, status := range statuses {
		answered[status]++
	}
	t.Logf("answered: %v", answered)
	for _, status := range []int{200, 201, 400, 401, 404, 405, 422} {
		if answered[status] == 0 {
			t.Errorf("no request was answered %d: that is no mixture", status)
		}
	}
	if answered[0] > *requests/20 {
		t.Errorf("%d requests got no answer", answered[0])
	}
	m.must("GET", "/webhooks", "")
	if err := p.interrupt(); err != nil {
		t.Errorf("Ctrl-C: %v", err)
	}
	if log := p.stderr.String(); strings.Contains(log, "ERROR") {
		t.Errorf("the stack logged errors:\n%.3000s", log)
	}
}

// An odd request is the bytes of one, and the parts of it that the judgement of
// its answer needs.
type odd struct {
	bytes        []byte
	method, path string
	leaves       bool   // the client is gone before the answer
	broken       bool   // cut short, or larger than the server reads: no answer is an answer
	mark         string // letters that no answer may repeat
	kept         string // letters in fields that are stored: only a refusal may not repeat them
}

// Alternatives for the parts of a request. § stands for the mark, ¤ for the kept
// letters, ¶ for 20,000 letters.
var (
	oddMethods  = []string{"TRACE", "CONNECT", "OPTIONS", "PATCH", "HEAD", "PUT", "DELETE", "GET", "POST", "get", "", "G@T", "GET\x00", "§", "\xff§", "<§>"}
	oddVersions = []string{"HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "HTTP/0.9", "http/1.1", "HTTP/1.1\t§", "", "HTTP/§", "\xff"}
	oddNames    = []string{"§", "%00§", "%zz§", "%2f§", "..", "%2e%2e", "\xff§", "é§", " ", "%20§", "'--§", "<§>", ";§", "%", "null", "-1", "¶", "0x" + strings.Repeat("0", 64)}
	oddPaths    = []string{"/§", "%20", "%00", ";§", "\\", "#§", "%zz", "\xff", "\x00§", "/../§", "?§", " §", "¶", "/"}
	oddQueries  = []string{"?limit=§", "?limit=99999999999999999999", "?cursor=§", "?cursor=eyJhIjoxfQ", "?status=<§>", "?created_after=2026-13-40T25:61:61Z", "?limit=1&limit=2",
		"?%zz=§", "?idempotency_key=%00§", "?§=1;&&", "?created_before=¶", "?limit=1", "?status=confirmed"}
	oddKeys  = []string{"", "§", "remit_test_§", "\xff§", "\x00", "¶", "a, b"}
	oddTypes = []string{"text/html", "§", "", "multipart/form-data; boundary=§", "application/json; charset=§", "application/json; charset=utf-8", "application/json, text/html", "application/json\xff", "/"}
	oddLines = []string{"X-A: §", "X-A: \xff§", "Expect: 100-continue", "Expect: §", "Connection: Upgrade\r\nUpgrade: h2c", "Content-Encoding: gzip", "Content-Encoding: §", "Accept: §", "Origin: http://§",
		"Range: bytes=0-1", "X-Request-Id: <§>", "X-Request-Id: §;", "Idempotency-Key: §", "Idempotency-Key: § §", "Idempotency-Key: ключ§", `Idempotency-Key: "§"`, "X-Http-Method-Override: DELETE", "X-Forwarded-Host: §",
		"Connection: close", "Trailer: X-Api-Key", "Cookie: a=§", "Authorization: Basic §", "x a: §", "§", ": §", "X-A\x00: §", " §: folded", "Host: §", "Transfer-Encoding: §", "Content-Length: §", "Content-Length: -1", "X-A: ¶"}
	oddValues = []string{"1e99999999", "-0", "-1", "1.5", "0", "01", "1e77", strings.Repeat("9", 200), "NaN", "true", "null", `"¤"`, "[]", "{}", `[["¤"]]`, `{"¤":{"¤":1}}`, `"\ud800¤"`, `"\u0000¤"`, "\"¤\x00\"", "\"¤\xff\"",
		`"\u202e¤"`, "\"¤\n\"", `"\x"`, `"¤`, `"💩¤"`, `" "`, `"<script>¤</script>"`, `"../../¤"`, `"0x¤"`, `"0x0000000000000000000000000000000000000000"`, `"0x5aaeb6053F3E94C9b9A09f33669435E7Ef1BeAed"`, `"ftp://¤"`,
		`"https://user:¤@127.0.0.1/"`, `"https://[::1"`, `"http://169.254.169.254/¤"`, `["payment.¤"]`, `["payment.failed","payment.failed"]`, `"disabled"`, `"¤¶"`, `{"a":1}`, "604801", "1,\"§\":2"}
	oddBodies = []string{"", "§", `"§"`, "[§]", "\xef\xbb\xbf{}", "{}§", "{}{}", "\x00{}", "\xff\xfe{\x00}\x00", strings.Repeat("[", 60_000), strings.Repeat(`{"§":`, 50), `{"§":1,"§":2}`, `{"§":"¶¶¶¶"}`, "{}" + strings.Repeat(" ", 65_536),
		"\x1f\x8b\x08\x00§", "<html>§", "§=1&b=2", "{'§':1}", `{"§":1,}`, "//§\n{}", "nul\x00", "true", `"\u`, `{"__proto__":{"§":1}}`, `{"\ud800§":1}`, `{"TO":1,"Amount":2}`}
	goodBodies = map[string]string{
		"/send-payment": `{"to":"` + payee + `","amount":1,"reference":"¤","metadata":{"a":"¤"}}`, "/create-api-key": `{"merchant_name":"¤"}`,
		"/webhooks": `{"url":"http://127.0.0.1:9/¤","description":"¤","event_types":["payment.failed"]}`, "/webhooks/{id}": `{"description":"¤","status":"enabled"}`,
	}
)

// framings are other ways to send a body than with its length: headers, then
// bytes. ℓ stands for the length, β for the body, κ for the body as a chunk.
var framings = []string{
	"Content-Length: 9ℓ|β", "Content-Length: 1|β", "Content-Length: ℓ\r\nContent-Length: ℓ|β", "Content-Length: ℓ\r\nTransfer-Encoding: chunked|κ0\r\n\r\n", "X-A: 1|β",
	"Transfer-Encoding: chunked|κ0\r\n\r\n", "Transfer-Encoding: chunked|κ", "Transfer-Encoding: chunked|zz\r\n§\r\n", "Transfer-Encoding: chunked|5\r\n§",
	"Transfer-Encoding: chunked\r\nTrailer: §|κ0\r\nX-Api-Key: §\r\n\r\n", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked|κ0\r\n\r\n",
}

var parameter = regexp.MustCompile(`\{\w+\}`)

// oddRequest draws a request: a good one of which each part may be odd. known
// fills in the parameters of a path.
func oddRequest(r *rand.Rand, known *strings.Replacer, key string) odd {
	word := func() string {
		b := make([]byte, 14)
		for i := range b {
			b[i] = "bcdfghjkmnpqrstvwxz"[r.IntN(19)] // no word of an answer is without vowels for so long
		}
		return string(b)
	}
	o := odd{mark: word(), kept: word()}
	fill := strings.NewReplacer("§", o.mark, "¤", o.kept, "¶", strings.Repeat(o.mark, 1_500)).Replace
	pick := func(good string, odds []string) string {
		if r.IntN(10) > 0 {
			return fill(good)
		}
		return fill(odds[r.IntN(len(odds))])
	}
	route := httpapi.Routes[r.IntN(len(httpapi.Routes))]
	o.method = pick(route.Method, oddMethods)
	target := known.Replace(route.Path)
	if r.IntN(5) == 0 {
		target = parameter.ReplaceAllLiteralString(route.Path, fill(oddNames[r.IntN(len(oddNames))]))
	}
	target += pick("", oddPaths)
	if route.Path == "/transactions" {
		target += fill(oddQueries[r.IntN(len(oddQueries))])
	}
	o.path, _, _ = strings.Cut(target, "?")
	lines := []string{"Host: " + pick("localhost", []string{"", "§", "x:99999", "a b", "\xff"}), "x-api-key: " + pick(key, oddKeys), "Content-Type: " + pick("application/json", oddTypes)}
	for r.IntN(3) == 0 {
		lines = append(lines, fill(oddLines[r.IntN(len(oddLines))]))
	}
	if r.IntN(60) == 0 {
		lines = append(lines, "X-A: "+strings.Repeat(o.mark, 100_000))
	}
	body := ""
	if route.Method == "POST" || r.IntN(10) == 0 {
		body = cmp.Or(goodBodies[route.Path], "{}")
		if fields := strings.Split(body, ":"); len(fields) > 1 && r.IntN(2) == 0 { // another value for the last of some fields
			fields = fields[:2+r.IntN(len(fields)-1)]
			fields[len(fields)-1] = oddValues[r.IntN(len(oddValues))] + strings.Repeat("}", strings.Count(strings.Join(fields, ""), "{"))
			body = strings.Join(fields, ":")
		}
		body = pick(body, oddBodies)
	}
	if body != "" || r.IntN(10) == 0 {
		headers, sent, _ := strings.Cut(pick("Content-Length: ℓ|β", framings), "|")
		lines = append(lines, strings.ReplaceAll(headers, "ℓ", fmt.Sprint(len(body))))
		body = strings.NewReplacer("β", body, "κ", fmt.Sprintf("%x\r\n%s\r\n", len(body), body)).Replace(sent)
	}
	end := pick("\r\n", []string{"\n", "\r\n", "\r", "\n\r", "\r\r\n"})
	head := o.method + " " + target + " " + pick("HTTP/1.1", oddVersions) + end + strings.Join(lines, end) + end + end
	o.bytes = []byte(head + body)
	switch i := r.IntN(40); {
	case i == 0:
		o.bytes, o.broken = o.bytes[:r.IntN(len(o.bytes))], true
	case i == 1:
		o.leaves = true
	case i == 2 && route.Path != "/docs": // the only page, which is no JSON
		o.bytes = bytes.Repeat(o.bytes, 2)
	}
	o.broken = o.broken || end != "\r\n" || len(head) > 32<<10
	return o
}

// send writes the request to a connection of its own, says that no more follows,
// and judges every answer. It returns the status of the first, 0 for none.
func (o odd) send(address string) (first int, err error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return 0, err
	}
	if o.leaves {
		_, _ = conn.Write(o.bytes) // the server may have refused it, and reset the connection, before its end
		return 0, nil
	}
	go func() { // a refusal may come, and end the connection, before all is written
		_, _ = conn.Write(o.bytes)
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	raw, err := io.ReadAll(conn)
	reset := errors.Is(err, syscall.ECONNRESET) // of bytes that the server did not read; its answer may be lost
	if err != nil && !reset {
		return 0, fmt.Errorf("no end of the answer: %w", err)
	}
	asked := &http.Request{Method: o.method, URL: &url.URL{Path: o.path}, Header: http.Header{}}
	for reading := bufio.NewReader(bytes.NewReader(raw)); ; {
		status, err := o.judge(asked, reading)
		switch {
		case errors.Is(err, io.EOF) && first == 0 && !o.broken && !reset:
			return 0, errors.New("no answer")
		case errors.Is(err, io.EOF) || reset && errors.Is(err, io.ErrUnexpectedEOF):
			return first, nil
		case err != nil:
			return first, fmt.Errorf("%w\nanswered: %.2000q", err, raw)
		case first == 0 && status != http.StatusContinue:
			first, asked = status, nil // bytes that follow the request may be answered as any request
		}
	}
}

// judge reads one answer and returns its status; io.EOF if there is none. A nil
// asked is a request that cannot be told.
func (o odd) judge(asked *http.Request, reading *bufio.Reader) (int, error) {
	begin, err := reading.Peek(len("HTTP/1.1 400"))
	if err != nil {
		return 0, io.EOF
	}
	if asked != nil && asked.Method == http.MethodHead && string(begin) == "HTTP/1.1 400" {
		asked.Method = http.MethodGet // a malformed HEAD is answered with a body
	}
	answer, err := http.ReadResponse(reading, asked)
	if err != nil {
		return 0, fmt.Errorf("reading the answer: %w", err)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode == http.StatusContinue {
		return answer.StatusCode, err
	}
	said := strings.ToLower(fmt.Sprint(answer.Status, answer.Header, string(body)))
	echoes := func(word string) bool {
		return slices.ContainsFunc([]int{0, 2, 4}, func(i int) bool { return strings.Contains(said, word[i:i+10]) })
	}
	switch {
	case answer.StatusCode >= 500:
		return 0, fmt.Errorf("answered %d", answer.StatusCode)
	case echoes(o.mark) || answer.StatusCode >= 400 && echoes(o.kept):
		return 0, errors.New("the answer echoes the request")
	case asked == nil && (answer.Header.Get("Content-Type") != "application/json" || !json.Valid(body) && len(body) > 0):
		return 0, errors.New("bytes after the request are not answered in JSON")
	case asked == nil, answer.StatusCode == http.StatusForbidden && !bytes.Contains(o.bytes, []byte("Host: localhost\r\n")): // of one machine alone
		return answer.StatusCode, nil
	}
	c, err := contract()
	if err != nil {
		return 0, err
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	return answer.StatusCode, c.Check(asked, answer)
}
