package console_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/schema"
	"github.com/remit-payouts/remit/internal/cli/operator/console"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/stack"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/dynamotest"
	"github.com/remit-payouts/remit/internal/proof/guidetest"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/operatortest"
)

// A visit is an operator's console, and all that it asks the world for.
type visit struct {
	*testing.T
	url    string
	token  string
	http   *http.Client // which has let itself in
	ledger *operatortest.Ledger

	mu    sync.Mutex
	calls map[string]int // by name
}

// noted has every request counted by the name of its call before next answers it.
func (d *visit) noted(next http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		names := []string{r.Header.Get("X-Amz-Target") + strings.TrimPrefix(r.URL.Path, "/")}
		for _, m := range regexp.MustCompile(`"method":"(\w+)"|Action=(\w+)`).FindAllStringSubmatch(string(body), -1) {
			names = append(names, m[1]+m[2])
		}
		d.mu.Lock()
		d.calls["all"]++
		for _, name := range names {
			d.calls[name]++
		}
		d.mu.Unlock()
		next.ServeHTTP(w, r)
	}
}

// openConsole has the console serve a stack in whose table payments have ended in each way,
// one has not, one is prepared, a wallet is paused and an endpoint is disabled. One of
// its two nodes does not answer, and one of its two alarms rings.
func openConsole(t *testing.T, flags string) *visit {
	t.Helper()
	d := &visit{T: t, ledger: operatortest.NewLedger(t), calls: map[string]int{}}
	operatortest.NewAccount(t)
	serve := func(h http.Handler) string {
		server := httptest.NewServer(d.noted(h))
		t.Cleanup(server.Close)
		return server.URL
	}
	through := func(to string) string {
		at := must.Get(url.Parse(to))(d.ledger)
		return serve(httputil.NewSingleHostReverseProxy(at))
	}
	dead := serve(http.NotFoundHandler())
	nodes := []string{through(d.ledger.Chain.URL()), dead}
	t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", through(os.Getenv("AWS_ENDPOINT_URL_DYNAMODB")))
	names := schema.Tables{APIKeys: "operator-keys", Payments: fmt.Sprint("console-payments-", len(flags)),
		Webhooks: fmt.Sprint("console-webhooks-", len(flags))}
	must.OK(d.ledger, schema.Create(t.Context(), dynamotest.Client(t), names))
	coin := d.ledger.Chain.Token()
	t.Setenv("AWS_ENDPOINT_URL", serve(&operatortest.Cloud{Nodes: nodes,
		Outputs: map[string]string{"PaymentsTableName": names.Payments, "WebhooksTableName": names.Webhooks},
		Parameters: map[string]string{"ChainId": fmt.Sprint(d.ledger.Chain.ID()), "TokenSymbol": coin.Symbol,
			"TokenDecimals": fmt.Sprint(coin.Decimals), "TokenAddress": coin.Contract.String(), "Network": "local"}}))
	tables := dynamo.NewPayments(dynamotest.Client(t), names.Payments)
	d.ledger.Fill(tables, d.ledger.Payments)
	for i, key := range d.ledger.Keys {
		w := wallet.Wallet{ID: wallet.ID{ChainID: d.ledger.Chain.ID(), Address: key.Address()}, NextNonce: d.ledger.Nonces[key.Address()],
			Ceiling: 1000}
		if i == 0 {
			w.Paused = "audit (by ada)"
		}
		must.OK(d.ledger, tables.Open(t.Context(), w))
	}
	for _, p := range d.ledger.Payments {
		if p.State.Final() {
			must.OK(d.ledger, tables.DeletePendingTx(t.Context(), wallet.ID{ChainID: p.Tx.ChainID, Address: p.Wallet}, p.Nonce))
		}
	}

	ctx, stop := context.WithCancel(t.Context())
	out, to := io.Pipe()
	var cli struct {
		Console console.Command `cmd:""`
	}
	parser, err := kong.New(&cli, kong.BindTo(ctx, (*context.Context)(nil)), kong.BindTo(io.Writer(to), (*io.Writer)(nil)))
	must.OK(d.ledger, err)
	printed := strings.Replace(strings.TrimPrefix(strings.TrimSpace(guidetest.Read(t, "../../../..", "docs/operate.md", "remit console")),
		"remit "), ":8430", ":0", 1)
	line := printed + flags
	parsed := must.Get(parser.Parse(strings.Fields(line)))(d.ledger)
	ended := make(chan error, 1)
	go func() {
		err := parsed.Run()
		_ = to.CloseWithError(err) // before it has printed its address, perhaps
		ended <- err
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	first := must.Get(bufio.NewReader(out).ReadString('\n'))(d.ledger)
	go func() { _, _ = io.Copy(io.Discard, out) }() // until the test ends
	d.url, d.token, _ = strings.Cut(strings.TrimSpace(first[strings.Index(first, "http://"):]), "/?token=")
	jar := must.Get(cookiejar.New(nil))(d.ledger)
	d.http = &http.Client{Jar: jar}
	if status, body := d.get("GET", "/?token="+d.token); status != 200 || !strings.Contains(body, "<html") {
		t.Errorf("the address that is printed leads to %d %s", status, body)
	}
	return d
}

// get asks the console for something.
func (d *visit) get(method, path string, header ...string) (int, string) {
	d.Helper()
	r := must.Get(http.NewRequestWithContext(d.Context(), method, d.url+path, nil))(d.ledger)
	for i := 0; i < len(header); i += 2 {
		if r.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	over := d.http
	if len(header) > 0 && header[0] == "Cookie" {
		over = http.DefaultClient
	}
	answer := must.Get(over.Do(r))(d.ledger)
	defer func() { _ = answer.Body.Close() }()
	body := must.Get(io.ReadAll(answer.Body))(d.ledger)
	return answer.StatusCode, string(body)
}

// A shown is what the console sends a browser.
type shown struct {
	States struct {
		Ages   []struct{ Count int }
		Oldest []struct{ ID payment.ID }
	}
	Payments []struct {
		ID    payment.ID
		State payment.State
		At    []int64
	}
	Wallets []struct{ State, Paused, Tokens string }
	Nodes   []struct {
		Head  uint64
		Error string
	}
	Alarms struct {
		All []struct{ Name, State string }
	}
	Lines []struct{ Text string }
	Calls struct{ Used, Most int }
}

// watch follows the console until what it shows is as it should be.
func (d *visit) watch(enough func(shown) bool) (s shown) {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), 30*time.Second)
	defer cancel()
	r := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, d.url+"/page/events", nil))(d.ledger)
	answer := must.Get(d.http.Do(r))(d.ledger)
	defer func() { _ = answer.Body.Close() }()
	events := bufio.NewScanner(answer.Body)
	events.Buffer(nil, 1<<20)
	for events.Scan() {
		if data, ok := strings.CutPrefix(events.Text(), "data: "); ok {
			must.OK(d.ledger, json.Unmarshal([]byte(data), &s))
			if s.Calls.Used > s.Calls.Most {
				d.Errorf("%d calls of %d", s.Calls.Used, s.Calls.Most)
			}
			if enough(s) {
				return s
			}
		}
	}
	d.Fatalf("the console never shows all: %+v", s)
	return s
}

