//go:build upgrade

package e2e_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
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

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sns"

	"github.com/remit-payouts/remit/e2e/localaws"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/proof/must"
	sdk "github.com/remit-payouts/remit/sdk/go"
)

// from is the version that TestUpgrade begins with.
var from = flag.String("from", "", "the revision to upgrade from; if it is empty, the newest tag v* before this commit, or else HEAD^")

// TestUpgrade deploys an earlier version, this one over it, and the earlier one again, as a team does that rolls back,
// each with another parameter, while a merchant pays all the time. Then it counts the payments on the chain.
func TestUpgrade(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	earlier := checkout(t, dir)
	config, calls, err := recorded(dir)
	must.OK(t, err)
	started := must.Get(localaws.Start(ctx, config))(t)
	t.Cleanup(func() { _ = started.Close() })
	s := &stack{Stack: started, calls: calls}
	topic := must.Get(sns.NewFromConfig(s.Administrator()).CreateTopic(ctx, &sns.CreateTopicInput{Name: aws.String("alarms")}))(t)
	live := []string{"Environment=prod", "Mode=live", "AlarmTopicArn=" + *topic.TopicArn, "AuthorizerCacheSeconds=0", "Size=small"}
	s.deployFrom(t, earlier, filepath.Join(dir, "build-1"), live...)
	must.OK(t, s.AddRail(ctx, s.Chain, s.Chain.URL()))
	o := &operator{t: t, s: s}
	o.ok(nil, strings.Fields("settings set --yes --reason limits NonceWindow=20 MerchantCap=60")...)
	m := o.merchant("paying")
	trade := &trade{hashes: map[int]string{}, events: map[string]string{}}
	trade.api.Store(m.api())
	receiver := httptest.NewServer(trade)
	t.Cleanup(receiver.Close)
	m.call("POST", "/webhooks", map[string]any{"url": receiver.URL}).want(t, 201)
	stop := trade.begin()
	trade.await(t, s, 10)
	for i, source := range []string{root, earlier} {
		begun, hold := trade.count(), time.Duration(i+1)*time.Hour
		s.deployFrom(t, source, filepath.Join(dir, fmt.Sprintf("build-%d", i+2)),
			append(live, fmt.Sprintf("RecipientHoldSeconds=%.0f", hold.Seconds()))...)
		t.Logf("%d payments were taken during deployment %d", trade.count()-begun, i+2)
		trade.api.Store(m.api()) // the local AWS makes an API anew whose routes differ, where AWS keeps its address
		m.holds(hold)            // in force behind live
		trade.await(t, s, trade.count()+10)
		next := rotated(t, m, m.id(), time.Hour) // a key that the other version made
		if source == root {
			next.call("GET", "/transaction/"+trade.hash(0), nil).want(t, 200)
		} else if p, err := next.api().Get(ctx, trade.hash(0)); err != nil ||
			p.TxHash != trade.hash(0) { // openapi.yaml describes this version alone
			t.Errorf("after the roll-back payment 0 is %+v, %v", p, err)
		}
	}
	stop()
	trade.audit(t, s)
	t.Logf("remit audit: %s", o.ok(nil, "audit").stdout)
}

// holds adds a recipient, who must be active after that time, of either version.
func (m merchant) holds(hold time.Duration) {
	m.t.Helper()
	address := fmt.Sprintf("%s%02x", recipient[:40], int(hold.Hours()))
	added := must.Get(m.api().Call(m.t.Context(), "POST", "/recipients", fmt.Sprintf(`{"address": %q}`, address)))(m.t)
	var is struct {
		ActiveAt time.Time `json:"active_at"`
	}
	err := json.Unmarshal(added.Body, &is)
	if wait := time.Until(is.ActiveAt); err != nil || wait < hold-time.Minute || wait > hold {
		m.t.Errorf("the hold is %s, not the deployed %s: %s", wait, hold, added.Body)
	}
}

// merchant makes one by the command line, which alone makes keys of a live stack.
func (o *operator) merchant(name string) merchant {
	o.t.Helper()
	var made struct {
		Key string `json:"api_key"`
	}
	o.ok(&made, "keys", "create", name, "--yes")
	return merchant{t: o.t, s: o.s, key: made.Key}
}

// checkout writes the tree of the version to upgrade from below dir.
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
	revision := *from
	if revision == "" {
		revision, _, _ = strings.Cut(git("git tag --list 'v*' --no-contains HEAD --sort=-version:refname"), "\n")
	}
	revision = cmp.Or(revision, "HEAD^")
	t.Logf("the earlier version is %s", revision)
	into := filepath.Join(dir, "earlier")
	git(fmt.Sprintf("mkdir '%s' && git archive '%s' | tar -x -C '%s'", into, revision, into))
	return into
}

