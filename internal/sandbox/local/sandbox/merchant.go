package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/settlement"
	"github.com/remit-payouts/remit/internal/sandbox/fault"
	remit "github.com/remit-payouts/remit/sdk/go"
)

// open makes the page's merchant with its webhook, and begins to follow the stack, unless that was done before.
func (s *Sandbox) open(ctx context.Context) error {
	s.opening.Lock()
	defer s.opening.Unlock()
	if s.opened.Load() {
		return nil
	}
	name, key, err := s.Join(ctx)
	if err != nil {
		return fmt.Errorf("making the page's merchant: %w", err)
	}
	api := &remit.Client{URL: s.URL, Key: key, Once: true}
	second, err := api.CreateKey(ctx, remit.IssueAPIKeyRequest{Scopes: []remit.Scope{remit.ScopePaymentsApprove}})
	if err != nil {
		return fmt.Errorf("making the page's second key: %w", err)
	}
	if s.hooks == nil {
		at, err := s.listen(http.HandlerFunc(s.receive))
		if err != nil {
			return err
		}
		s.hooks = fault.NewProxy(at)
		if s.hookURL, err = s.listen(s.hooks); err != nil {
			return err
		}
	}
	hook, err := api.CreateWebhook(ctx, remit.CreateWebhookRequest{URL: s.hookURL, Description: "The page"})
	if err != nil {
		return fmt.Errorf("registering the page's webhook: %w", err)
	}
	s.approver = &remit.Client{URL: s.URL, Key: second.APIKey, Once: true}
	s.merchant, s.api, s.hookID, s.secret = name, api, hook.ID, hook.Secret
	s.openedAt = s.now()
	s.opened.Store(true)
	s.running.Go(func() { s.follow(s.ctx) })
	return nil
}

func (s *Sandbox) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	var event remit.Event
	if err == nil && s.opened.Load() {
		event, err = remit.VerifyWebhook(s.secret, body, r.Header)
	}
	genuine := err == nil && event.ID != ""
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrived++
	s.seen[event.ID]++
	s.arrivals = append(s.arrivals, arrival{s.arrived, s.now().UnixMilli(), event.Type, genuine, s.seen[event.ID]})
	s.arrivals = s.arrivals[max(0, len(s.arrivals)-shown):]
	if !genuine {
		s.logf("bad", "A webhook arrived with a wrong signature.")
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// An order is a payment that the page requests.
type order struct {
	To     string `json:"to"`
	Amount string `json:"amount"` // in the token's smallest unit
	Asset  string `json:"asset"`
	Key    string `json:"key"`
}

// A reply is the answer to requests of the page.
type reply struct {
	Status int    `json:"status"` // 0: there is none
	Text   string `json:"text"`   // the payment's status, or the refusal's code
	Detail string `json:"detail"`
	N      int    `json:"n"`     // requests that got it
	Final  bool   `json:"final"` // nobody sends the request again
}

// pay sends several requests for a payment at once, and returns its id with the answers so far. An
// order with a used key must be the same as before: the API refuses another.
func (s *Sandbox) pay(ctx context.Context, o order, times int) (payment.ID, []reply, error) {
	amount, err := token.ParseAmount(o.Amount)
	if err != nil {
		return "", nil, fmt.Errorf("amount %q: write it in the smallest unit, as digits: %w", o.Amount, err)
	}
	if o.Key == "" || len(o.Key) > 200 {
		return "", nil, errors.New("Idempotency-Key: use 1 to 200 characters")
	}
	id, got := s.id(o.Key), make(chan reply, times)
	s.mu.Lock()
	r := s.rowOf(id)
	r.Asked += times
	if s.logf("ask", "%d × POST /send-payment with Idempotency-Key %s", times, o.Key); !r.Ours {
		r.Ours, r.Key, r.To, r.Amount, r.Asset = true, o.Key, o.To, amount.String(), o.Asset
	}
	s.mu.Unlock()
	for range times {
		s.running.Go(func() { got <- s.ask(s.ctx, id, o) })
	}
	ctx, cancel := context.WithTimeout(ctx, 8*time.Second) // answers may come later
	defer cancel()
	var all []reply
	for range times {
		var next reply
		select {
		case next = <-got:
		case <-ctx.Done():
		}
		i := slices.IndexFunc(all, func(r reply) bool { r.N = 0; return r == next })
		if i < 0 {
			i, all = len(all), append(all, next)
		}
		all[i].N++
	}
	return id, all, nil
}

// propose proposes an order's payment, for the page's second key to approve.
func (s *Sandbox) propose(ctx context.Context, o order) error {
	_, err := s.api.AttemptProposal(ctx, o.Key, remit.CreateProposalRequest{To: o.To, Amount: remit.Amount(o.Amount), Asset: &o.Asset})
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.proposed[o.Key] = true
	}
	return err
}

