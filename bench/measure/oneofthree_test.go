package measure_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/fault"
)

// changed is the habit of a node that changes its results of some methods, named between spaces.
func changed(methods string, change func(c fault.Call, result string) string) fault.Habit {
	return one(func(ask func(fault.Call) fault.Answer, c fault.Call) fault.Answer {
		a := ask(c)
		if a.Result != nil && strings.Contains(" "+methods+" ", " "+c.Method+" ") {
			a.Result = json.RawMessage(change(c, string(a.Result)))
		}
		return a
	})
}

// always is a change to one result.
func always(result string) func(fault.Call, string) string {
	return func(fault.Call, string) string { return result }
}

// plus is a change of a number by some, which may differ each time.
func plus(some func() int64) func(fault.Call, string) string {
	return func(_ fault.Call, result string) string {
		n, ok := new(big.Int).SetString(strings.Trim(result, `"`), 0)
		if !ok {
			return result
		}
		n.Add(n, big.NewInt(some()))
		return fmt.Sprintf(`"0x%x"`, new(big.Int).Abs(n))
	}
}

func by(n int64) func() int64 { return func() int64 { return n } }

// inside changes fields of an object: each to the value beside it.
func inside(fields map[string]any) func(fault.Call, string) string {
	return func(_ fault.Call, result string) string {
		var object map[string]any
		if json.Unmarshal([]byte(result), &object) != nil || object == nil {
			return result
		}
		for field, value := range fields {
			if change, ok := value.(func(fault.Call, string) string); ok {
				old, _ := json.Marshal(object[field])
				object[field] = json.RawMessage(change(fault.Call{}, string(old)))
			} else {
				object[field] = value
			}
		}
		text, _ := json.Marshal(object)
		return string(text)
	}
}

// refuses is the habit of a node that refuses some methods, named between spaces, with a message.
func refuses(methods string, code int, message string) fault.Habit {
	return one(func(ask func(fault.Call) fault.Answer, c fault.Call) fault.Answer {
		if methods == "" || strings.Contains(" "+methods+" ", " "+c.Method+" ") {
			return c.Refusal(code, message)
		}
		return ask(c)
	})
}

// slow is the habit of a node that takes so long for each request.
func slow(d time.Duration) fault.Habit {
	return whole(func(_ http.ResponseWriter, r *http.Request, _ []fault.Call) bool {
		sleep(r.Context(), d)
		return false
	})
}

// stuck is the habit of a node whose newest block is for ever the first that it was asked for.
func stuck() fault.Habit {
	var block atomic.Pointer[json.RawMessage]
	return one(func(ask func(fault.Call) fault.Answer, c fault.Call) fault.Answer {
		if block.Load() == nil {
			number := ask(fault.Call{Version: "2.0", ID: json.RawMessage("1"), Method: "eth_blockNumber"}).Result
			block.CompareAndSwap(nil, &number)
		}
		for i, p := range c.Params {
			if string(p) == `"latest"` || string(p) == `"pending"` {
				c.Params[i] = *block.Load()
			}
		}
		return ask(c)
	})
}

// anHour refuses one request, and asks for none for an hour.
func anHour() fault.Habit {
	var refused atomic.Bool
	return whole(func(w http.ResponseWriter, _ *http.Request, _ []fault.Call) bool {
		return !refused.Swap(true) && tooMany(w, "3600")
	})
}

const (
	counts, blocks, receipts, sends = "eth_getTransactionCount", "eth_getBlockByNumber", "eth_getTransactionReceipt", "eth_sendRawTransaction"
	gasPrices                       = "eth_maxPriorityFeePerGas"
)

