package fault_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/remit-payouts/remit/internal/payments/interpose"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/fault"
	remit "github.com/remit-payouts/remit/sdk/go"
)

// TestEveryHabitDoesWhatItSays asks a node through a gateway of each habit.
func TestEveryHabitDoesWhatItSays(t *testing.T) {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var c struct {
			ID     json.RawMessage
			Method string
			Params []json.RawMessage
		}
		must.OK(t, json.NewDecoder(r.Body).Decode(&c))
		results := map[string]string{"eth_feeHistory": `{"baseFeePerGas":["0x1","0x2"]}`,
			"eth_getTransactionReceipt": `{"status":"0x1","logs":[{}],"blockNumber":"0x20"}`,
			"eth_estimateGas":           `"0x5208"`, "eth_getTransactionCount": strconv.Quote(strings.Trim(string(c.Params[len(c.Params)-1]), `"`)),
			"eth_sendRawTransaction": `"sent"`, "eth_getBalance": `"0x1"`}
		results["eth_getBlockByNumber"] = fmt.Sprintf(`{"number":%s,"hash":"0x00"}`, append(c.Params, json.RawMessage("0"))[0])
		must.Get(fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, c.ID, results[c.Method]))(t)
	}))
	defer node.Close()
	signer := must.Get(crypto.GenerateKey())(t)
	gap := must.Get(types.SignNewTx(signer, types.LatestSignerForChainID(common.Big1),
		&types.DynamicFeeTx{ChainID: common.Big1, Nonce: math.MaxInt64, To: &common.Address{}, Gas: 21_000}))(t)
	signed := must.Get(gap.MarshalBinary())(t)
	raw := hexutil.Encode(signed)
	ask := map[string]string{ // the calls of a request, with their number where it is not 1
		"none": `["eth_getTransactionCount","0x0","pending"]`, "10 calls a batch": "11", "3 calls a batch": "4", "no batches": "2",
		"receipts without logs": `["eth_getTransactionReceipt","0x1"]`, "receipts with a wrong status": `["eth_getTransactionReceipt","0x1"]`,
		"one base fee instead of two": `["eth_feeHistory","0x1"]`, "21,500 gas for a no-op": `["eth_sendRawTransaction","` + raw + `"]`,
		"a gap is held for one second": `["eth_sendRawTransaction","` + raw + `"]`,
		"latest for pending":           `["eth_getTransactionCount","0x0","pending"]`,
		"batches out of order":         "2", "100 calls a second": "400", "3 calls a batch, 20 requests a second": "4",
		"every third request hangs": "", "a placeholder for ether": `["eth_getBalance","0x0","latest"]`,
	}
	want := map[string]string{
		"none": `200 [{"jsonrpc":"2.0","id":0,"result":"pending"}]`, "10 calls a batch": `200 {"jsonrpc":"2.0","error":{"code":-32014,`,
		"3 calls a batch": "413 batch", "no batches": "400 batch",
		"receipts without logs": `"logs":[]`, "receipts with a wrong status": `"status":"0x0"`,
		"one base fee instead of two": `{"baseFeePerGas":["0x1"]}`,
		"21,500 gas for a no-op":      "intrinsic gas too low: have 21000, want 21500", "a gap is held for one second": "nonce too high",
		"latest for pending": `"result":"latest"`, "a placeholder for ether": `"result":"0x9612084f`,
		"batches out of order": `200 [{"jsonrpc":"2.0","id":1,`, "100 calls a second": `{"code":429,"message":"over rate limit"}}`,
		"3 calls a batch, 20 requests a second": "413 batch",
		"every third request hangs":             "EOF",
	}
	ask["one of two nodes down"], want["one of two nodes down"] = "1", "EOF"
	ask["down"], want["down"], ask["hangs"], want["hangs"] = "1", "EOF", "1", "EOF"
	ask["on a fork"], want["on a fork"] = `["eth_getTransactionCount","0x0","latest"],["eth_getTransactionReceipt","0x1"],["eth_getBlockByNumber","0x10"],["eth_getBlockByNumber","0x9"]`, `"result":"0xf"},{"jsonrpc":"2.0","id":1,"result":null},{"jsonrpc":"2.0","id":2,"result":{"hash":"`+hexutil.Encode(crypto.Keccak256([]byte("0x00")))+`","number":"0x10","transactions":[]}},{"jsonrpc":"2.0","id":3,"result":{"number":"0x9","hash":"0x00"}}`
	for _, h := range append(slices.Clone(fault.Habits), *fault.Down(), *fault.Hanging(), *fault.Fork(16)) {
		g := &fault.Gateway{Node: node.URL}
		g.Habit.Store(&h)
		server := httptest.NewServer(g)
		if strings.Contains(h.Name, "hangs") {
			g.Requests.Store(2)
			time.AfterFunc(200*time.Millisecond, server.CloseClientConnections)
		}
		if asked := ask[h.Name]; !strings.HasPrefix(asked, "[") {
			n, _ := strconv.Atoi(asked)
			ask[h.Name] = strings.TrimSuffix(strings.Repeat(`["eth_getTransactionCount","0x0","latest"],`, n), ",")
		}
		type call struct {
			Version string            `json:"jsonrpc"`
			ID      int               `json:"id"`
			Method  string            `json:"method"`
			Params  []json.RawMessage `json:"params"`
		}
		calls := []call{}
		var lines [][]json.RawMessage
		must.OK(t, json.Unmarshal([]byte("["+ask[h.Name]+"]"), &lines))
		for i, line := range lines {
			calls = append(calls, call{"2.0", i, strings.Trim(string(line[0]), `"`), line[1:]})
		}
		body, _ := json.Marshal(calls)
		got := ""
		if response, err := http.Post(server.URL, "application/json", bytes.NewReader(body)); err != nil {
			got = err.Error()
		} else {
			text, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			got = fmt.Sprint(response.StatusCode, " ", strings.TrimSpace(string(text)))
		}
		server.CloseClientConnections()
		_ = server.Listener.Close() // without waiting for a node that hangs
		if !strings.Contains(got, want[h.Name]) || want[h.Name] == "" {
			t.Errorf("%s: answered %.300s, want %s", h.Name, got, want[h.Name])
		}
	}
}

