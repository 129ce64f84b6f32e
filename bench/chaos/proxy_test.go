package chaos

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// through returns a proxy of a server that counts requests, and a client that
// keeps no connection.
func through(t *testing.T) (p *Proxy, asked *atomic.Int64, get func() (string, error)) {
	t.Helper()
	asked = &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = io.WriteString(w, "done")
	}))
	t.Cleanup(server.Close)
	p, err := NewProxy(t.Context(), "service", strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return p, asked, func() (string, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.URL(), strings.NewReader("do"))
		if err != nil {
			return "", err
		}
		answer, err := client.Do(r)
		if err != nil {
			return "", err
		}
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		return string(text), err
	}
}

func TestPassLetsEverythingThrough(t *testing.T) {
	_, asked, get := through(t)
	if got, err := get(); got != "done" || err != nil || asked.Load() != 1 {
		t.Errorf("%q, %v, asked %d times; want done, once", got, err, asked.Load())
	}
}

func TestDownResetsBeforeTheServiceIsAsked(t *testing.T) {
	p, asked, get := through(t)
	p.Set(Down)
	if got, err := get(); err == nil || asked.Load() != 0 {
		t.Errorf("%q, %v, asked %d times; want an error and nothing asked", got, err, asked.Load())
	}
	if resets, _ := p.Faults(); resets == 0 {
		t.Error("no connection was counted as reset")
	}
	p.Set(Pass)
	if got, err := get(); got != "done" || err != nil {
		t.Errorf("when it is well again: %q, %v", got, err)
	}
}

func TestMuteLosesTheAnswerOfWhatWasDone(t *testing.T) {
	p, asked, get := through(t)
	p.Set(Mute)
	if got, err := get(); err == nil || asked.Load() != 1 {
		t.Errorf("%q, %v, asked %d times; want an error although it was done", got, err, asked.Load())
	}
	if _, lost := p.Faults(); lost != 1 {
		t.Errorf("%d answers were counted as lost; want 1", lost)
	}
}

func TestStallHoldsTheAnswerUntilItEndsAndThenResets(t *testing.T) {
	p, asked, get := through(t)
	p.Set(Stall)
	ended := make(chan error, 1)
	go func() {
		_, err := get()
		ended <- err
	}()
	for _, lost := p.Faults(); lost == 0; _, lost = p.Faults() {
		time.Sleep(time.Millisecond) // until the answer has come and was swallowed
	}
	select {
	case err := <-ended:
		t.Fatalf("the client was told while answers are held: %v", err)
	default:
	}
	p.Set(Pass)
	if err := <-ended; err == nil || asked.Load() != 1 {
		t.Errorf("%v, asked %d times; want an error although it was done", err, asked.Load())
	}
}
