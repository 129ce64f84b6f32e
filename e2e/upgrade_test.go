//go:build upgrade

package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"remit/internal/devnet"
)

// earlier is a release before this one: the first whose deployed template was
// tested as a whole.
const earlier = "107d188d9396308b32c550309b36943a36967537"

var update = flag.Bool("update", false, "record the items of the earlier release in internal/dynamo/testdata")

// TestUpgrade deploys the earlier release, this one over it, and the earlier
// one again, as a team does that has to go back, while a merchant pays all the
// time. Then the chain is asked what was paid.
func TestUpgrade(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	old := filepath.Join(dir, "earlier")
	extract(t, earlier, old)
	c, err := startCloud(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.hold.Close(); <-c.ended })
	chain, err := devnet.Start(context.WithoutCancel(ctx), devnet.Config{Listen: "127.0.0.1:0", BlockTime: blockTime, Wallets: 2, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = chain.Close() })
	s := &stack{cloud: c, chain: chain}
	s.release(t, filepath.Join(dir, "build-1"), old)
	if err := s.fillSecrets(ctx); err != nil {
		t.Fatal(err)
	}

	m := newMerchant(t, s)
	trade := &trade{s: s, url: s.url(""), key: m.key, hashes: map[int]string{}, announced: map[string]string{}}
	receiver := httptest.NewServer(trade)
	t.Cleanup(receiver.Close)
	m.call("POST", "/webhooks", map[string]any{"url": receiver.URL}).want(t, 201)
	stop := trade.begin(t)
	trade.await(t, 10)
	until(t, "a first payment's end", time.Minute, func() bool { return m.settled(trade.hash(0)) })
	if *update {
		s.record(t)
	}

	for i, root := range []string{"..", old} {
		begun := trade.count()
		s.release(t, filepath.Join(dir, fmt.Sprintf("build-%d", i+2)), root)
		t.Logf("%d payments were taken during deployment %d", trade.count()-begun, i+2)
		if s.url("") != trade.url {
			t.Errorf("the API moved from %s to %s", trade.url, s.url(""))
		}
		trade.await(t, trade.count()+10)
		next := rotated(t, m, m.id(), time.Hour) // a key that the other release made
		next.call("GET", "/transaction/"+trade.hash(0), nil).want(t, 200)
	}
	stop()
	trade.audit(t, m)
}

// extract writes the tree of a commit to dir.
func extract(t *testing.T, commit, dir string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	archive, err := filepath.Abs(filepath.Join(dir, "tree.tar"))
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range [][]string{{"git", "archive", "--output", archive, commit}, {"tar", "-xf", archive, "-C", dir}} {
		run := exec.CommandContext(t.Context(), cmd[0], cmd[1:]...)
		run.Dir = root
		if printed, err := run.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v (the whole history is needed)\n%s", cmd, err, printed)
		}
	}
}

// release builds the repository at root and deploys it over what is there.
func (s *stack) release(t *testing.T, build, root string) {
	t.Helper()
	ctx, parameters := t.Context(), s.parameters()
	template := filepath.Join(root, "template.yaml")
	if root == ".." {
		template = "template.yaml"
	}
	err := s.run(ctx, "sam", "build", "--template-file", template, "--build-dir", build, "--parameter-overrides", parameters[0])
	if err != nil {
		t.Fatal(err)
	}
	err = s.run(ctx, "sam", slices.Concat([]string{
		"deploy", "--template-file", filepath.Join(build, "template.yaml"), "--stack-name", stackName, "--resolve-s3",
		"--capabilities", "CAPABILITY_IAM", "--no-confirm-changeset", "--no-fail-on-empty-changeset", "--parameter-overrides",
	}, parameters)...)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.describe(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.gatewayResponses(ctx); err != nil {
		t.Fatal(err)
	}
}

// parameters are those of deploy.
func (s *stack) parameters() []string {
	return []string{
		"Architecture=" + map[string]string{"amd64": "x86_64", "arm64": "arm64"}[runtime.GOARCH],
		"WebhookLoopback=allowed", "TraceRule=false", "Network=" + network, "AuthorizerCacheSeconds=0",
		fmt.Sprintf("ChainId=%d", s.chain.ID()), fmt.Sprintf("TokenAddress=%v", s.chain.Token().Contract),
		"TokenSymbol=" + s.chain.Token().Symbol, fmt.Sprintf("TokenDecimals=%d", s.chain.Token().Decimals),
		fmt.Sprintf("ConfirmationRule=%d", confirmationRule), fmt.Sprintf("BlockTime=%v", blockTime),
	}
}

func (m merchant) settled(hash string) bool {
	m.t.Helper()
	return m.call("GET", "/transaction/"+hash, nil).want(m.t, 200).get("status") == "confirmed"
}

// A trade is a merchant's payments, one after the other, each repeated under
// its key until it is answered with 201. Payment i is of base+i units.
type trade struct {
	s        *stack
	url, key string

	mu        sync.Mutex
	hashes    map[int]string
	announced map[string]string // event ids by transaction hashes
	wrong     []string
	tries     int
}

// ServeHTTP is the merchant's webhook endpoint.
func (r *trade) ServeHTTP(_ http.ResponseWriter, q *http.Request) {
	var event struct {
		ID   string
		Data struct {
			Hash   string `json:"tx_hash"`
			Status string
		}
	}
	err := json.NewDecoder(q.Body).Decode(&event)
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.announced[event.Data.Hash]; err != nil || event.Data.Status != "confirmed" || known != "" && known != event.ID {
		r.wrong = append(r.wrong, fmt.Sprintf("announced %+v after %q, %v", event, known, err))
	}
	r.announced[event.Data.Hash] = event.ID
}

const base = 1_000_000

func (r *trade) begin(t *testing.T) (stop func()) {
	t.Helper()
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-end:
				return
			case <-time.After(250 * time.Millisecond):
				r.pay(context.WithoutCancel(t.Context()), i, end)
			}
		}
	}()
	return func() { close(end); <-ended }
}

