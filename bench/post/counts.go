package post

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"remit/bench/rig"
	"remit/internal/chain"
	"remit/internal/dispatch"
	"remit/internal/dynamo"
	"remit/internal/dynamo/dynamotest"
	"remit/internal/ethrpc"
	"remit/internal/httpapi"
	"remit/internal/memory"
	"remit/internal/stack"
	"remit/internal/store"
)

// counted is what one payment asks of its services and of the allocator.
type counted struct {
	aws    map[string]float64 // calls per payment by operation
	rpc    float64            // HTTP requests to the node per payment
	memory [2]float64         // allocations and bytes per payment, store in memory
	dynamo [2]float64         // the same over DynamoDB
	own    float64            // milliseconds of processor time per payment, without a chain
}

// canned is a node that accepts everything and is asked over no network: what
// is left to measure is Remit's own work.
type canned struct{ requests atomic.Int64 }

// cannedAnswers are what the methods return, as JSON.
var cannedAnswers = map[string]string{
	"eth_chainId": `"0x539"`, "eth_estimateGas": `"0xc8ed"`, "eth_maxPriorityFeePerGas": `"0x3b9aca00"`,
	"eth_blockNumber": `"0x10"`, "eth_getTransactionCount": `"0x0"`, "eth_getBalance": `"0x3635c9adc5dea00000"`,
	"eth_call":               `"0x000000000000000000000000000000000000000000000000000000e8d4a51000"`,
	"eth_getBlockByNumber":   `{"number":"0x10","hash":"0x` + zeros + `","baseFeePerGas":"0x3b9aca00"}`,
	"eth_feeHistory":         `{"oldestBlock":"0x10","baseFeePerGas":["0x3b9aca00","0x3b9aca00"],"gasUsedRatio":[0.1],"reward":[["0x3b9aca00"]]}`,
	"eth_sendRawTransaction": `"0x` + zeros + `"`,
}

const zeros = "0000000000000000000000000000000000000000000000000000000000000001"

// RoundTrip implements http.RoundTripper.
func (c *canned) RoundTrip(r *http.Request) (*http.Response, error) {
	c.requests.Add(1)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	calls := callsOf(string(body))
	for i, call := range calls {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"jsonrpc":"2.0","id":%s,"result":%s}`, call[0], cannedAnswers[call[1]])
	}
	text := b.String()
	if body[0] == '[' {
		text = "[" + text + "]"
	}
	return &http.Response{StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
}

// callsOf returns id and method of each call of a request, as go-ethereum's
// client writes them.
func callsOf(body string) [][2]string {
	var calls [][2]string
	for _, part := range strings.Split(body, `"id":`)[1:] {
		id, rest, _ := strings.Cut(part, ",")
		_, rest, _ = strings.Cut(rest, `"method":"`)
		method, _, _ := strings.Cut(rest, `"`)
		calls = append(calls, [2]string{id, method})
	}
	return calls
}

// handler is send-payment over store and the canned node, paying from four
// wallets.
func handler(c *rig.Chain, node *canned, store store.Store) (http.Handler, error) {
	opened, err := ethrpc.Open("http://node.invalid", ethrpc.Config{ChainID: c.ID(), Transport: node})
	if err != nil {
		return nil, err
	}
	keys, err := rig.Keys(c.Wallets()[1:5])
	if err != nil {
		return nil, err
	}
	engine := dispatch.New(stack.Config{
		ChainID: c.ID(), Token: c.Token(), Network: "bench", Window: 1 << 20, BlockTime: 2 * time.Second, ConfirmationRule: rig.ConfirmationRule,
	}, dispatch.Parts{
		Store: store, Keys: keys, Nodes: chain.Nodes{opened},
		Hints: rig.Hints{Calls: &rig.Calls{}}, Log: slog.New(slog.DiscardHandler), Now: time.Now, Random: rand.Reader, Draw: mathrand.IntN,
	})
	return httpapi.SendPayment(rand.Text, engine, c.Token()), nil
}

// allocated makes n payments one after the other and returns allocations and
// bytes per payment.
func allocated(ctx context.Context, h http.Handler, n int) ([2]float64, error) {
	name := rand.Text()
	var before, after runtime.MemStats
	for i := -20; i < n; i++ {
		if i == 0 {
			runtime.GC()
			runtime.ReadMemStats(&before)
		}
		if status, body := rig.Pay(ctx, h, fmt.Sprintf("%s-%d", name, i), 1000); status != http.StatusCreated {
			return [2]float64{}, fmt.Errorf("%w: %d %s", errUnclean, status, body)
		}
	}
	runtime.ReadMemStats(&after)
	return [2]float64{float64(after.Mallocs-before.Mallocs) / float64(n), float64(after.TotalAlloc-before.TotalAlloc) / float64(n)}, nil
}

// count measures what a payment asks for, over DynamoDB Local and in memory.
func count(ctx context.Context, c *rig.Chain, n int) (*counted, error) {
	out := &counted{aws: map[string]float64{}}
	h, err := handler(c, &canned{}, memory.NewPayments())
	if err != nil {
		return nil, err
	}
	if out.memory, err = allocated(ctx, h, n); err != nil {
		return nil, err
	}
	out.own = rig.Load(ctx, h, 16, time.Second).CPU
	endpoint, end, err := dynamotest.Open()
	if err != nil {
		return nil, err
	}
	defer end()
	recorder := &recorder{calls: map[string]int{}}
	tables := dynamo.Tables{APIKeys: "keys", Payments: "payments", Webhooks: "webhooks"}
	db := dynamodb.New(dynamodb.Options{Region: "us-east-1", BaseEndpoint: aws.String(endpoint),
		Credentials: credentials.NewStaticCredentialsProvider("bench", "bench", ""),
		HTTPClient:  recorder})
	if err := dynamo.CreateTables(ctx, db, tables); err != nil {
		return nil, err
	}
	node := &canned{}
	if h, err = handler(c, node, dynamo.NewPayments(db, tables.Payments)); err != nil {
		return nil, err
	}
	if _, err := allocated(ctx, h, 1); err != nil { // first sight of the wallets
		return nil, err
	}
	clear(recorder.calls)
	asked := node.requests.Load()
	if out.dynamo, err = allocated(ctx, h, n); err != nil {
		return nil, err
	}
	made := float64(n + 20)
	out.rpc = float64(node.requests.Load()-asked) / made
	for operation, times := range recorder.calls {
		out.aws[operation] = float64(times) / made
	}
	return out, nil
}

// A recorder counts an AWS client's requests by their operations.
type recorder struct {
	mu    sync.Mutex
	calls map[string]int
}

// Do implements aws.HTTPClient.
func (r *recorder) Do(q *http.Request) (*http.Response, error) {
	_, operation, _ := strings.Cut(q.Header.Get("X-Amz-Target"), ".")
	r.mu.Lock()
	r.calls[operation]++
	r.mu.Unlock()
	return http.DefaultClient.Do(q)
}
