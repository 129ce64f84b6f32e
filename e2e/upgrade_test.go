//go:build upgrade

package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"remit/e2e/localaws"
	"remit/internal/client"
)

// TestUpgrade deploys the newest version before this one, this one over it, and
// the earlier one again, as a team does that has to roll back, while a merchant
// pays all the time. Then it counts the payments on the chain.
func TestUpgrade(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	earlier := checkout(t, dir)
	config, calls := recorded(dir)
	started, err := localaws.Start(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = started.Close() })
	s := &stack{started, calls}
	s.deployFrom(t, earlier, filepath.Join(dir, "build-1"))
	if err := s.FillSecrets(ctx); err != nil {
		t.Fatal(err)
	}

	m := newMerchant(t, s)
	url := s.URL("")
	trade := &trade{api: m.api(), hashes: map[int]string{}, events: map[string]string{}}
	receiver := httptest.NewServer(trade)
	t.Cleanup(receiver.Close)
	m.call("POST", "/webhooks", map[string]any{"url": receiver.URL}).want(t, 201)
	stop := trade.begin()
	trade.await(t, 10)
	for i, source := range []string{root, earlier} {
		begun := trade.count()
		s.deployFrom(t, source, filepath.Join(dir, fmt.Sprintf("build-%d", i+2)))
		t.Logf("%d payments were taken during deployment %d", trade.count()-begun, i+2)
		if s.URL("") != url {
			t.Errorf("the API moved from %s to %s", url, s.URL(""))
		}
		trade.await(t, trade.count()+10)
		next := rotated(t, m, m.id(), time.Hour) // a key that the other version made
		next.call("GET", "/transaction/"+trade.hash(0), nil).want(t, 200)
	}
	stop()
	trade.audit(t, s)
}

// checkout writes the tree of the newest version before this one below dir.
func checkout(t *testing.T, dir string) string {
	t.Helper()
	git := func(command string) string {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
		cmd.Dir = root
		printed, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, printed)
		}
		return string(printed)
	}
	tag, _, _ := strings.Cut(git("git tag --list 'v*' --no-contains HEAD --sort=-version:refname"), "\n")
	if tag == "" {
		t.Fatal("There is no version to upgrade from: no tag v* comes before this commit.")
	}
	t.Logf("the version before this one is %s", tag)
	into := filepath.Join(dir, "earlier")
	git(fmt.Sprintf("mkdir '%s' && git archive '%s' | tar -x -C '%s'", into, tag, into))
	return into
}

// deployFrom builds the repository at source and deploys it.
func (s *stack) deployFrom(t *testing.T, source, build string) {
	t.Helper()
	template, err := filepath.Abs(filepath.Join(source, "template.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context(), "sam", "build", "--template-file", template, "--build-dir", build, "--parameter-overrides", localaws.Architecture); err != nil {
		t.Fatal(err)
	}
	if err := s.Install(t.Context(), build, "AuthorizerCacheSeconds=0"); err != nil {
		t.Fatal(err)
	}
}

// A trade is a merchant's payments, one after the other, each repeated under
// its idempotency key until it is taken. Payment i is of base+i units.
type trade struct {
	api *client.Client

	mu     sync.Mutex
	hashes map[int]string
	events map[string]string // ids by the payments' hashes
	wrong  []string
}

const base = 1_000_000

// ServeHTTP is the merchant's webhook endpoint.
func (r *trade) ServeHTTP(_ http.ResponseWriter, q *http.Request) {
	var event struct {
		ID   string
		Data client.Payment
	}
	err := json.NewDecoder(q.Body).Decode(&event)
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.events[event.Data.Hash]; err != nil || event.Data.Status != "confirmed" || known != "" && known != event.ID {
		r.wrong = append(r.wrong, fmt.Sprintf("the event %+v came after %q: %v", event, known, err))
	}
	r.events[event.Data.Hash] = event.ID
}

// begin pays until stop is called and the last payment is taken.
func (r *trade) begin() (stop func()) {
	var stopped atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for i, last := 0, false; !last; time.Sleep(250 * time.Millisecond) {
			p, err := r.pay(i)
			last = err == nil && stopped.Load()
			r.mu.Lock()
			if refused, ok := errors.AsType[*client.Problem](err); ok && refused.Status < 500 {
				r.wrong = append(r.wrong, fmt.Sprintf("payment %d: %v", i, err))
			}
			if err == nil {
				r.hashes[i] = p.Hash
				i++
			}
			r.mu.Unlock()
		}
	}()
	return func() { stopped.Store(true); <-ended }
}

func (r *trade) pay(i int) (client.Payment, error) {
	order := client.Order{To: recipient, Amount: json.Number(fmt.Sprint(base + i))}
	return r.api.Send(context.Background(), order, fmt.Sprintf("upgrade-%d", i))
}

func (r *trade) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.hashes)
}

func (r *trade) hash(i int) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hashes[i]
}

func (r *trade) await(t *testing.T, n int) {
	t.Helper()
	until(t, fmt.Sprintf("%d payments", n), 2*time.Minute, func() bool { return r.count() >= n })
}

// audit waits for the event of every payment and counts the payments on the
// chain: each is there once, and no other.
func (r *trade) audit(t *testing.T, s *stack) {
	t.Helper()
	until(t, "the last webhook", 3*time.Minute, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.events) >= len(r.hashes)
	})
	logs, err := s.Chain.TransferLogs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	paid := map[string]int{}
	for _, l := range logs {
		if l.To.String() == recipient {
			paid[l.Amount.String()]++
		}
	}
	for _, w := range r.wrong {
		t.Error(w)
	}
	for i, hash := range r.hashes {
		if again, err := r.pay(i); err != nil || again.Hash != hash || again.Status != "confirmed" {
			t.Errorf("payment %d was %s and is answered %+v, %v", i, hash, again, err)
		}
		if n := paid[fmt.Sprint(base+i)]; n != 1 || r.events[hash] == "" {
			t.Errorf("payment %d was paid %d times, its event is %q", i, n, r.events[hash])
		}
	}
	if len(paid) != len(r.hashes) {
		t.Errorf("the chain has payments of %d amounts, the merchant was told of %d", len(paid), len(r.hashes))
	}
	t.Logf("%d payments, each paid once and announced", len(r.hashes))
}
