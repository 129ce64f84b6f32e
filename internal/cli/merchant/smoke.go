package merchant

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	remit "github.com/remit-payouts/remit/sdk/go"
)

// Smoke is `remit smoke`.
type Smoke struct {
	URL     string        `arg:"" optional:"" env:"REMIT_URL" default:"http://127.0.0.1:8080" help:"Where the API is."`
	Key     string        `env:"REMIT_API_KEY" help:"API key. Without it, the command makes one if the stack lets it."`
	To      string        `default:"0x2222222222222222222222222222222222222222" help:"Recipient. It keeps the money."`
	Amount  string        `default:"10000" help:"How much, in the token's smallest unit."`
	Webhook string        `placeholder:"URL" help:"Your endpoint for the event. A stack on this machine needs none."`
	Limit   time.Duration `default:"45m" help:"How long to wait until the payment is final."`
	Live    bool          `help:"Go on even if the stack moves real money."`
}

type smoke struct {
	*Smoke
	api     *remit.Client
	out     io.Writer
	webhook remit.WebhookWithSecret // the registered webhook; zero without one
	arrived chan []byte             // genuine webhooks that a receiver of our own got; nil without one
	order   remit.Order
	unique  string // the payment's Idempotency-Key
	hash    string
}

// Run goes from key to webhook, step by step. It reports the steps to out.
func (c *Smoke) Run(ctx context.Context, out io.Writer) error {
	s := &smoke{Smoke: c, api: connect(c.URL, c.Key), out: out, unique: "smoke-" + rand.Text(),
		order: remit.Order{To: c.To, Amount: remit.Amount(c.Amount), Reference: "remit smoke"}}
	ctx, cancel := context.WithTimeout(ctx, c.Limit+time.Minute)
	defer cancel()
	defer func() {
		if s.webhook.ID != "" {
			_, _ = s.api.DeleteWebhook(context.WithoutCancel(ctx), s.webhook.ID)
		}
	}()
	for _, step := range []struct {
		what string
		do   func(context.Context) (string, error)
	}{
		{"a key", s.createKey},
		{"a wrong key is refused", s.refused},
		{"a webhook", s.register},
		{"a payment", s.pay},
		{"the same request again pays nothing", s.again},
		{"confirmed", s.confirmed},
		{"the webhook arrives", s.delivered},
	} {
		fmt.Fprintf(s.out, "%-38s ", step.what)
		began := time.Now()
		result, err := step.do(ctx)
		if err != nil {
			fmt.Fprintf(s.out, "FAILED\n")
			return fmt.Errorf("smoke test failed: %s: %w", step.what, explained(err, s.api))
		}
		fmt.Fprintf(s.out, "ok  %6.1f s  %s\n", time.Since(began).Seconds(), result)
	}
	return nil
}

func (s *smoke) createKey(ctx context.Context) (string, error) {
	if err := join(ctx, s.api, "remit smoke"); err != nil {
		return "", err
	}
	mode, _, _ := strings.Cut(strings.TrimPrefix(s.api.Key, "remit_"), "_")
	if mode == "live" && !s.Live {
		return "", errors.New("this key moves real money: add --live if you mean that")
	}
	_, err := s.api.Assets(ctx) // a wrong --key fails here
	return mode + " mode", err
}

func (s *smoke) refused(ctx context.Context) (string, error) {
	wrong := &remit.Client{URL: s.api.URL, Key: "remit_test_wrong"}
	answer, err := wrong.Call(ctx, "GET", "/transactions", "")
	if err == nil && (answer.Status != 401 || string(answer.Body) != `{"detail":"Invalid API Key"}`) {
		err = fmt.Errorf("a wrong key got %d %.1000s, not 401; check the URL", answer.Status, answer.Body)
	}
	return "401", err
}

// register makes a webhook: the --webhook one or, where the stack is on this machine, a receiver of our own.
func (s *smoke) register(ctx context.Context) (string, error) {
	at, listener := s.Webhook, net.Listener(nil)
	if at == "" {
		u, err := url.Parse(s.URL)
		if err != nil || u.Hostname() != "localhost" && !net.ParseIP(u.Hostname()).IsLoopback() {
			return "left out: pass --webhook URL to include it", nil
		}
		if listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return "", err
		}
		at = "http://" + listener.Addr().String()
	}
	var err error
	s.webhook, err = s.api.CreateWebhook(ctx, remit.CreateWebhookRequest{URL: at, Description: "remit smoke"})
	if err != nil || listener == nil {
		return at, err
	}
	s.arrived = make(chan []byte, 64)
	r := &receiver{out: io.Discard, secret: s.webhook.Secret, took: func(b []byte) { s.arrived <- b }}
	server := &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() { _ = server.Serve(listener) }()
	return at, nil
}

func (s *smoke) pay(ctx context.Context) (string, error) {
	p, err := s.api.Attempt(ctx, s.unique, s.order)
	s.hash = p.TxHash
	return s.hash, err
}

func (s *smoke) again(ctx context.Context) (string, error) {
	p, err := s.api.Attempt(ctx, s.unique, s.order)
	if err == nil && p.TxHash != s.hash {
		err = fmt.Errorf("the hash was %s and is %s; report this, with the log of send-payment", s.hash, p.TxHash)
	}
	return "the same hash", err
}

func (s *smoke) confirmed(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Limit)
	defer cancel()
	p, err := (&remit.Client{URL: s.api.URL, Key: s.api.Key}).Wait(ctx, s.hash) // which repeats a lost request
	switch p.Status {
	case remit.PaymentStatusConfirmed:
		return fmt.Sprintf("in block %d", *p.BlockNumber), nil
	case remit.PaymentStatusFailed:
		return "", fmt.Errorf("the payment failed: %s: %s; run remit doctor", p.Failure.Code, p.Failure.Message)
	case remit.PaymentStatusPending:
		return "", fmt.Errorf("still pending after %s; wait longer with --limit, or run remit doctor", s.Limit)
	}
	return "", err
}

func (s *smoke) delivered(ctx context.Context) (string, error) {
	if s.webhook.ID == "" {
		return "left out", nil
	}
	for late := time.After(time.Minute); ; {
		select {
		case body := <-s.arrived: // or, with --key, that of another payment
			if bytes.Contains(body, []byte(s.hash)) {
				return "signature verified", nil
			}
		case <-time.After(time.Second):
			for d, err := range s.api.ListDeliveries(ctx, s.webhook.ID, nil) {
				if s.arrived == nil && (err != nil || d.Status == "delivered") {
					return "the endpoint took it", err
				}
			}
		case <-late:
			return "", errors.New("not delivered in a minute; read the cause with GET /webhooks/…/deliveries")
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return ctx.Err()
}