func (r *trade) pay(ctx context.Context, i int, end <-chan struct{}) {
	for {
		status, hash := r.post(ctx, i)
		r.mu.Lock()
		r.tries++
		if status == http.StatusCreated {
			r.hashes[i] = hash
		} else if status/100 == 4 {
			r.wrong = append(r.wrong, fmt.Sprintf("payment %d was answered %d %s", i, status, hash))
		}
		r.mu.Unlock()
		if status == http.StatusCreated {
			return
		}
		select {
		case <-end:
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// post makes one request and returns its status, 0 if there was none, and the
// hash, or what was said instead.
func (r *trade) post(ctx context.Context, i int) (status int, said string) {
	body := fmt.Sprintf(`{"to":"%s","amount":%d}`, recipient, base+i)
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/send-payment", bytes.NewBufferString(body))
	if err != nil {
		return 0, err.Error()
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("x-api-key", r.key)
	q.Header.Set("Idempotency-Key", fmt.Sprintf("upgrade-%d", i))
	resp, err := r.s.client().Do(q)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	var p struct {
		Hash string `json:"tx_hash"`
	}
	if json.Unmarshal(text, &p) != nil || p.Hash == "" {
		return resp.StatusCode, string(text)
	}
	return resp.StatusCode, p.Hash
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

// audit waits for the end of every payment and counts them on the chain.
func (r *trade) audit(t *testing.T, m merchant) {
	t.Helper()
	until(t, "the last webhook", 3*time.Minute, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.announced) >= len(r.hashes)
	})
	for _, w := range r.wrong {
		t.Error(w)
	}
	for i, hash := range r.hashes {
		until(t, fmt.Sprintf("the end of payment %d", i), 3*time.Minute, func() bool { return m.settled(hash) })
		if r.announced[hash] == "" {
			t.Errorf("payment %d was never announced", i)
		}
		if status, again := r.post(t.Context(), i); status != http.StatusCreated || again != hash {
			t.Errorf("payment %d was %s and is answered %d %s", i, hash, status, again)
		}
	}
	logs, err := r.s.chain.TransferLogs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	paid := map[string]int{}
	for _, l := range logs {
		if l.To.String() == recipient {
			paid[l.Amount.String()]++
		}
	}
	for i := range r.hashes {
		if n := paid[fmt.Sprint(base+i)]; n != 1 {
			t.Errorf("payment %d was paid %d times", i, n)
		}
		delete(paid, fmt.Sprint(base+i))
	}
	if len(paid) > 0 {
		t.Errorf("the chain has payments that nobody was told of: %v", slices.Collect(maps.Keys(paid)))
	}
	t.Logf("%d payments in %d requests, each paid once and announced", len(r.hashes), r.tries)
}

// record writes down what lies in the tables.
func (s *stack) record(t *testing.T) {
	t.Helper()
	db := dynamodb.NewFromConfig(s.administrator())
	recorded := map[string][]json.RawMessage{}
	for _, table := range []string{"ApiKeys", "Payments", "Webhooks"} {
		name := s.outputs[table+"TableName"]
		found, err := db.Scan(t.Context(), &dynamodb.ScanInput{TableName: &name})
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range found.Items {
			text, err := attributevalue.MarshalMapJSON(item)
			if err != nil {
				t.Fatal(err)
			}
			recorded[table] = append(recorded[table], text)
		}
	}
	text, err := json.MarshalIndent(recorded, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, "internal/dynamo/testdata/earlier.json")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}
