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
	"github.com/remit-payouts/remit/internal/proof/tabletest"
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
	habits := map[string]*fault.Habit{"down": fault.Down(), "hangs": fault.Hanging(), "batches of one": fault.Batches(1, 413),
		"receipts reverted": fault.Receipts(fault.Reverted), "fork at 16": fault.Fork(16)}
	words := map[string]string{"count": `["eth_getTransactionCount","0x0","latest"]`, "receipt": `["eth_getTransactionReceipt","0x1"]`}
	tabletest.Run(t, words, func(t *testing.T, c tabletest.Case) {
		g := &fault.Gateway{Node: node.URL}
		g.Habit.Store(habits[c.In[0]])
		server := httptest.NewServer(g)
		if c.In[0] == "hangs" {
			time.AfterFunc(200*time.Millisecond, server.CloseClientConnections)
		}
		var lines [][]json.RawMessage
		must.OK(t, json.Unmarshal([]byte("["+c.In[1]+"]"), &lines))
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
		if !strings.Contains(got, c.Want) {
			t.Errorf("answered %.300s, want %s", got, c.Want)
		}
	})
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
