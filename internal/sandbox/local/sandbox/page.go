package sandbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
	remit "github.com/remit-payouts/remit/sdk/go"
)

// Handler returns api with the page before it: at / and at its paths below /page/.
func (s *Sandbox) Handler(api http.Handler) http.Handler {
	mux := http.NewServeMux()
	Routes(mux, s, s.ctx.Done())
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

// Facts implements Source.
func (s *Sandbox) Facts() any {
	return map[string]any{"name": "sandbox", "url": s.URL, "key": s.api.Key, "symbol": s.Token.Symbol,
		"decimals": s.Token.Decimals, "token": s.Token.Contract,
		"gas":       gasSymbol(s.GasUnit, s.Token),
		"rule":      s.Rule.String(),
		"breakages": breakages, "recipients": devnet.Recipients(), "listed": Listed}
}

func (s *Sandbox) do(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Do    string `json:"do"`
		Times int    `json:"times"` // pay: 1 to 50
		Fault string `json:"fault"` // break
		Depth int    `json:"depth"` // break reorg
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
		err = fmt.Errorf("times %d: send 1 to 50 requests at once", times)
	case asked.Do == "pay":
		id, err = s.pay(asked.order, times)
	case asked.Do == "break":
		err = s.breakIt(s.ctx, asked.Fault, asked.Depth)
	case asked.Do == "mend":
		err = s.heal()
	case asked.Do == "settle":
		err = s.Hint(r.Context())
	default:
		err = fmt.Errorf("do %q: use pay, break, mend or settle", asked.Do)
	}
	if err != nil {
		refuse(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	write(w, map[string]any{"id": id})
}

// errUnknown reports a search without a result.
var errUnknown = errors.New("No payment has that id, hash or Idempotency-Key.") //nolint:staticcheck,revive // a sentence on the page

// Timeline implements Source.
func (s *Sandbox) Timeline(ctx context.Context, find string) (Timeline, error) {
	s.mu.Lock()
	id := cmp.Or(s.byHash[strings.ToLower(find)], payment.ID(find))
	if s.rows[id] == nil {
		if i := slices.IndexFunc(s.order, func(r *Row) bool { return r.Key == find }); i >= 0 {
			id = s.order[i].ID
		}
	}
	known := s.rows[id]
	var shown Row
	if known != nil {
		shown = *known
	}
	s.mu.Unlock()
	if known == nil {
		return Timeline{}, errUnknown
	}
	p, err := s.Store.Payment(ctx, id)
	if err != nil { // not stored yet, or discarded
		p = payment.Payment{}
	}
	timeline, err := timelineOf(ctx, shown, p, s.Store, s.Nodes())
	if err == nil && p.Event != nil {
		timeline.Deliveries = s.deliveries(ctx, p.Event.ID)
	}
	return timeline, err
}

// deliveries returns the deliveries of an event to the page's endpoint.
func (s *Sandbox) deliveries(ctx context.Context, event string) []remit.Delivery {
	all, _ := s.api.ListDeliveries(ctx, s.hookID) // none of an API that gives no answer
	return append([]remit.Delivery{}, slices.DeleteFunc(all, func(d remit.Delivery) bool { return d.EventID != event })...)
}