// id returns the id of the page's payment with a key.
func (s *Sandbox) id(key string) payment.ID { return payment.KeyID(s.merchant, "test", key) }

// unused returns the first order's key that the page has not used.
func (s *Sandbox) unused() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := 1; ; n++ {
		if key := fmt.Sprint("order-", n); s.rows[s.id(key)] == nil && !s.proposed[key] {
			return key
		}
	}
}

// ask makes one request. Without an answer the outcome is unknown.
func (s *Sandbox) ask(ctx context.Context, id payment.ID, o order) reply {
	p, err := s.api.Attempt(ctx, o.Key, remit.Order{To: o.To, Amount: remit.Amount(o.Amount), Asset: &o.Asset})
	refusal, refused := errors.AsType[*remit.Refused](err)
	open, unknown := errors.AsType[*remit.OutcomeUnknown](err)
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rows[id]
	switch {
	case err == nil:
		r.Answers++
		if r.Hash != "" && r.Hash != p.TxHash {
			s.logf("bad", "%s got two hashes, %s and %s", o.Key, r.Hash, p.TxHash)
		}
		r.Answer, r.Refused, r.Hash = "201 "+string(p.Status), false, p.TxHash
		s.byHash[p.TxHash] = id
		return reply{Status: http.StatusCreated, Text: string(p.Status), Final: true}
	case refused:
		var wrong []remit.InvalidItem // of a 422
		if _ = json.Unmarshal([]byte(refusal.Detail), &wrong); len(wrong) > 0 {
			refusal.Detail = wrong[0].Msg
		}
		s.logf("ask", "%s got %d %s: %s", o.Key, refusal.Status, refusal.Code, refusal.Detail)
		r.Answer, r.Detail, r.Refused = fmt.Sprint(refusal.Status, " ", refusal.Code), refusal.Detail, r.Hash == ""
		r.Refusals++
		return reply{Status: refusal.Status, Text: refusal.Code, Detail: refusal.Detail, Final: true}
	case unknown && open.Last.Status != 0:
		var problem struct{ Code, Detail string }
		_ = json.Unmarshal(open.Last.Body, &problem) // an answer that is not JSON has no code
		r.Answer = fmt.Sprint(open.Last.Status, " ", problem.Code)
		s.logf("ask", "%s got %s: send it again", o.Key, r.Answer)
		return reply{Status: open.Last.Status, Text: problem.Code, Detail: problem.Detail}
	case ctx.Err() == nil:
		r.Answer = "no answer"
		s.logf("ask", "%s got no answer. The client cannot know whether it is paid, and sends it again", o.Key)
	}
	return reply{}
}

// pursue retries until the answer is final, as every client should.
func (s *Sandbox) pursue(ctx context.Context, id payment.ID, o order) {
	for wait := time.Second / 5; ctx.Err() == nil && !s.ask(ctx, id, o).Final; wait = min(2*wait, 3*time.Second) {
		settlement.Sleep(ctx, wait)
		s.mu.Lock()
		s.rows[id].Asked++
		s.mu.Unlock()
	}
}

// heal ends every breakage, retries every unanswered request of the page, and starts
// check-receipts, which finishes the other payments.
func (s *Sandbox) heal() error {
	s.acting.Lock()
	for _, b := range breakages {
		if s.isBroken(b.ID) {
			s.mend(b)
		}
	}
	s.acting.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logf("fault", "Everything works again. Clients retry unanswered requests, and check-receipts runs.")
	for _, r := range s.order {
		if r.Ours && r.Answers == 0 && !r.Refused {
			o, id := order{r.To, r.Amount, r.Asset, r.Key}, r.ID
			r.Asked++
			s.running.Go(func() { s.pursue(s.ctx, id, o) })
		}
	}
	return s.Hint(s.ctx)
}

// serve lets the API answer a request for a payment, in a process that ends at the cut if it reaches it.
func (s *Sandbox) serve(api http.Handler, w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	cut := s.cut
	s.mu.Unlock()
	r = r.WithContext(fault.NewProcess(cut).With(r.Context()))
	api.ServeHTTP(w, r)
	if !fault.HasEnded(r.Context()) {
		return
	}
	s.arm(fault.Cut{})
	for _, b := range breakages {
		if b.thing == "process" && s.isBroken(b.ID) {
			s.over(b.ID, "A request’s process was killed "+b.Label+". "+b.Does)
		}
	}
	// A short answer is still in the buffer: the client sees a connection that ends.
	panic(http.ErrAbortHandler)
}
