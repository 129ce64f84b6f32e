package sandbox

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"mime"
	"net"
	"net/http"
	"net/url"
	"time"
)

// Listed is how many payments the page lists at most. All are counted.
const Listed = 100

//go:embed files
var files embed.FS

// Files adds the page's files to mux: at / and below /page/.
func Files(mux *http.ServeMux) {
	below, err := fs.Sub(files, "files")
	if err != nil {
		panic(err) // it is in the program
	}
	mux.Handle("GET /{$}", http.FileServerFS(below))
	mux.Handle("GET /page/", http.StripPrefix("/page/", http.FileServerFS(below)))
}

// guard returns next for requests of the page at the URL own only: it refuses requests of
// other sites, and lets a browser load nothing else.
func guard(own string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src "+
			"'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if why := stranger(own, r); why != "" {
			refuse(w, http.StatusForbidden, why)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Loopback reports whether a host is this machine alone, by its number or by the name
// localhost.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// stranger returns why a request does not come from the page, "" if it does. A page of the
// web reaches loopback too: by a name of its own that it resolves to loopback (see Host), or
// from another origin (see Origin and Sec-Fetch-Site).
func stranger(own string, r *http.Request) string {
	at, err := url.Parse(own)
	if err != nil {
		return err.Error()
	}
	name, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		name, port = r.Host, "80"
	}
	if port != at.Port() || !Loopback(name) {
		return "The page is served on this machine only: open " + own + "/"
	}
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
	switch {
	case origin != "" && origin != "http://"+r.Host, site == "cross-site", site == "same-site":
		if r.Method == http.MethodGet && r.URL.Path == "/" && origin == "" && r.Header.Get("Sec-Fetch-Mode") == "navigate" {
			return "" // a link to the page, which shows nothing to the site that it is on
		}
		return "Another origin may not use the page: open " + own + "/ itself."
	case r.Method == http.MethodPost:
		if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
			return "Send application/json."
		}
	}
	return ""
}

// refuse answers with a problem in the API's form, whose code is page_refused.
func refuse(w http.ResponseWriter, status int, detail string) {
	Problem(w, status, "page_refused", detail)
}

// Problem answers with a problem in the API's form.
func Problem(w http.ResponseWriter, status int, code, detail string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"detail": detail, "code": code}) // fails if the client has gone
}

// write answers with v.
func write(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // fails if the client has gone
}

// events sends every update that differs from the one before until the client goes or the stack stops:
// ten times a second at most, as server-sent events.
func (s *Sandbox) events(w http.ResponseWriter, _ *http.Request) {
	out := http.NewResponseController(w)
	if err := out.SetReadDeadline(time.Time{}); err != nil { // the server's limit is for requests that end
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var sent []byte
	for quiet := 0; ; quiet++ {
		text, err := json.Marshal(s.update())
		switch {
		case err == nil && !bytes.Equal(text, sent):
			_, err = fmt.Fprintf(w, "data: %s\n\n", text)
			sent, quiet = text, 0
		case quiet%20 == 19: // of which the page learns that the stack is there
			_, err = fmt.Fprint(w, ": quiet\n\n")
		}
		if err == nil {
			err = out.Flush()
		}
		if err != nil {
			return
		}
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
	}
}
