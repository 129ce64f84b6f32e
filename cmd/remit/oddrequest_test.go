package main_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"

	"remit/internal/httpapi"
)

// An oddRequest is what is written to a connection, and what is known of it.
type oddRequest struct {
	bytes        []byte
	method, path string
	copies       int  // how many requests of that method and path begin the bytes
	maybeNone    bool // too broken, or too long, for an answer to be sure

	mark string // 14 letters that no answer may repeat
	kept string // 14 letters in fields that are stored, so only a refusal may not
}

// echoed names the mark of which 10 letters in a row stand in the answer, in
// whatever case.
func (o oddRequest) echoed(answer *http.Response, body []byte) string {
	said := strings.ToLower(fmt.Sprint(answer.Status, answer.Header, string(body)))
	words := []string{o.mark}
	if answer.StatusCode >= 400 {
		words = append(words, o.kept)
	}
	for _, word := range words {
		for i := range len(word) - 9 {
			if strings.Contains(said, strings.ToLower(word[i:i+10])) {
				return word
			}
		}
	}
	return ""
}

// A maker makes one odd request.
type maker struct {
	*rand.Rand
	*probe
	mark, kept string
}

// one is true once in n times.
func (m maker) one(n int) bool { return m.IntN(n) == 0 }

// of picks one text; § stands for the mark, ¤ for the word that may be kept.
func (m maker) of(texts ...string) string {
	return strings.NewReplacer("§", m.mark, "¤", m.kept).Replace(texts[m.IntN(len(texts))])
}

func (m maker) long(most int) string { return strings.Repeat(m.mark, 1+m.IntN(most/len(m.mark))) }

// request makes the odd request of a source of randomness.
func (p *probe) request(r *rand.Rand) oddRequest {
	word := func() string {
		b := make([]byte, 14)
		for i := range b {
			b[i] = "bcdfghjkmnpqrstvwxz"[r.IntN(19)] // no word that an answer has by itself
		}
		return string(b)
	}
	m := maker{r, p, word(), word()}
	route := p.routes[m.IntN(len(p.routes))]
	o := oddRequest{method: route.Method, mark: m.mark, kept: m.kept, copies: 1}
	if m.one(12) {
		o.method = m.of(oddMethods...)
	}
	path, target := m.target(route)
	o.path = path
	line := "\r\n"
	if m.one(40) {
		line = m.of("\n", "\r", "\n\r", "\r\r\n")
	}
	version := "HTTP/1.1"
	if m.one(20) {
		version = m.of(oddVersions...)
	}
	body := m.body(route)
	headers := m.headers()
	clean, framing, framed := m.framed(body)
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s %s%s%s%s", o.method, target, version, line, strings.Join(append(headers, framing...), line)+line, line)
	o.maybeNone = line != "\r\n" || b.Len() > 32<<10 // refused, and closed, before all is read
	b.WriteString(framed)
	switch {
	case m.one(40):
		b.Truncate(m.IntN(b.Len()))
		o.maybeNone = true
	case m.one(40):
		b.Reset()
		b.WriteString(m.of(noRequests...))
		o.method, o.path, o.maybeNone = "GET", "/", true
	case m.one(20) && clean && b.Len() < 32<<10 && o.method == route.Method:
		o.copies = 2 + m.IntN(2)
	}
	o.bytes = bytes.Repeat(b.Bytes(), o.copies)
	return o
}

var oddMethods = []string{
	"TRACE", "CONNECT", "OPTIONS", "PATCH", "HEAD", "PUT", "DELETE", "GET", "POST", "get", "Post", "PROPFIND", "PRI", "", "G@T", "GET\x00", "G T", "§", "\xff§", "<§>",
}

