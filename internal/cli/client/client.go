// Package client is a merchant's view of Remit's HTTP API, for the command
// line, for benchmarks and for tests. It retries nothing, and knows only what
// openapi.yaml promises: none of the server's own types.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// answerLimit bounds an answer's body, in bytes. The longest that the API gives
// is a page of 100 payments or deliveries.
const answerLimit = 16 << 20

// A Client is one merchant, or a caller without a key. Many goroutines may use
// it at once.
type Client struct {
	URL  string       // where the API is, without a slash at its end
	Key  string       // API key; "" sends none
	HTTP *http.Client // nil for http.DefaultClient
}

// An Answer is a whole HTTP answer of any status.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// A Problem is an answer other than 2xx. Every method of Client but Call returns
// one, as a *Problem, for such an answer.
type Problem struct {
	Answer
	Method, Path string
	Code         string // the stable code; "" in a 401, in a 422 and for unknown routes
}

// Error has the request and the answer. No key is part of either.
func (p *Problem) Error() string {
	return fmt.Sprintf("%s %s answered %d %s", p.Method, p.Path, p.Status, bytes.TrimSpace(p.Body))
}

// Detail returns why, in the API's words: its detail and code, or the whole body.
func (p *Problem) Detail() string {
	var problem struct {
		Detail any `json:"detail"`
	}
	if err := json.Unmarshal(p.Body, &problem); err != nil || problem.Detail == nil {
		return string(bytes.TrimSpace(p.Body))
	}
	text, plain := problem.Detail.(string)
	if !plain {
		b, _ := json.Marshal(problem.Detail) // it was JSON
		text = string(b)
	}
	return strings.TrimSpace(p.Code + " " + text)
}

