package sandbox

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"mime"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
)

// Handler returns api with the page before it: at / and at its paths below /page/.
func (s *Sandbox) Handler(api http.Handler) http.Handler {
	mux := http.NewServeMux()
	Files(mux)
	mux.HandleFunc("GET /page/facts", func(w http.ResponseWriter, _ *http.Request) { write(w, http.StatusOK, s.facts()) })
	mux.HandleFunc("GET /page/events", s.events)
	mux.HandleFunc("GET /page/payment", func(w http.ResponseWriter, r *http.Request) {
		timeline, err := s.timeline(r.Context(), r.URL.Query().Get("find"))
		if err != nil {
			refuse(w, http.StatusNotFound, err.Error())
			return
		}
		write(w, http.StatusOK, timeline)
	})
	mux.HandleFunc("POST /page/do", s.do)
	own := guard(s.URL, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := s.open(r.Context()); err != nil {
			refuse(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		mux.ServeHTTP(w, r)
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern == "" || r.URL.Path != path.Clean(r.URL.Path) {
			if r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, "/send-payment") && s.opened.Load() {
				s.serve(api, w, r)
				return
			}
			api.ServeHTTP(w, r)
			return
		}
		w.Header().Set("X-Request-Id", rand.Text())
		own.ServeHTTP(w, r)
	})
}

func (s *Sandbox) facts() any {
	var assets []map[string]any
	for _, r := range s.rails {
		assets = append(assets, map[string]any{"asset": r.Asset, "chain_id": r.ChainID, "symbol": r.Token.Symbol,
			"decimals": r.Token.Decimals, "gas": map[bool]string{false: "ETH", true: r.Token.Symbol}[r.GasUnit > 0]})
	}
	return map[string]any{"name": "sandbox", "url": s.URL, "key": s.api.Key, "assets": assets, "unused": s.unused(),
		"breakages": breakages, "recipients": devnet.Recipients(), "listed": Listed}
}

func (s *Sandbox) do(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Do    string `json:"do"`
		Times int    `json:"times"` // pay: 1 to 50
		Fault string `json:"fault"` // break
		ID    string `json:"id"`    // of the proposal to approve or cancel
		order
	}
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&asked)
	times := cmp.Or(asked.Times, 1)
	asked.Asset = cmp.Or(asked.Asset, s.rails[0].Asset)
	var id payment.ID
	var replies []reply
	switch {
	case err != nil:
	case times < 1 || times > 50:
		err = fmt.Errorf("times %d: send 1 to 50 requests at once", times)
	case asked.Do == "pay":
		id, replies, err = s.pay(r.Context(), asked.order, times)
	case asked.Do == "propose":
		err = s.propose(r.Context(), asked.order)
	case asked.Do == "approve":
		_, err = s.approver.Approve(r.Context(), asked.ID)
	case asked.Do == "cancel":
		_, err = s.api.Cancel(r.Context(), asked.ID)
	case asked.Do == "break":
		err = s.breakIt(s.ctx, asked.Fault)
	case asked.Do == "mend":
		err = s.heal()
	case asked.Do == "settle":
		err = s.Hint(r.Context())
	default:
		err = fmt.Errorf("do %q: use pay, propose, approve, cancel, break, mend or settle", asked.Do)
	}
	if err != nil {
		refuse(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	write(w, http.StatusOK, map[string]any{"id": id, "replies": replies, "unused": s.unused()})
}

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
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "+
			"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
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

// Loopback reports whether a host is this machine alone, by its number or by the name localhost.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// stranger returns why a request does not come from the page, "" if it does. A page of the web reaches loopback too: by
// a name of its own that it resolves to loopback (see Host), or from another origin (see Origin and Sec-Fetch-Site).
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

func refuse(w http.ResponseWriter, status int, detail string) {
	Problem(w, status, "page_refused", detail)
}

// Problem answers with a problem in the API's form.
func Problem(w http.ResponseWriter, status int, code, detail string) {
	write(w, status, map[string]string{"detail": detail, "code": code})
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
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
