package fault_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/fault"
	"github.com/remit-payouts/remit/internal/sandbox/interpose"
)

// TestEveryHabitDoesWhatItSays asks a node through a gateway of each habit.
func TestEveryHabitDoesWhatItSays(t *testing.T) {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var c fault.Call
		must.OK(t, json.NewDecoder(r.Body).Decode(&c))
		results := map[string]string{"eth_getTransactionReceipt": `{"status":"0x1","blockNumber":"0x20"}`, "eth_getTransactionCount": "null"}
		if c.Method == "eth_getTransactionCount" {
			results[c.Method] = string(c.Params[len(c.Params)-1])
		}
		results["eth_getBlockByNumber"] = fmt.Sprintf(`{"number":%s,"hash":"0x00"}`, append(c.Params, json.RawMessage("0"))[0])
		must.Get(fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, c.ID, results[c.Method]))(t)
	}))
	defer node.Close()
	const count, receipt = `["eth_getTransactionCount","0x0","latest"]`, `["eth_getTransactionReceipt","0x1"]`
	for name, row := range map[string]struct {
		habit       *fault.Habit
		asked, want string
	}{
		"none":              {nil, count, `200 [{"jsonrpc":"2.0","id":0,"result":"latest"}]`},
		"down":              {fault.Down(), count, "EOF"},
		"hangs":             {fault.Hanging(), count, "EOF"},
		"a small batch":     {fault.Batches(1, 413), count, `"result":"latest"`},
		"too large":         {fault.Batches(1, 413), count + "," + count, "413 batch"},
		"a wrong status":    {fault.Receipts(fault.Reverted), receipt, `"status":"0x0"`},
		"no receipt":        {fault.Receipts(fault.Reverted), count, `"result":"latest"`},
		"a count on a fork": {fault.Fork(16), count, `"result":"0xf"`},
		"a receipt there":   {fault.Fork(16), receipt, `"result":null`},
		"a block there": {fault.Fork(16), `["eth_getBlockByNumber","0x10"]`,
			`"number":"0x10","transactions":[]}`},
		"a block before": {fault.Fork(16), `["eth_getBlockByNumber","0x9"]`, `"result":{"number":"0x9","hash":"0x00"}`},
	} {
		g := &fault.Gateway{Node: node.URL}
		g.Habit.Store(row.habit)
		server := httptest.NewServer(g)
		if name == "hangs" {
			time.AfterFunc(200*time.Millisecond, server.CloseClientConnections)
		}
		var lines [][]json.RawMessage
		must.OK(t, json.Unmarshal([]byte("["+row.asked+"]"), &lines))
		calls := []fault.Call{}
		for i, line := range lines {
			calls = append(calls, fault.Call{Version: "2.0", ID: fmt.Append(nil, i), Method: strings.Trim(string(line[0]), `"`), Params: line[1:]})
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
		if !strings.Contains(got, row.want) {
			t.Errorf("%s: answered %.300s, want %s", name, got, row.want)
		}
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
			if end := fault.HasEnded(ctx); end != errors.Is(err, fault.ErrEnded) || !end && len(reached) == before {
				t.Errorf("cut at %+v: %s is answered %v", cut, op, err)
			}
		}
		if reached != want {
			t.Errorf("cut at %+v: reached %s, want %s", cut, reached, want)
		}
		must.OK(t, fault.Around(t.Context(), interpose.Call{Op: "Commit"}, func(context.Context) {}))
	}
}