// Call makes one request; an empty body sends none. header holds names and
// values in turn. An error means that no whole answer came: the request may have
// been carried out.
func (c *Client) Call(ctx context.Context, method, path, body string, header ...string) (Answer, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.URL+path, strings.NewReader(body))
	if err != nil {
		return Answer{}, fmt.Errorf("making a request: %w", err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.Key != "" {
		r.Header.Set("x-api-key", c.Key)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	over := c.HTTP
	if over == nil {
		over = http.DefaultClient
	}
	got, err := over.Do(r)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = got.Body.Close() }()
	a := Answer{Status: got.StatusCode, Header: got.Header}
	if a.Body, err = io.ReadAll(http.MaxBytesReader(nil, got.Body, answerLimit)); err != nil {
		return a, fmt.Errorf("reading the answer to %s %s: %w", method, path, err)
	}
	return a, nil
}

// ask sends v, nil for nothing, as JSON and decodes the answer with a 2xx.
func ask[T any](ctx context.Context, c *Client, method, path string, v any, header ...string) (value T, err error) {
	var body []byte
	if v != nil {
		if body, err = json.Marshal(v); err != nil {
			return value, fmt.Errorf("writing a request: %w", err)
		}
	}
	a, err := c.Call(ctx, method, path, string(body), header...)
	if err != nil {
		return value, err
	}
	if a.Status < 200 || a.Status > 299 {
		var problem struct {
			Code string `json:"code"`
		}
		_ = json.Unmarshal(a.Body, &problem) // a body without a code leaves it empty
		return value, &Problem{a, method, path, problem.Code}
	}
	if err = json.Unmarshal(a.Body, &value); err != nil {
		err = fmt.Errorf("reading the answer to %s %s: %w", method, path, err)
	}
	return value, err
}

// CreateKey makes a merchant of that name and returns its first API key.
func (c *Client) CreateKey(ctx context.Context, merchant string) (string, error) {
	made, err := ask[struct {
		Key string `json:"api_key"`
	}](ctx, c, "POST", "/create-api-key", map[string]string{"merchant_name": merchant})
	return made.Key, err
}

// An Order asks for one payment, alone or as an entry of a batch.
type Order struct {
	To        string      `json:"to"`
	Amount    json.Number `json:"amount"` // in the token's smallest unit; it may exceed 64 bits
	Reference string      `json:"reference,omitempty"`

	Metadata map[string]string `json:"metadata,omitempty"` // not of an entry
}

// A Payment is a merchant's payment as the API returns it, in an answer or in an
// event.
type Payment struct {
	Hash      string      `json:"tx_hash"` // the payment's identity for ever
	Status    string      `json:"status"`  // pending, confirmed or failed
	To        string      `json:"to"`      // "" of a batch
	Amount    json.Number `json:"amount"`
	Token     string      `json:"token"` // its symbol
	Reference string      `json:"reference"`
	OnChain   string      `json:"onchain_tx_hash"` // the hash that was mined; "" until it is final
	Block     uint64      `json:"block_number"`    // 0 until it is final
	Failure   struct {    // zero unless the payment failed
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"failure"`
	Progress *Progress         `json:"progress"` // nil once final
	Metadata map[string]string `json:"metadata"`
	Entries  []Order           `json:"payments"` // of a batch
}

// A Progress is how far a pending payment has come.
type Progress struct {
	Stage string `json:"stage"`
	Block uint64 `json:"block_number"` // 0 unless it is mined
}

// String returns p in words, "" of none.
func (p *Progress) String() string {
	switch {
	case p == nil:
		return ""
	case p.Block > 0:
		return fmt.Sprintf("%s in block %d", p.Stage, p.Block)
	default:
		return strings.ReplaceAll(p.Stage, "_", " ")
	}
}

// Send asks once for a payment. An empty idempotency key is not sent, and then a
// second request would make a second payment.
func (c *Client) Send(ctx context.Context, order Order, idempotency string) (Payment, error) {
	return ask[Payment](ctx, c, "POST", "/send-payment", order, under(idempotency)...)
}

// A Batch asks for 1 to 100 payments at once: all are made, or none.
type Batch struct {
	Payments  []Order `json:"payments"`
	Reference string  `json:"reference,omitempty"`
}

// SendBatch asks once for a batch, as Send does for one payment.
func (c *Client) SendBatch(ctx context.Context, batch Batch, idempotency string) (Payment, error) {
	return ask[Payment](ctx, c, "POST", "/send-payments", batch, under(idempotency)...)
}

func under(idempotency string) []string {
	if idempotency == "" {
		return nil
	}
	return []string{"Idempotency-Key", idempotency}
}

// Transaction returns the payment that a transaction with that hash makes.
func (c *Client) Transaction(ctx context.Context, hash string) (Payment, error) {
	return ask[Payment](ctx, c, "GET", "/transaction/"+url.PathEscape(hash), nil)
}

// Payments returns a page of the merchant's payments, newest first, with those
// filters: limit, cursor, idempotency_key and the others of openapi.yaml. next is
// the cursor of the page that follows, "" on the last one.
func (c *Client) Payments(ctx context.Context, filters url.Values) (page []Payment, next string, err error) {
	list, err := ask[struct {
		Data []Payment `json:"data"`
		Next string    `json:"next_cursor"`
	}](ctx, c, "GET", "/transactions?"+filters.Encode(), nil)
	return list.Data, list.Next, err
}

// A Recipient is an entry of the merchant's address book.
type Recipient struct {
	Address  string   `json:"address"`
	Warnings []string `json:"warnings"` // only in the answer that entered it
}

// Recipients returns the newest entries of the merchant's address book, at most 100.
func (c *Client) Recipients(ctx context.Context, most int) ([]Recipient, error) {
	list, err := ask[struct {
		Data []Recipient `json:"data"`
	}](ctx, c, "GET", fmt.Sprint("/recipients?limit=", most), nil)
	return list.Data, err
}

// Balance returns the balance of an address in the token's smallest unit.
func (c *Client) Balance(ctx context.Context, address string) (json.Number, error) {
	b, err := ask[struct {
		Balance json.Number `json:"balance"`
	}](ctx, c, "GET", "/balance/"+url.PathEscape(address), nil)
	return b.Balance, err
}

// A Token is the token that a stack pays in.
type Token struct {
	Symbol   string `json:"token"`
	Decimals int    `json:"decimals"`
}

// Token returns the token that the stack pays in, as the balance of an address that
// nobody has the key of names it.
func (c *Client) Token(ctx context.Context) (Token, error) {
	return ask[Token](ctx, c, "GET", "/balance/0x000000000000000000000000000000000000dEaD", nil)
}

// A Webhook is a registered endpoint.
type Webhook struct {
	ID     string `json:"id"`
	Secret string `json:"secret"` // only in the answer that created it
}

// CreateWebhook registers an endpoint for all events.
func (c *Client) CreateWebhook(ctx context.Context, endpoint, description string) (Webhook, error) {
	return ask[Webhook](ctx, c, "POST", "/webhooks", map[string]string{"url": endpoint, "description": description})
}

// DeleteWebhook deletes an endpoint; its pending deliveries are cancelled.
func (c *Client) DeleteWebhook(ctx context.Context, id string) error {
	_, err := ask[struct{}](ctx, c, "POST", "/webhooks/"+url.PathEscape(id)+"/delete", struct{}{})
	return err
}

// A Delivery is one event on its way to one endpoint.
type Delivery struct {
	Status string `json:"status"` // pending, delivered, exhausted or cancelled
}

// Deliveries returns the newest deliveries to an endpoint.
func (c *Client) Deliveries(ctx context.Context, webhook string) ([]Delivery, error) {
	list, err := ask[struct {
		Data []Delivery `json:"data"`
	}](ctx, c, "GET", "/webhooks/"+url.PathEscape(webhook)+"/deliveries", nil)
	return list.Data, err
}
