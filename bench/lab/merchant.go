package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// Payee is whom merchants of benchmarks pay: an ordinary address whose key is
// known to nobody.
const Payee = "0x2222222222222222222222222222222222222222"

// A Merchant talks to a running stack. It is safe for many goroutines once it
// has joined.
type Merchant struct {
	URL    string
	Key    string // from Join
	Client *http.Client
}

// NewMerchant returns a merchant of the stack at url with connections for many
// requests at once.
func NewMerchant(url string) *Merchant {
	return &Merchant{URL: url, Client: &http.Client{
		Timeout: 60 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 256, MaxIdleConns: 512},
	}}
}

// An Answer is what a stack said to a request.
type Answer struct {
	Status   int
	Replayed bool
	Body     struct {
		Key     string `json:"api_key"`
		Hash    string `json:"tx_hash"`
		Status  string `json:"status"`
		Code    string `json:"code"`
		Version int64  `json:"version"`
	}
}

// Join creates an API key for a new merchant and keeps it.
func (m *Merchant) Join(ctx context.Context) error {
	a, err := m.Call(ctx, http.MethodPost, "/create-api-key", `{"merchant_name":"Bench"}`, "")
	if err != nil {
		return fmt.Errorf("creating a key: %w", err)
	}
	if a.Status != http.StatusCreated {
		return fmt.Errorf("creating a key: status %d", a.Status)
	}
	m.Key = a.Body.Key
	return nil
}

// Pay asks once for a payment of amount, in the token's smallest unit, to
// Payee under an Idempotency-Key.
func (m *Merchant) Pay(ctx context.Context, key string, amount uint64) (Answer, error) {
	return m.Call(ctx, http.MethodPost, "/send-payment", fmt.Sprintf(`{"to":%q,"amount":%d}`, Payee, amount), key)
}

// Transaction asks for the payment of that hash.
func (m *Merchant) Transaction(ctx context.Context, hash string) (Answer, error) {
	return m.Call(ctx, http.MethodGet, "/transaction/"+hash, "", "")
}

// Call makes one request. An error means that no whole answer came.
func (m *Merchant) Call(ctx context.Context, method, path, body, idempotency string) (Answer, error) {
	r, err := http.NewRequestWithContext(ctx, method, m.URL+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return Answer{}, err
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if m.Key != "" {
		r.Header.Set("X-Api-Key", m.Key)
	}
	if idempotency != "" {
		r.Header.Set("Idempotency-Key", idempotency)
	}
	response, err := m.Client.Do(r)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	a := Answer{Status: response.StatusCode, Replayed: response.Header.Get("Idempotent-Replayed") == "true"}
	if err := json.NewDecoder(response.Body).Decode(&a.Body); err != nil {
		return a, fmt.Errorf("reading the answer: %w", err)
	}
	return a, nil
}