func TestEveryModeDoesToAServiceWhatItSays(t *testing.T) {
	for _, row := range []struct {
		mode        fault.Mode
		told        string // the client's answer, "" for an error
		asked, lost int64  // requests that the service got, and answers that did not arrive
	}{{fault.Pass, "done", 1, 0}, {fault.Reset, "", 0, 0}, {fault.Slow, "done", 1, 0}, {fault.Mute, "", 1, 1}, {fault.Stall, "", 1, 1},
		{fault.Fail, "this receiver is broken\n", 0, 0}} {
		var asked atomic.Int64
		service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			_, _ = io.WriteString(w, "done")
		}))
		p := fault.NewProxy(service.URL)
		front := httptest.NewServer(p)
		p.Set(row.mode)
		told := make(chan string, 1)
		go func() {
			answer, _ := (&remit.Client{URL: front.URL,
				HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}).Call(t.Context(), "POST", "/", "do")
			told <- string(answer.Body)
		}()
		if row.mode == fault.Stall {
			for p.Lost.Load() == 0 {
				time.Sleep(time.Millisecond) // until the answer has come and was swallowed
			}
			if len(told) > 0 {
				t.Error("the client was told while answers are held")
			}
			p.Set(fault.Pass)
		}
		if got := <-told; got != row.told || asked.Load() != row.asked || p.Lost.Load() != row.lost || (p.Resets.Load() > 0) != (got == "") {
			t.Errorf("%v: answered %q, asked %d times, %d answers lost, %d resets; want %+v", row.mode, got, asked.Load(), p.Lost.Load(),
				p.Resets.Load(), row)
		}
		front.Close()
		p.Close()
		service.Close()
	}
}

// TestAnEndedProcessReachesNothing: a process ends before or after the call at which it
// is cut, and no later call of its ports is made. Another process goes on.
func TestAnEndedProcessReachesNothing(t *testing.T) {
	for cut, want := range map[fault.Cut]string{
		{}:                           "CreateReserveCommitSend",
		{Op: "Reserve"}:              "CreateReserve",
		{Op: "Commit"}:               "CreateReserveCommit",
		{Op: "Send", Before: true}:   "CreateReserveCommit",
		{Op: "Create", Before: true}: "",
	} {
		reached, p := "", fault.NewProcess(cut)
		ctx := context.WithoutCancel(p.With(t.Context()))
		for _, op := range []string{"Create", "Reserve", "Commit", "Send"} {
			before := len(reached)
			err := fault.Around(ctx, interpose.Call{Op: op}, func(context.Context) { reached += op })
			if ended := fault.HasEnded(ctx); ended != errors.Is(err, fault.ErrEnded) || !ended && len(reached) == before {
				t.Errorf("cut at %+v: %s is answered %v", cut, op, err)
			}
		}
		if reached != want {
			t.Errorf("cut at %+v: reached %s, want %s", cut, reached, want)
		}
		must.OK(t, fault.Around(t.Context(), interpose.Call{Op: "Commit"}, func(context.Context) {}))
	}
}
