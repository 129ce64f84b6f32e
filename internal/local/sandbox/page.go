package sandbox

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"mime"
	"net"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"remit/internal/chain"
	"remit/internal/devnet"
	"remit/internal/payment"
	"remit/internal/wallet"
)

//go:embed page
var files embed.FS

// Handler returns api with the page before it: at / and at its paths below /sandbox/. newID makes
// the X-Request-Id of an answer.
func (s *Sandbox) Handler(api http.Handler, newID func() string) http.Handler {
	page, err := fs.Sub(files, "page")
	if err != nil {
		panic(err) // it is in the program
	}
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", http.FileServerFS(page))
	mux.Handle("GET /sandbox/page/", http.StripPrefix("/sandbox/page/", http.FileServerFS(page)))
	mux.HandleFunc("GET /sandbox/facts", s.facts)
	mux.HandleFunc("GET /sandbox/events", s.events)
	mux.HandleFunc("GET /sandbox/payment", s.story)
	mux.HandleFunc("POST /sandbox/do", s.do)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern == "" || r.URL.Path != path.Clean(r.URL.Path) {
			if r.Method == http.MethodPost && r.URL.Path == "/send-payment" && s.opened.Load() {
				s.serve(api, w, r)
				return
			}
			api.ServeHTTP(w, r)
			return
		}
		h := w.Header()
		h.Set("X-Request-Id", newID())
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if why := s.stranger(r); why != "" {
			refuse(w, http.StatusForbidden, why)
			return
		}
		if err := s.open(r.Context()); err != nil {
			refuse(w, http.StatusServiceUnavailable, err.Error())
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// refuse answers with a problem in the API's form.
func refuse(w http.ResponseWriter, status int, detail string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"detail": detail, "code": "sandbox_refused"}) // fails if the client has gone
}

// stranger says why a request is none of the page's own, "" if it is. A page of the
// web reaches loopback too: by a name of its own that it resolves to loopback (its Host
// tells), or from another origin (Origin and Sec-Fetch-Site tell).
func (s *Sandbox) stranger(r *http.Request) string {
	own, err := url.Parse(s.URL)
	if err != nil {
		return err.Error()
	}
	name, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		name, port = r.Host, "80"
	}
	ip := net.ParseIP(name)
	if port != own.Port() || name != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return "The page is served on this machine only: open " + s.URL + "/"
	}
	site, origin := r.Header.Get("Sec-Fetch-Site"), r.Header.Get("Origin")
	switch {
	case origin != "" && origin != "http://"+r.Host, site == "cross-site", site == "same-site":
		if r.Method == http.MethodGet && r.URL.Path == "/" && origin == "" && r.Header.Get("Sec-Fetch-Mode") == "navigate" {
			return "" // a link to the page, which shows nothing to the site that it is on
		}
		return "Another origin may not use the page: open " + s.URL + "/ itself."
	case r.Method == http.MethodPost:
		if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
			return "Send application/json."
		}
	}
	return ""
}

// A death is what a process leaves that ends at a step, as the table of
// docs/guarantees.md says it.
type death struct {
	When     string `json:"when"`
	Left     string `json:"left"`
	Finished string `json:"finished"`
}

// deaths are by the step that the payment has reached last. A process that ends once a
// payment is mined or announced leaves nothing that was not there before.
var deaths = [steps][]death{
	prepared: {{"before the reservation", "a payment that is PREPARED, which nobody can pay", "the next request under its key, or nobody: no money can move"},
		{"between reserve and commit", "a reservation", "a request under the key, which takes it over, or check-receipts, which commits the payment"}},
	committed: {{"between commit and release", "reservation and pending transaction", "check-receipts releases"},
		{"before the broadcast", "a pending transaction that no node has", "check-receipts sends it"}},
	sent:      {{"between a stored bump and its broadcast", "one more attempt", "check-receipts sends it; receipts are asked for all attempts"}},
	mined:     {},
	final:     {{"between the end and its event", "a final payment with its pending transaction", "the next run publishes the same event, then deletes the pending transaction"}},
	announced: {},
}

// facts answers what does not change.
func (s *Sandbox) facts(w http.ResponseWriter, _ *http.Request) {
	write(w, map[string]any{"url": s.URL, "key": s.api.Key, "symbol": s.Token.Symbol, "decimals": s.Token.Decimals, "token": s.Token.Contract, "rule": s.Rule.String(),
		"breakages": breakages, "recipients": devnet.Recipients(), "deaths": deaths, "listed": listed})
}

func write(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // fails if the client has gone
}

