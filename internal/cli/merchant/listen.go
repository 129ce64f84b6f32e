package merchant

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	remit "github.com/remit-payouts/remit/sdk/go"
)

// Listen is `remit listen`.
type Listen struct {
	URL    string `arg:"" optional:"" env:"REMIT_URL" default:"http://127.0.0.1:8080" help:"A stack on this machine."`
	Listen string `default:"127.0.0.1:0" env:"REMIT_LISTEN_WEBHOOKS" help:"Address to receive at; port 0 is any."`
	Key    string `env:"REMIT_API_KEY" help:"Key of the merchant; without it, the command makes a merchant."`
	To     string `name:"forward" placeholder:"URL" help:"Send genuine webhooks on, and answer as your server does."`
	Body   bool   `help:"Print the whole body of every event."`
}

// Run verifies and prints webhooks to out until ctx ends. It then deletes the endpoint that it registered.
func (c *Listen) Run(ctx context.Context, out io.Writer) error {
	if c.To != "" && !usable(c.To) {
		return fmt.Errorf("--forward %s: use a URL such as http://localhost:3000/hook", c.To)
	}
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listening on %s: %w; choose another address with --listen", c.Listen, err)
	}
	r := &receiver{out: out, to: c.To, whole: c.Body}
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
		fmt.Fprintf(r.out, "Forwarding to %s; to verify there:\n\n  export WEBHOOK_SECRET='%s'\n", c.To, r.secret)
	}
	fmt.Fprintln(r.out)
	for err == nil && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case err = <-served:
		case <-time.After(2 * time.Second):
			asked, cancel := context.WithTimeout(ctx, 5*time.Second)
			a, _ := api.Call(asked, http.MethodGet, "/webhooks/"+id+"/deliveries?limit=1", "") // or no answer
			cancel()
			if a.Status == http.StatusUnauthorized || a.Status == http.StatusNotFound {
				err = errors.New("the webhook or the key is gone (deleted, revoked, or the stack was restarted); run this again")
			}
		}
	}
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, _ = api.DeleteWebhook(stopping, id) // it may be gone, as the stack may
	return errors.Join(err, server.Shutdown(stopping))
}

func (c *Listen) register(ctx context.Context, api *remit.Client, at string, r *receiver) (id string, err error) {
	if err := join(ctx, api, "remit listen"); err != nil {
		return "", err
	}
	w, err := api.CreateWebhook(ctx, remit.CreateWebhookRequest{URL: at, Description: "remit listen"})
	if err != nil {
		return "", fmt.Errorf("registering %s: %w", at, err)
	}
	r.secret = w.Secret
	curl := fmt.Sprintf(`%s/webhooks/%s/test -X POST -H "x-api-key: ${REMIT_API_KEY:?is not set here}"`, api.URL, w.ID)
	if c.Key == "" {
		curl = fmt.Sprintf("%s/send-payment -H 'x-api-key: %s' \\\n"+
			`    -H 'Content-Type: application/json' -d '{"to":"0x%s","amount":1000000}'`,
			api.URL, api.Key, strings.Repeat("2", 40))
	}
	fmt.Fprintf(r.out, "Paste this in another terminal to receive an event:\n\n  curl -s %s\n\n", curl)
	return w.ID, nil
}

// A receiver prints each webhook, and whether its signature is valid.
type receiver struct {
	out   io.Writer
	to    string            // where genuine webhooks go on to, which then answers; "" for nowhere
	whole bool              // print bodies
	took  func(body []byte) // called with each genuine webhook; nil for none

	secret string // of the endpoint

	mu   sync.Mutex
	seen []string // ids of the last 10,000 deliveries, to find duplicates
}

// ServeHTTP takes one webhook. It answers 401 to an invalid signature.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, 1<<20))
	if err == nil {
		_, err = remit.VerifyWebhook(r.secret, body, req.Header)
	}
	genuine, status, note := err == nil, http.StatusNoContent, ""
	if !genuine {
		status = http.StatusUnauthorized
	}
	if genuine && r.took != nil {
		r.took(body)
	}
	if genuine && r.to != "" {
		if status, err = r.forward(req, body); err != nil {
			note = " (" + Plain(err) + ")"
		}
	}
	r.print(req.Header.Get("webhook-id"), body, genuine, fmt.Sprint("→ ", status, note))
	w.WriteHeader(status)
}

// forward sends a webhook on with its headers. It returns the answer's status, or 502 if there is none: Remit retries.
func (r *receiver) forward(req *http.Request, body []byte) (status int, err error) {
	on, err := http.NewRequestWithContext(req.Context(), http.MethodPost, r.to, bytes.NewReader(body))
	if err != nil {
		return http.StatusBadGateway, err
	}
	on.Header = req.Header.Clone()
	answer, err := http.DefaultTransport.RoundTrip(on) // a redirect is the answer, as for Remit
	if err != nil {
		return http.StatusBadGateway, &url.Error{Op: "Post", URL: r.to, Err: err}
	}
	return answer.StatusCode, answer.Body.Close()
}

func (r *receiver) print(id string, body []byte, genuine bool, answer string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ev struct {
		Type string        `json:"type"`
		Data remit.Payment `json:"data"`
	}
	_ = json.Unmarshal(body, &ev) // a body of another form is printed as far as it could be read
	verdict, again, failure := "NOT GENUINE", "", ""
	if ev.Data.Failure != nil {
		failure = string(ev.Data.Failure.Code)
	}
	if genuine {
		verdict = "verified"
		if slices.Contains(r.seen, id) {
			again = "seen before"
		}
		r.seen = append(r.seen, id)[max(0, len(r.seen)-9_999):]
	}
	amount, _ := remit.FormatUnits(ev.Data.Amount, ev.Data.Decimals) // "" of an event that is no payment's
	words := slices.DeleteFunc([]string{verdict, again, strings.TrimSpace(amount + " " + ev.Data.Token), failure,
		ev.Data.Reference, ev.Data.TxHash, id, answer}, func(word string) bool { return word == "" })
	line := fmt.Sprintf("%s  %-17s  %s", time.Now().Format(time.TimeOnly), ev.Type, strings.Join(words, "  "))
	_, _ = fmt.Fprintln(r.out, printable(line))
	if r.whole {
		pretty := bytes.Buffer{}
		_ = json.Indent(&pretty, body, "", "  ")                         // what is no JSON is left out
		for line := range strings.SplitSeq(pretty.String()+"\n", "\n") { // JSON leaves some of them as they are
			_, _ = fmt.Fprintln(r.out, printable(line))
		}
	}
}

// printable escapes control characters, since any process may send to this port.
func printable(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c >= 0x7f && c < 0xa0 {
			return '?'
		}
		return c
	}, s)
}
