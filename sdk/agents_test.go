package sdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remit-payouts/remit/internal/proof/must"
	remit "github.com/remit-payouts/remit/sdk/go"
)

// An agent pays a bill, or two of one amount, through two servers of `remit mcp`. Its calls time out and overlap, its
// servers are killed, it words the intent anew, repeats an old one, and forgets what it has paid.
type agent struct {
	*testing.T
	number  int
	draw    *rand.Rand
	words   []string // of its servers
	env     []string
	servers [2]server
	hashes  []string       // of its payments, in order
	named   string         // an intent that it is told to repeat
	refused string         // the code that ended it, if one did
	calls   map[string]int // by how they ended
}

// A server is a process of `remit mcp`; zero if none runs.
type server struct {
	*mcp.ClientSession
	kill func()
}

func (a *agent) payee() string { return fmt.Sprintf("0x%040x", 0x5e000000+a.number) }

// bills is how many payments it wants, and amount how much each is; the key's limit is 1,000 tokens.
func (a *agent) bills() int { return 1 + a.number%10/9 }

func (a *agent) amount() string {
	if a.number%10 == 4 {
		return fmt.Sprint(1001 + a.number)
	}
	return fmt.Sprintf("%d.%06d", 1+a.number/1000, a.number)
}

// A call is one of the tool pay. The agent waits that long, and the server is killed after death.
type call struct {
	args        map[string]any
	wait, death time.Duration
	ended, hash string // how, and with what
	killed      bool
	err         error
}

func (a *agent) ask(bill, step int) *call {
	c := &call{args: map[string]any{"intent": fmt.Sprintf("invoice %d/%d", a.number, bill), "to": a.payee(), "amount": a.amount()},
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
		cmd := command(a.T, language{dir: "."}, nil, a.words...)
		cmd.Env = append(cmd.Env, a.env...)
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
	if c.killed = !death.Stop(); c.killed {
		_ = s.Close()
		*s = server{}
	}
	if c.ended, c.err = "without an answer", err; err != nil {
		return
	}
	var said struct {
		Payment remit.Payment
		Next    string
	}
	if text := result.Content[0].(*mcp.TextContent).Text; result.IsError {
		c.err, said.Next = errors.New(text), text
	} else {
		c.err = json.Unmarshal([]byte(text), &said)
	}
	c.hash, c.ended = string(said.Payment.TxHash), strings.Join(strings.Fields(said.Next)[:4], " ")
}

var named = regexp.MustCompile(`call pay with its intent "([^"]+)" and reference`)

var limits = regexp.MustCompile("^this call started nothing.*(daily_limit_exceeded|amount_above_maximum)")

// work goes on until all bills have a hash, or a limit refuses one.
func (a *agent) work() {
	for step := 0; a.refused == "" && len(a.hashes) < a.bills(); step++ {
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
			if a.calls[c.ended]++; c.killed {
				a.calls["server killed"]++
			}
			if limit := limits.FindStringSubmatch(fmt.Sprint(c.err)); limit != nil {
				a.refused = limit[1]
			}
			if half := named.FindStringSubmatch(fmt.Sprint(c.err)); half != nil {
				a.named = half[1]
			}
			forgets := a.draw.IntN(4) == 0
			if c.err == nil && len(a.hashes) == bill && !slices.Contains(a.hashes, c.hash) && !forgets {
				a.hashes = append(a.hashes, c.hash)
			}
		}
		if step == 60 {
			a.Errorf("agent %d: after %d calls: %v", a.number, step, calls[0].err)
			break
		}
	}
	for _, s := range a.servers {
		if s.ClientSession != nil {
			_ = s.Close()
		}
	}
}

// agentKey makes a key that may make limit payments of at most 1,000 tokens a day.
func agentKey(t *testing.T, owner *remit.Client, limit int) string {
	return must.Get(owner.CreateKey(t.Context(), remit.IssueAPIKeyRequest{DailyCount: &limit, MaxAmount: "1000000000",
		Scopes: []remit.Scope{"payments:write", "payments:read"}}))(t).APIKey
}

// agents lets n agents pay at most 50 at a time.
func agents(t *testing.T, n int, url, key string) []*agent {
	all, words := make([]*agent, n), []string{remitPath, "mcp", "--state", t.TempDir()}
	var working sync.WaitGroup
	turns := make(chan struct{}, 50)
	for i := range all {
		all[i] = &agent{T: t, number: i, draw: rand.New(rand.NewPCG(*seed, uint64(1000+i))), words: words,
			env: []string{"REMIT_URL=" + url, "REMIT_API_KEY=" + key}, calls: map[string]int{}}
		working.Go(func() {
			turns <- struct{}{}
			all[i].work()
			<-turns
		})
	}
	working.Wait()
	return all
}

// judgeAgents compares what the agents were told with the transfers on the chain.
func judgeAgents(t *testing.T, all []*agent, limit int, found map[string]int) {
	calls, transfers, refused := map[string]int{}, 0, map[string]int{}
	for _, a := range all {
		for how, n := range a.calls {
			calls[how] += n
		}
		amount := must.Get(remit.ParseUnits(a.amount(), 6))(t)
		n := found[fmt.Sprint(a.payee(), " ", amount)]
		transfers += n
		refused[a.refused]++
		if n != len(a.hashes) || n > a.bills() || (a.refused == "amount_above_maximum") != (a.number%10 == 4) {
			t.Errorf("agent %d: %d transfers, told of %q, wanted %d, refused %q", a.number, n, a.hashes, a.bills(), a.refused)
		}
	}
	t.Logf("agents: %d transfers, limit %d; ended by %v; %v", transfers, limit, refused, calls)
	if transfers > limit || refused["daily_limit_exceeded"] == 0 {
		t.Errorf("%d transfers with a limit of %d, %v", transfers, limit, refused)
	}
}