// TestConsole: the page of a deployed stack shows payments under way, wallets, nodes and
// alarms, finds a payment by all of its names, and shows its timeline. No other
// page of the web gets any of it, and no call that was made writes.
func TestConsole(t *testing.T) {
	d := openConsole(t, "")
	s := d.watch(func(s shown) bool { return len(s.Wallets) > 0 && len(s.Alarms.All) > 0 })
	pending := d.ledger.Payments[len(d.ledger.Payments)-1]
	if o := s.States.Oldest; len(o) != 1 || o[0].ID != pending.ID || s.States.Ages[3].Count != 1 {
		t.Errorf("under way are %+v, %+v", o, s.States.Ages)
	}
	if len(s.Payments) != 1 || s.Payments[0].ID != pending.ID || s.Payments[0].State != payment.Committed {
		t.Errorf("payments under way: %+v", s.Payments)
	}
	if w := s.Wallets; len(w) != 2 || !slices.ContainsFunc(w, func(w struct{ State, Paused, Tokens string }) bool {
		return w.Paused == "audit (by ada)" && w.State == "active"
	}) {
		t.Errorf("wallets: %+v", w)
	}
	if n := s.Nodes; len(n) != 2 || n[0].Head == 0 || n[0].Error != "" || n[1].Error == "" {
		t.Errorf("nodes: %+v", n)
	}
	if a := s.Alarms.All; len(a) != 2 || a[0].Name != "remit-B" || a[0].State != "ALARM" {
		t.Errorf("alarms, ringing ones first: %+v", a)
	}
	if len(s.Lines) > 0 {
		t.Errorf("what could not be read: %+v", s.Lines)
	}
	failed := d.ledger.Payments[2]
	for _, c := range []struct {
		why, find string
		status    int
		says      []string
	}{
		{"by its id", string(pending.ID), 200, []string{string(pending.ID), `"state":"COMMITTED"`, `"bytes":"0x02`, `status 1`, `no answer: `,
			`"Merchant","mer_1"`}},
		{"by the hash of an attempt", failed.TxHash.String(), 200,
			[]string{string(failed.ID), `"state":"FAILED"`, "execution_reverted", `"bytes":""`}},
		{"by its merchant's key", failed.IdempotencyKey + "&merchant=mer_1", 200, []string{string(failed.ID)}},
		{"by a key of nobody", failed.IdempotencyKey, 404, []string{"an Idempotency-Key belongs to a merchant"}},
		{"by a key of another", failed.IdempotencyKey + "&merchant=mer_2", 404, []string{"payment not found"}},
		{"by half a hash", "0x1111", 404, []string{"is not a transaction hash"}},
	} {
		status, body := d.get("GET", "/page/payment?find="+c.find)
		for end := time.Now().Add(20 * time.Second); strings.Contains(body, "deadline exceeded") && time.Now().Before(end); {
			status, body = d.get("GET", "/page/payment?find="+c.find) // the page gives a node two seconds
		}
		for _, says := range c.says {
			if status != c.status || !strings.Contains(body, says) {
				t.Errorf("%s: answered %d %s, want %d and %q", c.why, status, body, c.status, says)
			}
		}
	}
	port := d.url[strings.LastIndex(d.url, ":")+1:]
	for _, c := range []struct {
		why, method, path string
		header            []string
		status            int
	}{
		{"the page", "GET", "/", nil, 200},
		{"another user of the machine", "GET", "/", []string{"Cookie", "a=b"}, 403},
		{"who asks for what it shows", "GET", "/page/facts", []string{"Cookie", "remit-" + port + "=" + strings.Repeat("A", 26)}, 403},
		{"with a token that is none", "GET", "/?token=", []string{"Cookie", "remit-" + port + "="}, 403},
		{"the cookie", "GET", "/page/facts", []string{"Cookie", "remit-" + port + "=" + d.token}, 200},
		{"what is asked for by another origin", "GET", "/page/facts", []string{"Origin", "https://evil.example"}, 403},
		{"by another site", "GET", "/page/payment?find=" + string(pending.ID), []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"by a name that was resolved to loopback", "GET", "/page/facts", []string{"Host", "evil.example:" + port}, 403},
		{"a button of another page", "POST", "/page/do", []string{"Content-Type", "application/json"}, 405},
	} {
		if status, body := d.get(c.method, c.path, c.header...); status != c.status {
			t.Errorf("%s: answered %d %s, want %d", c.why, status, body, c.status)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	reads := regexp.MustCompile(`^(all|DescribeStacks|ListStackResources|service/GraniteServiceVersion20100801/operation/DescribeAlarms|secretsmanager\.GetSecretValue|DynamoDB_20120810\.(BatchGetItem|GetItem|Query)|eth_\w+|)$`)
	for _, name := range slices.Sorted(maps.Keys(d.calls)) {
		if !reads.MatchString(name) || strings.HasPrefix(name, "eth_send") {
			t.Errorf("the console has called %s", name)
		}
	}
	if d.calls["DynamoDB_20120810.Query"] == 0 || d.calls["eth_getTransactionReceipt"] == 0 {
		t.Errorf("the calls are not recorded: %v", d.calls)
	}
}

// TestConsoleKeepsItsBudget: however often a person asks, no more calls are made in a
// minute than the flag says, and the page says why there is no answer.
func TestConsoleKeepsItsBudget(t *testing.T) {
	d := openConsole(t, " --calls=24")
	d.watch(func(s shown) bool { return s.Calls.Used > 15 })
	refused := ""
	for range 10 {
		if status, body := d.get("GET", "/page/payment?find="+string(d.ledger.Payments[0].ID)); status != 200 {
			refused = body
		}
	}
	if !strings.Contains(refused, "all 24 calls of this minute are made: ask again in ") {
		t.Errorf("without budget the page says %q", refused)
	}
	if s := d.watch(func(s shown) bool { return s.Calls.Used == s.Calls.Most }); s.Calls.Most != 24 {
		t.Errorf("the page shows %+v", s.Calls)
	}
	arrived := func() int {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.calls["all"]
	}
	for end := time.Now().Add(10 * time.Second); arrived() < 24 && time.Now().Before(end); { // a call is counted before it arrives
		time.Sleep(10 * time.Millisecond)
	}
	if n := arrived(); n != 24 {
		t.Errorf("%d calls were made in a minute", n)
	}
}

// TestConsoleCannotWrite: a call that is no read does not leave the program, whatever
// rights the operator has.
func TestConsoleCannotWrite(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		_, _ = io.WriteString(w, "{}")
	}))
	defer server.Close()
	cfg := console.Reading(aws.Config{Region: "us-east-1", BaseEndpoint: &server.URL,
		Credentials: aws.AnonymousCredentials{}}, 20)
	tables := dynamo.NewPayments(dynamodb.NewFromConfig(cfg), "payments")
	p := payment.New("pay_1", payment.Request{}, token.Token{}, "local", time.Now())
	_, _, create := tables.Create(t.Context(), p)
	id := wallet.ID{ChainID: 1, Address: operatortest.Payee}
	for what, err := range map[string]error{"a put": create, "an update": tables.Pause(t.Context(), id, "audit"),
		"a deletion":    tables.Discard(t.Context(), p),
		"a transaction": tables.PutNoop(t.Context(), wallet.PendingTx{ID: id, Hashes: []chain.Hash{{1}}})} {
		if err == nil || !strings.Contains(err.Error(), "the console only reads") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if asked > 0 {
		t.Errorf("%d requests were made", asked)
	}
	if _, err := tables.Payment(t.Context(), "pay_1"); !errors.Is(err, store.ErrNotFound) || asked != 1 {
		t.Errorf("a read: %v, with %d requests", err, asked)
	}
}

// TestConsoleIsServedOnLoopback, for a stack on AWS, with room for one timeline.
func TestConsoleIsServedOnLoopback(t *testing.T) {
	a := operatortest.NewAccount(t)
	for line, want := range map[string]string{
		"--listen 0.0.0.0:0":               "--listen 0.0.0.0:0 is not a loopback address",
		"--listen example.com:80":          "not a loopback address",
		"--listen 127.0.0.1:0 --calls=19":  "--calls 19 is too few; use 20 or more",
		"--listen 127.0.0.1:0 --table x=y": "use keys, payments or webhooks",
	} {
		if _, err := a.Remit("console " + line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("remit console %s: %v, want %q", line, err, want)
		}
	}
	if _, err := operatortest.Local(t.Context(), operatortest.Empty(t, stack.Config{}), "console"); err == nil ||
		!strings.Contains(err.Error(), "remit local has its own page") {
		t.Errorf("for a stack on this machine: %v", err)
	}
}
