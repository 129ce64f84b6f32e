package merchant

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	remit "github.com/remit-payouts/remit/sdk/go"
)

// Listen is `remit listen`.
type Listen struct {
	URL    string `arg:"" optional:"" env:"REMIT_URL" default:"http://127.0.0.1:8080" help:"A stack on this machine."`
	Listen string `default:"127.0.0.1:0" env:"REMIT_LISTEN_WEBHOOKS" help:"Address to receive at; port 0 is any."`
	Key    string `env:"REMIT_API_KEY" help:"Key of the merchant; without it, the command makes a merchant."`
	To     string `name:"forward" placeholder:"URL" help:"Send genuine webhooks on, and answer as your server does."`
	Answer int    `default:"204" help:"Status to answer with. Anything but 2xx makes Remit retry."`
	Body   bool   `help:"Print the whole body of every event."`
}

// Run receives webhooks, verifies them and prints them to out until ctx ends. It
// then deletes the endpoint that it registered.
func (c *Listen) Run(ctx context.Context, out io.Writer) error {
	if c.Answer < 200 || c.Answer > 599 {
		return fmt.Errorf("--answer %d: use a status from 200 to 599", c.Answer)
	}
	if c.To != "" && !usable(c.To) {
		return fmt.Errorf("--forward %s: use a URL such as http://localhost:3000/hook", c.To)
	}
	listener, err := net.Listen("tcp", c.Listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s is taken; choose another address with --listen", c.Listen)
	}
	if err != nil {
		return fmt.Errorf("listening on %s: %w", c.Listen, err)
	}
	r := &receiver{out: out, to: c.To, answer: c.Answer, whole: c.Body, now: time.Now}
	server := &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	at := "http://" + listener.Addr().String()
	api := connect(c.URL, c.Key)
	id, err := c.register(ctx, api, at, r)
	if err != nil {
		return errors.Join(explained(err, api), listener.Close())
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	fmt.Fprintf(r.out, "Listening at %s\n", at)
	if c.To != "" {
		fmt.Fprintf(r.out, "Forwarding to %s\nVerify there with the secret %s\n", c.To, r.secret)
	}
	fmt.Fprintln(r.out)
	select {
	case <-ctx.Done():
	case err = <-served:
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, undeleted := api.DeleteWebhook(stopping, id)
	return errors.Join(err, undeleted, server.Shutdown(stopping))
}

// register makes an endpoint for url and returns its id.
func (c *Listen) register(ctx context.Context, api *remit.Client, at string, r *receiver) (id string, err error) {
	if err := join(ctx, api, "remit listen"); err != nil {
		return "", err
	}
	if c.Key == "" {
		fmt.Fprintf(r.out, "Paste this in another terminal to receive an event:\n\n"+
			"  curl -s %s/send-payment -H 'x-api-key: %s' \\\n"+
			`    -H 'Content-Type: application/json' -d '{"to":"0x%s","amount":1000000}'`+"\n\n",
			api.URL, api.Key, strings.Repeat("2", 40))
	}
	w, err := api.CreateWebhook(ctx, remit.CreateWebhookRequest{URL: at, Description: "remit listen"})
	if err != nil {
		return "", fmt.Errorf("registering %s: %w", at, err)
	}
	r.secret = w.Secret
	return w.ID, nil
}
