package main

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
	"os"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// smokeCommand is `remit smoke`.
type smokeCommand struct {
	URL     string        `arg:"" optional:"" env:"REMIT_URL" default:"http://127.0.0.1:8080" help:"Where the API is."`
	Key     string        `env:"REMIT_API_KEY" help:"API key to use. Without it a key is created, where the stack lets anybody."`
	To      string        `default:"0x2222222222222222222222222222222222222222" help:"Whom to pay. What is paid there is gone."`
	Amount  string        `default:"10000" help:"How much, in the token's smallest unit."`
	Webhook string        `placeholder:"URL" help:"An endpoint of yours to announce it to. A stack on this machine needs none."`
	Limit   time.Duration `default:"5m" help:"How long the payment may take to be final."`
	Live    bool          `help:"Go on even if the stack moves real money."`
	JSON    bool          `name:"json" help:"Answer with the steps in JSON as well."`
}

// A stepRow is one step of it as --json shows it.
type stepRow struct {
	Step    string  `json:"step"`
	OK      bool    `json:"ok"`
	Seconds float64 `json:"seconds"`
	Said    string  `json:"said"`
}

// A smoke is one run of it.
type smoke struct {
	*smokeCommand
	out      io.Writer
	endpoint string // id of the webhook that was registered
	secret   string
	arrived  chan arrival // what a receiver of our own got; nil without one
	hash     string

	idempotency string // the payment's key
}

// An arrival is one webhook as it came.
type arrival struct {
	header http.Header
	body   []byte
}

// errStep reports a step that did not go as it should.
var errStep = errors.New("smoke test failed")

// Run goes from key to webhook, step by step.
func (c *smokeCommand) Run(ctx context.Context) error {
	s := &smoke{smokeCommand: c, out: os.Stderr}
	c.URL = strings.TrimSuffix(c.URL, "/")
	ctx, cancel := context.WithTimeout(ctx, c.Limit+time.Minute)
	defer cancel()
	var rows []stepRow
	defer func() {
		if c.JSON {
			_ = writeJSON(os.Stdout, rows) // the exit code says how it went
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
		said, err := step.do(ctx)
		rows = append(rows, stepRow{step.what, err == nil, time.Since(began).Seconds(), said})
		if err != nil {
			fmt.Fprintf(s.out, "FAILED\n")
			return fmt.Errorf("%w: %s: %w", errStep, step.what, err)
		}
		fmt.Fprintf(s.out, "ok  %6.1f s  %s\n", time.Since(began).Seconds(), said)
	}
	return nil
}

func (s *smoke) createKey(ctx context.Context) (string, error) {
	if s.Key == "" {
		var err error
		if s.Key, err = createMerchant(ctx, s.URL, "remit smoke"); err != nil {
			return "", err
		}
	}
	live := strings.HasPrefix(s.Key, "remit_live_")
	if live && !s.Live {
		return "", errors.New("this key moves real money: say --live if that is meant")
	}
	prefix, _, _ := strings.Cut(strings.TrimPrefix(s.Key, "remit_"), "_")
	return prefix + " mode", nil
}

func (s *smoke) refused(ctx context.Context) (string, error) {
	r, err := http.NewRequestWithContext(ctx, "GET", s.URL+"/transactions", nil)
	if err != nil {
		return "", err
	}
	r.Header.Set("x-api-key", "remit_test_wrong")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
	if err != nil {
		return "", err
	}
	if answer.StatusCode != 401 || string(body) != `{"detail":"Invalid API Key"}` {
		return "", fmt.Errorf("answered %d %s", answer.StatusCode, body)
	}
	return "401", nil
}

// register makes a webhook: the one that --webhook names or, where the stack
// is on this machine, a receiver of our own.
func (s *smoke) register(ctx context.Context) (string, error) {
	at := s.Webhook
	if at == "" && onThisMachine(s.URL) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return "", err
		}
		s.arrived = make(chan arrival, 64)
		server := &http.Server{Handler: http.HandlerFunc(s.receive), ReadHeaderTimeout: 10 * time.Second}
		go func() { _ = server.Serve(listener) }()
		context.AfterFunc(ctx, func() { _ = server.Close() })
		at = "http://" + listener.Addr().String()
	}
	if at == "" {
		return "left out: pass --webhook URL to include it", nil
	}
	body, err := s.call(ctx, "POST", "/webhooks", fmt.Sprintf(`{"url":%q,"description":"remit smoke"}`, at), 201)
	if err != nil {
		return "", err
	}
	s.endpoint, _ = body["id"].(string)
	s.secret, _ = body["secret"].(string)
	return at, nil
}

