package sdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
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
	env     []string
	state   string
	log     *buffer
	servers [2]server
	hashes  []string // of its payments, in order
	refused string   // the code that ended it, if one did

	mu    sync.Mutex
	calls map[string]int
}

// A server is a process of `remit mcp`; zero if none runs.
type server struct {
	session *mcp.ClientSession
	kill    func()
}

// A buffer takes the words of many processes.
type buffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (a *agent) payee() string {
	return common.BigToAddress(big.NewInt(int64(0x5e000000 + a.number))).Hex()
}

// bills is how many payments it wants, and amount how much each is; the key's limit is 1,000 tokens.
func (a *agent) bills() int { return 1 + a.number%10/9 }

func (a *agent) amount() string {
	if a.number%10 == 4 {
		return fmt.Sprint(1001 + a.number)
	}
	return fmt.Sprintf("%d.%06d", 1+a.number/1000, a.number)
}

// connect starts the server, unless it runs.
func (a *agent) connect(s *server) error {
	if s.session != nil {
		return nil
	}
	cmd := command(a.T, language{dir: "."}, a.log, remitPath, "mcp", "--state", a.state)
	cmd.Env = append(cmd.Env, a.env...)
	client := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil)
	session, err := client.Connect(a.Context(), &mcp.CommandTransport{Command: cmd, TerminateDuration: time.Second}, nil)
	if err == nil {
		*s = server{session, func() { _ = cmd.Process.Kill() }}
	}
	return err
}

// A call is one of the tool pay, with its time, and the time after which the server is killed (0 is never).
type call struct {
	args        map[string]any
	wait, death time.Duration
	hash        string
	err         error
}

func (a *agent) ask(bill, step int) *call {
	intent := fmt.Sprintf("invoice %d/%d", a.number, bill)
	c := &call{args: map[string]any{"intent": intent, "to": a.payee(), "amount": a.amount()}, wait: time.Minute}
	if a.draw.IntN(3) == 0 {
		c.args["intent"] = fmt.Sprintf("Invoice No. %d/%d, try %d", a.number, bill, step)
	}
	if a.draw.IntN(4) == 0 {
		c.args["reference"] = fmt.Sprint("bill ", a.number)
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

func (a *agent) count(words ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, word := range words {
		a.calls[word]++
	}
}

// pay makes a call of a server.
func (a *agent) pay(s *server, c *call) {
	if c.err = a.connect(s); c.err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(a.Context(), c.wait)
	defer cancel()
	var death *time.Timer
	if c.death > 0 {
		death = time.AfterFunc(c.death, s.kill)
	}
	result, err := s.session.CallTool(ctx, &mcp.CallToolParams{Name: "pay", Arguments: c.args})
	a.count("calls")
	if death != nil && !death.Stop() {
		a.count("servers killed")
		_ = s.session.Close()
		s.session = nil
	}
	if c.err = err; err != nil {
		a.count("without an answer")
		return
	}
	text := result.Content[0].(*mcp.TextContent).Text
	var said struct {
		Payment struct {
			Hash string `json:"tx_hash"`
		}
		Next string
	}
	if result.IsError {
		c.err = errors.New(text)
		said.Next = text
	} else {
		c.err = json.Unmarshal([]byte(text), &said)
	}
	c.hash = said.Payment.Hash
	a.count(strings.Join(strings.Fields(said.Next)[:2], " "))
}

// work goes on until all bills have a hash, or a limit refuses one.
func (a *agent) work() {
	var last error
	for step := 0; a.refused == "" && len(a.hashes) < a.bills(); step++ {
		if step == 60 {
			a.Errorf("agent %d: after %d calls: %v", a.number, step, last)
			return
		}
		bill := len(a.hashes)
		calls := []*call{a.ask(bill, step)}
		switch a.draw.IntN(5) {
		case 0:
			calls = append(calls, a.ask(bill, step+1000)) // at once, by the other server
		case 1:
			calls[0] = a.ask(0, step) // once more
		}
		var paying sync.WaitGroup
		for i, c := range calls {
			paying.Go(func() { a.pay(&a.servers[i], c) })
		}
		paying.Wait()
		for _, c := range calls {
			if last = c.err; c.err != nil {
				for _, code := range []string{"daily_limit_exceeded", "amount_above_maximum"} {
					if strings.HasPrefix(c.err.Error(), "nothing was started") && strings.Contains(c.err.Error(), code) {
						a.refused = code
					}
				}
			} else if len(a.hashes) == bill && !slices.Contains(a.hashes, c.hash) && a.draw.IntN(4) > 0 { // else it forgets what it was told
				a.hashes = append(a.hashes, c.hash)
			}
		}
	}
	for i := range a.servers {
		if a.servers[i].session != nil {
			_ = a.servers[i].session.Close()
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
	all, log, state := make([]*agent, n), &buffer{}, t.TempDir()
	var working sync.WaitGroup
	turns := make(chan struct{}, 50)
	for i := range all {
		all[i] = &agent{T: t, number: i, draw: rand.New(rand.NewPCG(*seed, uint64(1000+i))), state: state, log: log, calls: map[string]int{},
			env: []string{"REMIT_URL=" + url, "REMIT_API_KEY=" + key}}
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
		for word, n := range a.calls {
			calls[word] += n
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