// oneOfThree are the habits of one node of three, which merchants must not notice.
var oneOfThree = []struct {
	name  string
	habit fault.Habit
	slow  time.Duration // of the others
}{
	{name: "a low balance", habit: changed("eth_call", func(c fault.Call, result string) string {
		if bytes.Contains(c.Params[0], []byte("0x70a08231")) { // balanceOf
			return `"0x` + strings.Repeat("0", 63) + `1"`
		}
		return result
	})},
	{name: "no gas", habit: changed("eth_getBalance", always(`"0x0"`))},
	{name: "counts too high by 2", habit: changed(counts, plus(by(2)))},
	{name: "counts too high by a million", habit: changed(counts, plus(by(1_000_000)))},
	{name: "counts of nothing", habit: changed(counts, always(`"0x0"`))},
	{name: "pending counts for mined ones", habit: one(func(ask func(fault.Call) fault.Answer, c fault.Call) fault.Answer {
		if c.Method == counts {
			c.Params[1] = json.RawMessage(`"pending"`)
		}
		return ask(c)
	})},
	{name: "a head 40 blocks ahead", habit: changed(blocks, inside(map[string]any{"number": plus(by(40))}))},
	{name: "a final block that flaps", habit: changed(blocks, inside(map[string]any{
		"number": plus(func() int64 { return -rand.Int64N(4) })}))},
	{name: "nine seconds an answer", habit: slow(9 * time.Second)},
	{name: "insufficient funds for all", habit: refuses(sends, -32000, "insufficient funds for gas * price + value")},
	{name: "already known for all", habit: refuses(sends, -32000, "already known")},
	{name: "takes and drops all", habit: one(func(ask func(fault.Call) fault.Answer, c fault.Call) fault.Answer {
		if tx, _ := transactionOf(c); tx != nil {
			return resultOf(c, "%q", tx.Hash())
		}
		return ask(c)
	})},
	{name: "a tip 500 times too high, others slow", slow: 600 * time.Millisecond,
		habit: changed(gasPrices+" eth_feeHistory", func(c fault.Call, result string) string {
			if c.Method == gasPrices {
				return fmt.Sprintf(`"0x%x"`, 500_000_000_000)
			}
			return inside(map[string]any{"reward": [][]string{{"0x746a528800"}}})(c, result)
		})},
	{name: "stuck at a block", habit: stuck()},
	{name: "receipts without logs", habit: changed(receipts, inside(map[string]any{"logs": []any{}}))},
	{name: "receipts with a wrong status", habit: changed(receipts, inside(map[string]any{"status": "0x0"}))},
	{name: "receipts with null fees", habit: changed(receipts,
		inside(map[string]any{"effectiveGasPrice": nil, "gasUsed": nil, "l1Fee": nil}))},
	{name: "no receipts", habit: changed(receipts, always("null"))},
	{name: "one 429 with an hour", habit: anHour()},
	{name: "negative rewards", habit: changed("eth_feeHistory", inside(map[string]any{"reward": [][]string{{"-0x1"}}}))},
	{name: "every call reverts", habit: refuses("eth_estimateGas eth_call", 3, "execution reverted")},
	{name: "21,000 gas for all", habit: changed("eth_estimateGas", always(`"0x5208"`))},
	{name: "no gas for all", habit: changed("eth_estimateGas", always(`"0x0"`))},
	{name: "errors for all", habit: refuses("", -32603, "internal error")},
	{name: "another chain", habit: changed("eth_chainId", always(`"0x1"`))},
	{name: "hangs", habit: *fault.Hanging()},
	{name: "down", habit: *fault.Down()},
}

// An outcome is a merchant's view of many payments.
type outcome struct {
	refused, open []string
	times         []time.Duration // from the request to payment.confirmed, in order
	fees          []int64         // of the same, in order
}

func (o outcome) String() string {
	if len(o.times) == 0 {
		return fmt.Sprintf("none confirmed, %d refused, %d open", len(o.refused), len(o.open))
	}
	return fmt.Sprintf("%d confirmed, half in %s, 95%% in %s, fees to %d; %d refused, %d open",
		len(o.times), o.part(50), o.part(95), o.fees[len(o.fees)-1], len(o.refused), len(o.open))
}

// part is the time in which so many of a hundred payments are confirmed.
func (o outcome) part(of int) time.Duration {
	return o.times[(len(o.times)-1)*of/100].Round(10 * time.Millisecond)
}