// onThisMachine says whether a stack at that URL can reach a receiver here.
func onThisMachine(at string) bool {
	u, err := url.Parse(at)
	return err == nil && (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback())
}

// receive takes a webhook. One that is cut off comes again.
func (s *smoke) receive(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, bodyLimit))
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	select {
	case s.arrived <- arrival{r.Header, body}:
		w.WriteHeader(http.StatusNoContent)
	case <-r.Context().Done():
	}
}

// verify waits for the payment's webhook and verifies it with the official
// library. With --key, those of the merchant's other payments come here too.
func (s *smoke) verify(ctx context.Context) error {
	hook, err := standardwebhooks.NewWebhook(s.secret)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		select {
		case a := <-s.arrived:
			if bytes.Contains(a.body, []byte(s.hash)) {
				return hook.Verify(a.body, a.header)
			}
		case <-ctx.Done():
			return fmt.Errorf("it did not arrive in 30 s: %w", ctx.Err())
		}
	}
}

func (s *smoke) payment(ctx context.Context, key string, want int) (map[string]any, error) {
	return s.call(ctx, "POST", "/send-payment", fmt.Sprintf(`{"to":%q,"amount":%s,"reference":"remit smoke"}`, s.To, s.Amount), want, "Idempotency-Key", key)
}

func (s *smoke) pay(ctx context.Context) (string, error) {
	s.idempotency = "smoke-" + rand.Text()
	body, err := s.payment(ctx, s.idempotency, 201)
	if err != nil {
		return "", err
	}
	s.hash, _ = body["tx_hash"].(string)
	return s.hash, nil
}

func (s *smoke) again(ctx context.Context) (string, error) {
	body, err := s.payment(ctx, s.idempotency, 201)
	if err == nil && body["tx_hash"] != s.hash {
		err = fmt.Errorf("the hash was %s and is %v", s.hash, body["tx_hash"])
	}
	return "the same hash", err
}

func (s *smoke) confirmed(ctx context.Context) (string, error) {
	deadline := time.Now().Add(s.Limit)
	for time.Now().Before(deadline) {
		body, err := s.call(ctx, "GET", "/transaction/"+s.hash, "", 200)
		if err != nil {
			return "", err
		}
		switch body["status"] {
		case "confirmed":
			return fmt.Sprintf("in block %v", body["block_number"]), nil
		case "failed":
			return "", fmt.Errorf("the payment failed: %v", body["failure"])
		}
		fmt.Fprint(s.out, ".")
		wait(ctx, time.Second)
	}
	return "", fmt.Errorf("still pending after %s", s.Limit)
}

func (s *smoke) delivered(ctx context.Context) (string, error) {
	if s.endpoint == "" {
		return "left out", nil
	}
	defer func() {
		_, _ = s.call(context.WithoutCancel(ctx), "POST", "/webhooks/"+s.endpoint+"/delete", "{}", 200)
	}()
	if s.arrived != nil {
		return "signature verified", s.verify(ctx)
	}
	for range 60 {
		body, err := s.call(ctx, "GET", "/webhooks/"+s.endpoint+"/deliveries", "", 200)
		if err != nil {
			return "", err
		}
		list, _ := body["data"].([]any)
		for _, d := range list {
			if delivery, _ := d.(map[string]any); delivery["status"] == "delivered" {
				return "the endpoint took it", nil
			}
		}
		wait(ctx, time.Second)
	}
	return "", errors.New("not delivered in a minute: GET /webhooks/…/deliveries says why")
}

// call is callAPI with the run's key.
func (s *smoke) call(ctx context.Context, method, path, body string, want int, header ...string) (map[string]any, error) {
	return callAPI(ctx, s.URL, s.Key, method, path, body, want, header...)
}