var oddVersions = []string{"HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "HTTP/3", "HTTP/0.9", "http/1.1", "HTTP/1.1 ", "HTTP/1.1\t§", "HTTP/11", "", "HTTP/§", "\xff"}

var noRequests = []string{
	"", "\n", "\r\n\r\n", "\x00\x00\x00\x00", "GET", "GET /", "GET /§\r\n\r\n", "§\r\n\r\n", "EHLO §\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
	"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03§\r\n\r\n", "{\"§\":1}\r\n\r\n", "\xff\xfe§\r\n\r\n", "GET / HTTP/1.1\r\n§", "\r\nGET /§ HTTP/1.1\r\nHost: x\r\n\r\n", "<§>\r\n\r\n",
}

// target makes what follows the method, and the path in it.
func (m maker) target(route httpapi.Route) (path, target string) {
	segments := strings.Split(route.Path, "/")
	for i, s := range segments {
		if strings.HasPrefix(s, "{") {
			segments[i] = m.parameter(s, route)
		}
	}
	path = strings.Join(segments, "/")
	if m.one(8) {
		path = m.of(oddPaths(path, m)...)
	}
	target = path + m.query(route)
	if m.one(60) {
		target = m.of("http://§"+target, "https://x"+target, "//§"+target, target+" §", target+"\t", "x:"+target)
		if strings.HasPrefix(target, "//") {
			path = "/" // not a host, and no route
		}
	}
	path, _, _ = strings.Cut(path, "?")
	return path, target
}

// parameter stands for a {name} in a path.
func (m maker) parameter(name string, route httpapi.Route) string {
	if m.one(3) {
		return m.of("§", "%00§", "%zz§", "%2f§", "..", ".", "%2e%2e", "\xff§", "%ff§", "é§", " ", "%20§", "'--§", "<§>", ";§", ":", "%", "0x"+strings.Repeat("0", 64),
			"0x"+strings.Repeat("0", 40), "0X"+strings.Repeat("f", 64), "null", "-1", m.long(20_000))
	}
	switch {
	case name == "{tx_hash}":
		return m.of(m.hash, strings.TrimPrefix(m.hash, "0x"), strings.ToUpper(m.hash))
	case name == "{address}":
		return m.of("0x1111111111111111111111111111111111111111", "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed")
	case name == "{delivery_id}":
		return "dlv_01a1fde190ea62715cc3fa948986e094"
	case strings.HasPrefix(route.Path, "/api-keys"):
		return m.keyID
	case strings.HasSuffix(route.Path, "/delete"):
		return "we_unknown" // the others need it
	}
	return m.hook
}

func oddPaths(path string, m maker) []string {
	return []string{
		"/" + path, path + "/", "/." + path, "/§/.." + path, path + "/§", strings.ToUpper(path), path + "%20", path + "%00", path + ";§", path + "\\", path + "#§", path + "%",
		path + "%zz", path + "\xff", path + "\x00§", path + "\x7f", "%2f" + path[1:], "*", "", "§", "§:80", "/§", "/%2e%2e/%2e%2e/§", "/..%2f§", strings.Repeat("/§", 1+m.IntN(500)),
		path + m.long(60_000), "/favicon.ico", "/robots.txt", "/.env", "/index.html", "/debug/pprof/", "?§", "/?§",
	}
}

// query is of the lists, mostly.
func (m maker) query(route httpapi.Route) string {
	if route.Path != "/transactions" && !m.one(6) {
		return ""
	}
	var pairs []string
	for range m.IntN(4) {
		name := m.of("limit", "cursor", "status", "created_after", "created_before", "idempotency_key", "§", "", "limit[]", "%6cimit", "%zz")
		pairs = append(pairs, name+m.of("=", "=", "=", "")+m.of("§", "%zz§", "%ff", "%00§", "1", "100", "0", "-1", "1e2", "99999999999999999999", "pending", "confirmed", "+", "",
			"2026-01-02T15:04:05Z", "2026-13-40T25:61:61Z", "0000-00-00T00:00:00Z", "%F0%9F%92%A9", "§§", "<§>", "eyJhIjoxfQ", "eyJhIjoxfQ==", m.long(20_000)))
	}
	return "?" + strings.Join(pairs, m.of("&", "&", "&", ";", "&&"))
}

// headers are those of a good request, some of them odd, and odd ones.
func (m maker) headers() []string {
	headers := []string{"Host: x"}
	if m.one(40) {
		headers = m.some("Host: ", "", "§", "x:99999", "a b", "\xff", "<§>")
	}
	if key := "x-api-key: "; m.one(8) {
		headers = append(headers, m.some(key, "", "§", m.key+"§", strings.ToUpper(m.key), "remit_test_§", "\xff§", "\x00", m.long(9_000), m.key+", "+m.key)...)
	} else {
		headers = append(headers, key+m.key)
	}
	if kind := "Content-Type: "; m.one(8) {
		headers = append(headers, m.some(kind, "application/json; charset=utf-8", "application/problem+json", "text/html", "§", "application/§", "", "multipart/form-data; boundary=§",
			"application/json; charset=§", "APPLICATION/JSON", "application/json, text/html", "application/json\xff", "application/json;;;", `application/json; charset="utf-8`, "application/+json", "/")...)
	} else {
		headers = append(headers, kind+"application/json")
	}
	if m.one(4) {
		headers = append(headers, m.some("Idempotency-Key: ", "§", `"§"`, "§ §", "", `"§`, m.long(600), "§\xff", "ключ§", "\t", `""`, "\x00")...)
	}
	if m.one(4) {
		headers = append(headers, m.some("X-Request-Id: ", "order_2041.A-b", "<§>", strings.Repeat(m.mark, 10), "", "§\xff", "§ §", "§;", "é§")...)
	}
	if m.one(15) {
		headers = append(headers, m.some("Content-Encoding: ", "gzip", "identity", "§", "", "br, §")...)
	}
	for m.one(3) {
		headers = append(headers, m.of(oddHeaders...))
	}
	if m.one(20) {
		headers = append(headers, m.of(brokenHeaders...))
	}
	switch {
	case m.one(60):
		headers = append(headers, "X-A: "+m.long(1_500_000))
	case m.one(60):
		for i := range m.IntN(3_000) {
			headers = append(headers, fmt.Sprintf("X-%d: %s", i, m.mark))
		}
	}
	return headers
}

// some returns a header with one of the values, or none, or two.
func (m maker) some(name string, values ...string) []string {
	switch {
	case m.one(6):
		return nil
	case m.one(6):
		return []string{name + m.of(values...), name + m.of(values...)}
	}
	return []string{name + m.of(values...)}
}

var oddHeaders = []string{
	"X-A: §", "X-A: \xff§", "X-A:", "Expect: 100-continue", "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: §", "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: §",
	"Range: bytes=0-1", "If-None-Match: *", "If-Match: \"§\"", "If-Modified-Since: §", "Accept: text/html", "Accept: §", "Accept-Encoding: gzip", "Accept-Language: §", "Origin: http://§",
	"Access-Control-Request-Method: §", "Authorization: Basic §", "Authorization: AWS4-HMAC-SHA256 Credential=§", "Cookie: a=§", "X-Http-Method-Override: DELETE", "X-Forwarded-For: §",
	"X-Forwarded-Host: §", "X-Forwarded-Proto: §", "Forwarded: for=§", "Trailer: X-Api-Key", "Connection: close", "Connection: x-api-key", "Connection: keep-alive, §",
	"Keep-Alive: §", "TE: trailers", "Referer: http://§", "User-Agent: <§>", "Proxy-Connection: §", "X-Original-URL: /§", "X-Rewrite-URL: /§", "Date: §", "Via: §", "Max-Forwards: 0",
}

// brokenHeaders end a request before anybody looks for its route.
var brokenHeaders = []string{
	"x a: §", "§", ": §", "X-A\x00: §", "X-A: \x00§", " §: folded", "X-A:\r§", "Ключ: §", "Host: §", "Expect: §", "Transfer-Encoding: §", "Transfer-Encoding: chunked, chunked", "Transfer-Encoding: identity",
	"Content-Length: +2", "Content-Length: 99999999999999999999", "Content-Length: 0x2", "Content-Length: -1", "Content-Length: §", "Content-Length: ",
}
