package sandbox

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"strings"

	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
)

// Handler returns api with the page before it: at / and at its paths below /page/.
func (s *Sandbox) Handler(api http.Handler) http.Handler {
	mux := http.NewServeMux()
	Files(mux)
	mux.HandleFunc("GET /page/facts", func(w http.ResponseWriter, _ *http.Request) { write(w, s.facts()) })
	mux.HandleFunc("GET /page/events", s.events)
	mux.HandleFunc("GET /page/payment", func(w http.ResponseWriter, r *http.Request) {
		timeline, err := s.timeline(r.Context(), r.URL.Query().Get("find"))
		if err != nil {
			refuse(w, http.StatusNotFound, err.Error())
			return
		}
		write(w, timeline)
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

// facts returns the page's constants.
func (s *Sandbox) facts() any {
	gas := "ETH"
	if s.GasUnit > 0 {
		gas = s.Token.Symbol
	}
	return map[string]any{"name": "sandbox", "url": s.URL, "key": s.api.Key, "symbol": s.Token.Symbol, "decimals": s.Token.Decimals,
		"gas": gas, "breakages": breakages, "recipients": devnet.Recipients(), "listed": Listed}
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
