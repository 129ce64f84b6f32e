// Command worker pays the orders of a queue, which is a directory: POST /orders puts an order into it, workers pay it,
// and Remit's webhook ends it. It may be killed at any line: an order is in the queue before it is paid
// and until it has ended, and the order is the intent. Remit pays each order once.
//
// In the checkout beside `make run`:
//
//	../../.cache/run/remit listen --key KEY --forward http://localhost:3000/hook # prints WEBHOOK_SECRET
//	REMIT_URL=… REMIT_API_KEY=… WEBHOOK_SECRET=whsec_… PORT=3000 ORDERS=orders go run .
//	curl localhost:3000/orders -d '{"id":"1042","to":"0x…","amount":"2500000"}'
package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	remit "github.com/remit-payouts/remit/sdk/go"
)

type order struct {
	ID     string       `json:"id"`
	To     string       `json:"to"`
	Amount remit.Amount `json:"amount"`
	Status string       `json:"status"` // ordered until it has ended
	Why    string       `json:"why,omitempty"`
}

type shop struct {
	api    remit.Client
	dir    string
	secret string
	queue  chan string // ids of orders to pay
	mu     sync.Mutex
}

var id = regexp.MustCompile(`^\w{1,64}$`)

func main() {
	s := &shop{api: remit.Client{URL: os.Getenv("REMIT_URL"), Key: os.Getenv("REMIT_API_KEY")},
		dir: os.Getenv("ORDERS"), secret: os.Getenv("WEBHOOK_SECRET"), queue: make(chan string, 1000)}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		log.Fatal(err)
	}
	for range 4 {
		go s.work()
	}
	files, _ := filepath.Glob(filepath.Join(s.dir, "*.json"))
	go func() {
		for _, file := range files {
			name := filepath.Base(file)
			s.queue <- name[:len(name)-len(".json")]
		}
	}()
	http.HandleFunc("POST /orders", s.add)
	http.HandleFunc("GET /orders/{id}", s.show)
	http.HandleFunc("POST /hook", s.hook)
	log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil))
}

// work pays the orders of the queue. One whose payment is not known to be made or refused goes back into it.
func (s *shop) work() {
	for id := range s.queue {
		o, err := s.load(id)
		if err != nil || o.Status != "ordered" {
			continue
		}
		paid, err := s.api.Pay(context.Background(), "order "+id, remit.Order{To: o.To, Amount: o.Amount, Reference: id}, remit.Settle)
		refused, is := errors.AsType[*remit.Refused](err)
		switch {
		case err == nil:
			err = s.end(id, string(paid.Status), string(paid.TxHash))
		case is && refused.Settled:
			err = s.end(id, "refused", refused.Detail)
		}
		if err != nil {
			log.Printf("order %s: %v", id, err)
			time.AfterFunc(10*time.Second, func() { s.queue <- id })
		}
	}
}

func (s *shop) load(id string) (o order, err error) {
	text, err := os.ReadFile(filepath.Join(s.dir, id+".json"))
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	return o, err
}

// store replaces an order: a process that is killed here leaves the old one or the new one.
func (s *shop) store(o order) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(s.dir, "new-*")
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), filepath.Join(s.dir, o.ID+".json"))
}

func (s *shop) end(id, status, why string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, err := s.load(id)
	if err != nil || o.Status != "ordered" || status == "pending" {
		return err
	}
	o.Status, o.Why = status, why
	return s.store(o)
}

func (s *shop) add(w http.ResponseWriter, r *http.Request) {
	var o order
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil || !id.MatchString(o.ID) {
		http.Error(w, "give an id of letters and digits, to and amount", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	_, err := s.load(o.ID)
	if errors.Is(err, fs.ErrNotExist) {
		o.Status = "ordered"
		err = s.store(o)
	}
	s.mu.Unlock()
	if err != nil {
		http.Error(w, "the order is not stored; send it again", http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	s.queue <- o.ID
}

func (s *shop) show(w http.ResponseWriter, r *http.Request) {
	o, err := order{}, error(fs.ErrNotExist)
	if id.MatchString(r.PathValue("id")) {
		o, err = s.load(r.PathValue("id"))
	}
	if err != nil {
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(o)
}

func (s *shop) hook(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	var event remit.Event
	if err == nil {
		event, err = remit.VerifyWebhook(s.secret, body, r.Header)
	}
	if err != nil {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	var paid remit.EventPayment
	if json.Unmarshal(event.Data, &paid) == nil && id.MatchString(paid.Reference) {
		if err := s.end(paid.Reference, string(paid.Status), string(paid.TxHash)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			w.WriteHeader(http.StatusInternalServerError) // then the event comes again
			return
		}
	}
	w.WriteHeader(http.StatusNoContent)
}
