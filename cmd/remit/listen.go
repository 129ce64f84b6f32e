package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"
)

// listenCommand is `remit listen`.
type listenCommand struct {
	URL    string   `arg:"" optional:"" env:"REMIT_URL" default:"http://127.0.0.1:8080" help:"Where the API is. Only a stack on this machine can reach this one."`
	Listen string   `default:"127.0.0.1:0" env:"REMIT_LISTEN_WEBHOOKS" help:"Where webhooks are received; port 0 takes a free one."`
	Key    string   `env:"REMIT_API_KEY" help:"Key of the merchant whose webhooks to receive. Without it a merchant is created."`
	Secret []string `env:"REMIT_WEBHOOK_SECRET" placeholder:"whsec_…" help:"Register nothing, and verify what arrives with this secret; may be repeated."`
	Events []string `help:"Types of event to receive; none means all."`
	Answer int      `default:"204" help:"Status to answer with. Anything but 2xx makes Remit try again."`
	Body   bool     `help:"Print the whole body of every event."`
}

// Run receives webhooks, verifies and prints them until it is told to stop. The
// endpoint that it registered is deleted then.
func (c *listenCommand) Run(ctx context.Context) error {
	if c.Answer < 200 || c.Answer > 599 {
		return fmt.Errorf("--answer %d: must be from 200 to 599", c.Answer)
	}
	c.URL = strings.TrimSuffix(c.URL, "/")
	listener, err := net.Listen("tcp", c.Listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s is taken: choose another place with --listen", c.Listen)
	}
	if err != nil {
		return fmt.Errorf("listening on %s: %w", c.Listen, err)
	}
	r := &receiver{out: os.Stdout, answer: c.Answer, whole: c.Body, now: time.Now}
	server := &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	at := "http://" + listener.Addr().String()
	leave, err := c.register(ctx, at, r)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	fmt.Fprintf(r.out, "Listening at %s\n\n", at)
	select {
	case <-ctx.Done():
	case err = <-served:
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, leave(stopping), server.Shutdown(stopping))
}

// register makes an endpoint for url, unless secrets were given, and returns how
// to delete it.
func (c *listenCommand) register(ctx context.Context, url string, r *receiver) (leave func(context.Context) error, err error) {
	leave = func(context.Context) error { return nil }
	if len(c.Secret) > 0 {
		return leave, r.trust(c.Secret...)
	}
	if c.Key == "" {
		if c.Key, err = createMerchant(ctx, c.URL, "remit listen"); err != nil {
			return nil, err
		}
		invite(r.out, c.URL, c.Key, c.failing(ctx))
	}
	registration, err := json.Marshal(map[string]any{"url": url, "event_types": append([]string{}, c.Events...), "description": "remit listen"})
	if err != nil {
		return nil, err
	}
	body, err := callAPI(ctx, c.URL, c.Key, "POST", "/webhooks", string(registration), 201)
	if err != nil {
		return nil, fmt.Errorf("registering %s: %w", url, err)
	}
	id, _ := body["id"].(string)
	secret, _ := body["secret"].(string)
	leave = func(ctx context.Context) error {
		_, err := callAPI(ctx, c.URL, c.Key, "POST", "/webhooks/"+id+"/delete", "{}", 200)
		if err != nil {
			return fmt.Errorf("deleting the webhook: %w", err)
		}
		return nil
	}
	return leave, r.trust(secret)
}

// failing returns a recipient whose payments fail on the embedded chain, "" if
// the stack has none.
func (c *listenCommand) failing(ctx context.Context) string {
	facts, err := callAPI(ctx, c.URL, c.Key, "GET", "/sandbox", "", 200)
	if err != nil {
		return ""
	}
	recipients, _ := facts["recipients"].([]any)
	for _, r := range recipients {
		if m, ok := r.(map[string]any); ok && m["behaviour"] == "revert" {
			address, _ := m["address"].(string)
			return address
		}
	}
	return ""
}

// invite prints lines that make something arrive.
func invite(out io.Writer, url, key, failing string) {
	pay := func(what, to string) {
		fmt.Fprintf(out, "%s\n\n  curl -s %s/send-payment -H 'x-api-key: %s' -H 'Content-Type: application/json' -d '{\"to\":\"%s\",\"amount\":1000000}'\n\n",
			what, url, key, to)
	}
	pay("Paste this in another terminal to be told of a payment:", sample)
	if failing != "" {
		pay("And this to be told of one that fails:", failing)
	}
}