// events tells of every change until the client or the stack ends: ten times a second
// at most, as server-sent events.
func (s *Sandbox) events(w http.ResponseWriter, r *http.Request) {
	out := http.NewResponseController(w)
	if err := out.SetReadDeadline(time.Time{}); err != nil { // the server's limit is for requests that end
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	seen, quiet := uint64(0), 0
	for {
		u, seq := s.since(seen)
		quiet++
		var err error
		switch {
		case u != nil:
			var text []byte
			if text, err = json.Marshal(u); err == nil {
				_, err = fmt.Fprintf(w, "data: %s\n\n", text)
			}
			seen, quiet = seq, 0
		case quiet%20 == 0: // of which the page learns that the stack is there
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

// do carries out what a button asks for.
func (s *Sandbox) do(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Do      string     `json:"do"`
		ID      payment.ID `json:"id"`    // again
		Times   int        `json:"times"` // pay, again: 1 to 50
		Fault   string     `json:"fault"` // break
		Depth   int        `json:"depth"` // break reorg
		Seed    uint64     `json:"seed"`  // random
		Seconds float64    `json:"seconds"`
		order
	}
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&asked)
	times := cmp.Or(asked.Times, 1)
	var id payment.ID
	switch {
	case err != nil:
	case times < 1 || times > 50:
		err = fmt.Errorf("times %d: ask 1 to 50 times at once", times)
	case asked.Do == "pay":
		id, err = s.pay(asked.order, times)
	case asked.Do == "again":
		id, err = asked.ID, s.again(asked.ID, times)
	case asked.Do == "break":
		err = s.breakIt(s.ctx, asked.Fault, asked.Depth)
	case asked.Do == "mend":
		err = s.mendAll()
	case asked.Do == "settle":
		err = s.Hint(r.Context())
	case asked.Do == "random":
		err = s.atRandom(asked.Seed, time.Duration(cmp.Or(asked.Seconds, 60)*float64(time.Second)))
	default:
		err = fmt.Errorf("do %q: want pay, again, break, mend, settle or random", asked.Do)
	}
	if err != nil {
		refuse(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	write(w, map[string]any{"id": id})
}

// story answers all that there is to know of a payment, by its id, hash or key.
func (s *Sandbox) story(w http.ResponseWriter, r *http.Request) {
	find, ctx := r.URL.Query().Get("find"), r.Context()
	s.mu.Lock()
	id := cmp.Or(s.byHash[strings.ToLower(find)], payment.ID(find))
	if s.rows[id] == nil {
		if i := slices.IndexFunc(s.order, func(r *row) bool { return r.Key == find }); i >= 0 {
			id = s.order[i].ID
		}
	}
	known := s.rows[id]
	var shown row
	if known != nil {
		shown = *known
	}
	s.mu.Unlock()
	if known == nil {
		refuse(w, http.StatusNotFound, "No payment has that id, hash or Idempotency-Key.")
		return
	}
	told := map[string]any{"payment": shown, "attempts": []any{}, "receipts": []any{}, "deliveries": json.RawMessage("[]"), "bytes": ""}
	if p, err := s.Store.Payment(ctx, id); err == nil && len(p.Attempts) > 0 {
		var attempts, receipts []any
		for _, a := range p.Attempts {
			attempts = append(attempts, map[string]any{"hash": a.Hash, "at": a.At.UnixMilli(), "max_fee": a.Fees.Cap.String(), "tip": a.Fees.Tip.String(), "gas": cmp.Or(a.Gas, p.Tx.Gas), "noop": a.Noop})
		}
		for i, d := range s.doors {
			receipts = append(receipts, receiptsOf(ctx, i, d.node, p.Hashes()))
		}
		told["attempts"], told["receipts"] = attempts, receipts
		if p.Fee != nil {
			told["fee"] = p.Fee.String()
		}
		if tx, err := s.Store.PendingTx(ctx, wallet.ID{ChainID: p.Tx.ChainID, Address: p.Wallet}, p.Nonce); err == nil && tx.Payment == id {
			told["bytes"] = fmt.Sprintf("0x%x", tx.Raw)
		}
		if p.Event != nil {
			told["event"], told["deliveries"] = p.Event.ID, s.deliveries(ctx, p.Event.ID)
		}
	}
	write(w, told)
}

// receiptsOf asks a node, within two seconds, for the receipts of a payment.
func receiptsOf(ctx context.Context, i int, node chain.Node, hashes []chain.Hash) map[string]any {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	found, err := node.Receipts(ctx, hashes)
	said := []string{}
	for _, r := range found {
		said = append(said, r.String())
		for _, l := range r.Logs {
			said = append(said, fmt.Sprintf("log of %s: topics %v, data %x", l.Contract, l.Topics, l.Data))
		}
	}
	if err != nil {
		said = append(said, "no answer: "+err.Error())
	}
	return map[string]any{"node": "node " + strconv.Itoa(i+1) + ", " + node.String(), "says": said}
}

// deliveries returns the deliveries of an event to the page's endpoint, as the API
// tells them.
func (s *Sandbox) deliveries(ctx context.Context, event string) []json.RawMessage {
	found := []json.RawMessage{}
	got, err := s.api.Call(ctx, http.MethodGet, "/webhooks/"+s.hookID+"/deliveries", "")
	var list struct{ Data []json.RawMessage }
	if err != nil || json.Unmarshal(got.Body, &list) != nil {
		return found
	}
	for _, d := range list.Data {
		if strings.Contains(string(d), event) {
			found = append(found, d)
		}
	}
	return found
}
