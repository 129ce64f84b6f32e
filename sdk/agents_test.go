package sdk_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"

	"github.com/remit-payouts/remit/internal/proof/must"
	remit "github.com/remit-payouts/remit/sdk/go"
)

// An agent pays a bill, or two of one amount, through two servers of `remit mcp`. Its calls time
// out and overlap, its servers are killed, it words the intent anew, repeats an old one, and
// forgets its payments.
type agent struct {
	*testing.T
	number  int
	payee   string
	amount  string // of each bill; the key's limit is 1,000 tokens
	bills   int    // how many payments it wants
	draw    *rand.Rand
	mcp     language // runs a server
	servers [2]server
	hashes  []string // of its payments, in order
	named   string   // an intent that it is told to repeat
	refused string   // the code that ended it, if one did
}

// A server is a process of `remit mcp`; zero if none runs.
type server struct {
	*mcp.ClientSession
	kill func()
}

// A call is one of the tool pay. The agent waits that long, and the server is killed after death.
type call struct {
	args        map[string]any
	wait, death time.Duration
	hash        string
	err         error
}

func (a *agent) ask(bill, step int) *call {
	c := &call{args: map[string]any{"intent": fmt.Sprintf("invoice %d/%d", a.number, bill), "to": a.payee, "amount": a.amount},
		wait: time.Minute, death: time.Hour}
	if a.draw.IntN(3) == 0 {
		c.args["intent"] = fmt.Sprintf("Invoice No. %d/%d, try %d", a.number, bill, step)
	}
	if a.named != "" {
		c.args["intent"], a.named = a.named, ""
	}
	if bill > 0 {
		c.args["different_from"] = a.hashes[0]
	}
	if a.draw.IntN(3) == 0 {
		c.wait = time.Duration(20+a.draw.IntN(2000)) * time.Millisecond
	}
	if a.draw.IntN(4) == 0 {
		c.death = time.Duration(20+a.draw.IntN(1500)) * time.Millisecond
	}
	return c
}

// pay makes a call of a server, which it starts unless it runs.
func (a *agent) pay(s *server, c *call) {
	if s.ClientSession == nil {
		cmd := command(a.T, a.mcp, nil, a.mcp.driver...)
		s.kill = func() { _ = cmd.Process.Kill() }
		s.ClientSession, c.err = mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil).
			Connect(a.Context(), &mcp.CommandTransport{Command: cmd, TerminateDuration: time.Second}, nil)
		if c.err != nil {
			return
		}
	}
	ctx, cancel := context.WithTimeout(a.Context(), c.wait)
	defer cancel()
	death := time.AfterFunc(c.death, s.kill)
	result, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "pay", Arguments: c.args})
	if !death.Stop() {
		_ = s.Close()
		*s = server{}
	}
	if c.err = err; err != nil {
		return
	}
	text := result.Content[0].(*mcp.TextContent).Text
	var made struct{ Payment remit.Payment }
	if c.err = json.Unmarshal([]byte(text), &made); result.IsError {
		c.err = errors.New(text)
	}
	c.hash = made.Payment.TxHash
}

// advice has the limit that refuses a bill, or the intent to repeat.
var advice = regexp.MustCompile(`^this call started nothing.*(daily_limit_exceeded|amount_above_maximum)|` +
	`call pay with its intent "([^"]+)" and reference`)

// work goes on until all bills have a hash, or a limit refuses one.
func (a *agent) work() error {
	for step := 0; a.refused == "" && len(a.hashes) < a.bills; step++ {
		bill := len(a.hashes)
		calls := []*call{a.ask([]int{bill, bill, bill, bill, 0}[a.draw.IntN(5)], step)} // 0: perhaps once more
		if a.draw.IntN(5) == 0 {
			calls = append(calls, a.ask(bill, step+1000)) // at once, by the other server
		}
		var paying sync.WaitGroup
		for i, c := range calls {
			paying.Go(func() { a.pay(&a.servers[i], c) })
		}
		paying.Wait()
		for _, c := range calls {
			if found := advice.FindStringSubmatch(fmt.Sprint(c.err)); found != nil {
				a.refused, a.named = cmp.Or(a.refused, found[1]), found[2]
			}
			forgets := a.draw.IntN(4) == 0
			if c.err == nil && len(a.hashes) == bill && !slices.Contains(a.hashes, c.hash) && !forgets {
				a.hashes = append(a.hashes, c.hash)
			}
		}
		if step == 60 {
			return fmt.Errorf("agent %d: after %d calls: %w", a.number, step, calls[0].err)
		}
	}
	for _, s := range a.servers {
		if s.ClientSession != nil {
			_ = s.Close()
		}
	}
	return nil
}

// agents lets n agents pay, 50 at a time.
func agents(t *testing.T, n int, url, key string) []*agent {
	all, env := make([]*agent, n), []string{"REMIT_URL=" + url, "REMIT_API_KEY=" + key}
	mcp := language{"mcp", []string{remitPath, "mcp", "--state", t.TempDir()}, ".", env}
	var working errgroup.Group
	working.SetLimit(50)
	for i := range all {
		all[i] = &agent{T: t, number: i, payee: fmt.Sprintf("0x%040x", 0x5e000000+i), amount: fmt.Sprintf("%d.%06d", 1+i/1000, i),
			bills: 1 + i%10/9, draw: rand.New(rand.NewPCG(*seed, uint64(1000+i))), mcp: mcp}
		if i%10 == 4 {
			all[i].amount = fmt.Sprint(1001 + i)
		}
		working.Go(all[i].work)
	}
	if err := working.Wait(); err != nil {
		t.Error(err)
	}
	return all
}

// judgeAgents adds the agents' payments to want, and checks which limits refused the others.
func judgeAgents(t *testing.T, all []*agent, limit int, want map[string]int) {
	told, refused := 0, map[string]int{}
	for _, a := range all {
		if n := len(a.hashes); n > 0 {
			want[fmt.Sprint(a.payee, " ", must.Get(remit.ParseUnits(a.amount, 6))(t))] = n
			told += n
		}
		if refused[a.refused]++; (a.refused == "amount_above_maximum") != (a.number%10 == 4) {
			t.Errorf("agent %d was refused %q after %q", a.number, a.refused, a.hashes)
		}
	}
	t.Logf("agents: %d payments, limit %d; ended by %v", told, limit, refused)
	if told > limit || refused["daily_limit_exceeded"] == 0 {
		t.Errorf("%d payments with a limit of %d, %v", told, limit, refused)
	}
}