// deployFrom builds the repository at source and deploys it.
func (s *stack) deployFrom(t *testing.T, source, build string, parameters ...string) {
	t.Helper()
	template := must.Get(filepath.Abs(filepath.Join(source, "template.yaml")))(t)
	must.OK(t, s.Run(t.Context(), "sam",
		"build", "--template-file", template, "--build-dir", build, "--parameter-overrides", localaws.Architecture))
	must.OK(t, s.Install(t.Context(), build, parameters...))
}

// A trade is a merchant's payments, one after the other, each repeated under
// its idempotency key until it is taken. Payment i is of base+i units.
type trade struct {
	api    atomic.Pointer[sdk.Client]
	mu     sync.Mutex
	hashes map[int]string
	events map[string]string // ids by the payments' hashes
	wrong  []string

	failed int   // requests that were answered 5xx, and repeated
	last   error // of these
}

const base = 1_000_000

// ServeHTTP is the merchant's webhook endpoint.
func (r *trade) ServeHTTP(_ http.ResponseWriter, q *http.Request) {
	var event struct {
		ID, Type string
		Data     sdk.Payment
	}
	err := json.NewDecoder(q.Body).Decode(&event)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && !strings.HasPrefix(event.Type, "payment.") {
		return // of a rotated key
	}
	if known := r.events[event.Data.TxHash]; err != nil || event.Data.Status != "confirmed" || known != "" && known != event.ID {
		r.wrong = append(r.wrong, fmt.Sprintf("the event %+v came after %q: %v", event, known, err))
	}
	r.events[event.Data.TxHash] = event.ID
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
			if refused, ok := errors.AsType[*sdk.Refused](err); ok && !nowhere(refused) {
				r.wrong = append(r.wrong, fmt.Sprintf("payment %d: %v", i, err))
			} else if err != nil {
				r.failed++
				r.last = err
			}
			if err == nil {
				r.hashes[i] = p.TxHash
				i++
			}
			r.mu.Unlock()
		}
	}()
	return func() { stopped.Store(true); <-ended }
}

// nowhere reports whether a request found no API: the address that it went to is of an
// API that the local AWS has just made anew. Remit's own refusals have a code.
func nowhere(p *sdk.Refused) bool {
	return p.Code == "" && (p.Status == http.StatusForbidden || p.Status == http.StatusNotFound)
}

func (r *trade) pay(i int) (sdk.Payment, error) {
	return r.api.Load().Attempt(context.Background(), fmt.Sprint("upgrade-", i), sdk.Order{To: recipient, Amount: sdk.Amount(fmt.Sprint(base + i))})
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

func (r *trade) await(t *testing.T, s *stack, n int) {
	t.Helper()
	defer func() {
		if r.count() < n {
			settled := s.logged(t, "CheckReceipts")
			t.Logf("the last of check-receipts:\n%s", strings.Join(settled[max(0, len(settled)-40):], "\n"))
			r.mu.Lock()
			defer r.mu.Unlock()
			t.Errorf("of %d payments %d were taken; the last error is %v, and %q", n, len(r.hashes), r.last, r.wrong)
		}
	}()
	until(t, fmt.Sprintf("%d payments", n), func() bool { return r.count() >= n })
}

// audit waits for the event of every payment and counts the payments on the chain: each is there once, and no other.
func (r *trade) audit(t *testing.T, s *stack) {
	t.Helper()
	until(t, "the last webhook", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.events) >= len(r.hashes)
	})
	paid := map[string]int{}
	for _, b := range s.Chain.Since(func(chain.Block) bool { return false }) {
		for _, l := range b.Transfers {
			if l.To.String() == recipient {
				paid[l.Amount.String()]++
			}
		}
	}
	for _, w := range r.wrong {
		t.Error(w)
	}
	for i, hash := range r.hashes {
		if again, err := r.pay(i); err != nil || again.TxHash != hash || again.Status != "confirmed" {
			t.Errorf("payment %d was %s and is answered %+v, %v", i, hash, again, err)
		}
		if n := paid[fmt.Sprint(base+i)]; n != 1 || r.events[hash] == "" {
			t.Errorf("payment %d was paid %d times, its event is %q", i, n, r.events[hash])
		}
	}
	if len(paid) != len(r.hashes) {
		t.Errorf("the chain has payments of %d amounts, the merchant was told of %d", len(paid), len(r.hashes))
	}
	t.Logf("%d payments, each paid once and announced; %d requests failed and were repeated", len(r.hashes), r.failed)
}
