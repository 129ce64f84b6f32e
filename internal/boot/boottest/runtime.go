package boottest

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// An Answer is what a function made of an event.
type Answer struct {
	Payload []byte // JSON
	Failed  bool   // the function returned an error, which Payload describes
}

// A runtime is the Lambda Runtime API for one function that handles one event
// at a time.
// https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html
type runtime struct {
	arn     string
	timeout time.Duration

	events  chan invocation
	asked   chan struct{} // closed when the function has asked for its first event
	initErr chan []byte
	once    sync.Once

	mu      sync.Mutex
	waiting map[string]chan Answer // by request id
}

type invocation struct {
	id    string
	event []byte
}

func newRuntime(arn string, timeout time.Duration) *runtime {
	return &runtime{
		arn: arn, timeout: timeout, events: make(chan invocation), asked: make(chan struct{}),
		initErr: make(chan []byte, 1), waiting: map[string]chan Answer{},
	}
}

func (r *runtime) handler() http.Handler {
	const base = "/2018-06-01/runtime/"
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+base+"invocation/next", r.next)
	mux.HandleFunc("POST "+base+"invocation/{id}/response", func(w http.ResponseWriter, q *http.Request) { r.answer(w, q, false) })
	mux.HandleFunc("POST "+base+"invocation/{id}/error", func(w http.ResponseWriter, q *http.Request) { r.answer(w, q, true) })
	mux.HandleFunc("POST "+base+"init/error", func(w http.ResponseWriter, q *http.Request) {
		said, _ := io.ReadAll(q.Body)
		select {
		case r.initErr <- said:
		default: // the first is the cause
		}
		w.WriteHeader(http.StatusAccepted)
	})
	return mux
}

// next holds the function's request until there is an event.
func (r *runtime) next(w http.ResponseWriter, q *http.Request) {
	r.once.Do(func() { close(r.asked) })
	select {
	case <-q.Context().Done():
	case in := <-r.events:
		h := w.Header()
		h.Set("Lambda-Runtime-Aws-Request-Id", in.id)
		h.Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(time.Now().Add(r.timeout).UnixMilli(), 10))
		h.Set("Lambda-Runtime-Invoked-Function-Arn", r.arn)
		h.Set("Lambda-Runtime-Trace-Id", "Root=1-00000000-000000000000000000000000;Sampled=0")
		h.Set("Content-Type", "application/json")
		_, _ = w.Write(in.event) // a function that is gone shows by its end
	}
}

func (r *runtime) answer(w http.ResponseWriter, q *http.Request, failed bool) {
	payload, err := io.ReadAll(q.Body)
	r.mu.Lock()
	waiting, ok := r.waiting[q.PathValue("id")]
	delete(r.waiting, q.PathValue("id"))
	r.mu.Unlock()
	if err != nil || !ok {
		http.Error(w, fmt.Sprintf(`{"errorMessage":"no such invocation: %v"}`, err), http.StatusBadRequest)
		return
	}
	waiting <- Answer{Payload: payload, Failed: failed}
	w.WriteHeader(http.StatusAccepted)
}

// expect returns where the answer to the invocation of that id will be.
func (r *runtime) expect(id string) <-chan Answer {
	c := make(chan Answer, 1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting[id] = c
	return c
}