// BenchmarkOneOfThree pays through three gateways of one node, the first of which has one bad habit after the other. To
// merchants that is as if it were honest: all payments are accepted and confirmed, at most twice as slow at the median
// and three times at the 95th percentile, for fees at most twice as high.
func BenchmarkOneOfThree(t *testing.B) {
	remit := build(t, nil, "github.com/remit-payouts/remit/cmd/remit")
	for kind := range strings.SplitSeq(*nodesFlag, ",") {
		honest := map[time.Duration]outcome{} // by how slow all nodes are
		pay := func(name string, habit fault.Habit, slowly time.Duration) (o outcome) {
			t.Run(kind+"/"+name, func(t *testing.B) {
				o = payOneOfThree(t, remit, kind, habit, slowly)
				say("%s, %s: %s", kind, name, o)
				if usual, known := honest[slowly]; len(o.refused)+len(o.open) > 0 {
					t.Errorf("%s: %.300q %.300q", o, o.refused[:min(1, len(o.refused))], o.open[:min(1, len(o.open))])
				} else if known && (o.part(50) > 2*usual.part(50) || o.part(95) > 3*usual.part(95) ||
					o.fees[len(o.fees)-1] > 2*usual.fees[len(usual.fees)-1]) {
					t.Errorf("%s; with three honest nodes %s", o, usual)
				}
			})
			return o
		}
		for _, row := range oneOfThree {
			if *habitsFlag != "" && !slices.Contains(strings.Split(*habitsFlag, ","), strings.ReplaceAll(row.name, ",", "")) {
				continue
			}
			if _, known := honest[row.slow]; !known {
				honest[row.slow] = pay(fmt.Sprint("all honest, and slow by ", row.slow), slow(row.slow), row.slow)
			}
			pay(row.name, row.habit, row.slow)
		}
	}
}

// payOneOfThree makes 120 payments through three gateways, of which one has a habit and the others are slow.
func payOneOfThree(t *testing.B, remit, kind string, bad fault.Habit, slowly time.Duration) (o outcome) {
	const payments = 120
	ctx := t.Context()
	v := newVictim(t, "one-of-three-"+kind)
	n := startNode(t, v.log.Writer(), kind, 2)
	v.chain, v.node, v.within = n.facts, n.Client, settleWithin
	n.blocks.Lock()
	for range 60 { // empty blocks, so that fees are tips, and runs compare
		must.OK(t, n.mine())
	}
	n.blocks.Unlock()
	args := n.flags(t)
	for _, habit := range []fault.Habit{bad, slow(slowly), slow(slowly)} {
		g := &fault.Gateway{Node: n.facts.RPCURL}
		g.Habit.Store(&habit)
		server := httptest.NewServer(g)
		t.Cleanup(func() { _ = server.Listener.Close(); server.CloseClientConnections() })
		args = append(args, "--rpc", server.URL)
	}
	must.OK(t, v.open(ctx, t, remit, args...))
	defer v.server.Kill()
	asked, hashes := make([]time.Time, payments), make([]string, payments)
	pace := time.NewTicker(150 * time.Millisecond)
	defer pace.Stop()
	must.OK(t, each(ctx, 32, payments, func(ctx context.Context, i int) error {
		<-pace.C
		asked[i] = time.Now()
		p, err := ask(ctx, v.merchant, i)
		if hashes[i] = p.TxHash; err != nil {
			v.breaks("refused", "%d: %v", i, err)
		}
		return nil
	}))
	confirmed := func(hash string) bool { return v.hooks.of(hash).Type == "payment.confirmed" }
	for deadline := time.Now().Add(settleWithin); time.Now().Before(deadline); sleep(ctx, 200*time.Millisecond) {
		if !slices.ContainsFunc(hashes, func(hash string) bool { return hash != "" && !confirmed(hash) }) {
			break
		}
	}
	for i, hash := range hashes {
		if e := v.hooks.of(hash); confirmed(hash) {
			fee, _ := strconv.ParseInt(string(e.Data.NetworkFee), 10, 64) // null, 0: the nodes differ on it
			o.times, o.fees = append(o.times, e.at.Sub(asked[i])), append(o.fees, fee)
		} else if hash != "" {
			o.open = append(o.open, hash+" "+e.Type)
		}
	}
	slices.Sort(o.times)
	slices.Sort(o.fees)
	o.refused = v.broken["refused"]
	return o
}
