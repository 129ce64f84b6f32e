package merchant

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	remit "github.com/remit-payouts/remit/sdk/go"
)

// A receiver prints each webhook, and whether its signature is valid.
type receiver struct {
	out    io.Writer
	answer int    // status for a genuine webhook
	to     string // where genuine webhooks go on to, which then answers; "" for nowhere
	whole  bool   // print bodies
	now    func() time.Time
	took   func(body []byte) // called with each genuine webhook; nil for none

	secret string // of the endpoint

	mu   sync.Mutex
	seen []string // ids of the newest events, to find duplicates
}

const (
	bodyLimit = 1 << 20 // bytes of an event
	seenLimit = 10_000  // events
)

// ServeHTTP takes one webhook. It answers 401 to an invalid signature.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, bodyLimit))
	if err == nil {
		_, err = remit.VerifyWebhook(r.secret, body, req.Header)
	}
	genuine := err == nil
	status := r.answer
	if !genuine {
		status = http.StatusUnauthorized
	}
	if genuine && r.took != nil {
		r.took(body)
	}
	note := ""
	if genuine && r.to != "" {
		if status, err = r.forward(req, body); err != nil {
			note = " (" + Plain(err) + ")"
		}
	}
	r.print(req.Header.Get("webhook-id"), body, genuine, fmt.Sprint("→ ", status, note))
	w.WriteHeader(status)
}

// forward sends a webhook on with its headers, and returns the status of the answer: 502 if there is none, as after it
// Remit delivers again.
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

// print writes a line for the event, and its body with --body.
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
		} else {
			r.seen = append(r.seen, id)
			r.seen = r.seen[max(0, len(r.seen)-seenLimit):]
		}
	}
	amount, _ := remit.FormatUnits(ev.Data.Amount, ev.Data.Decimals) // "" of an event that is no payment's
	words := []string{
		verdict, again, strings.TrimSpace(amount + " " + ev.Data.Token), failure,
		ev.Data.Reference, ev.Data.TxHash, id, answer,
	}
	words = slices.DeleteFunc(words, func(word string) bool { return word == "" })
	_, _ = fmt.Fprintf(r.out, "%s  %-17s  %s\n", r.now().Format(time.TimeOnly), printable(ev.Type), printable(strings.Join(words, "  ")))
	if r.whole {
		var pretty bytes.Buffer
		if json.Indent(&pretty, body, "", "  ") != nil {
			pretty.Reset()
			_, _ = fmt.Fprintf(&pretty, "%q", body)
		}
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
