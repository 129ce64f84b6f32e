package sdk_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remit-payouts/remit/internal/proof/must"
	remit "github.com/remit-payouts/remit/sdk/go"
)

// An agent pays a bill, or two of one amount, through `remit mcp`. Its calls time out, its server is killed, it
// words the intent anew, and it forgets what it has paid.
type agent struct {
	*testing.T
	number  int
	draw    *rand.Rand
	env     []string
	state   string
	log     *buffer
	session *mcp.ClientSession
	kill    func()
	hashes  []string // of its payments, in order
	refused string   // the code that ended it, if one did
	calls   map[string]int
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
func (a *agent) connect() error {
	if a.session != nil {
		return nil
	}
	cmd := command(a.T, language{dir: "."}, a.log, remitPath, "mcp", "--state", a.state)
	cmd.Env = append(cmd.Env, a.env...)
	client := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil)
	session, err := client.Connect(a.Context(), &mcp.CommandTransport{Command: cmd, TerminateDuration: time.Second}, nil)
	if err == nil {
		a.session, a.kill = session, func() { _ = cmd.Process.Kill() }
	}
	return err
}

// pay calls the tool once, and returns the hash it answers.
func (a *agent) pay(args map[string]any) (hash string, err error) {
	if err := a.connect(); err != nil {
		return "", err
	}
	wait := time.Minute
	if a.draw.IntN(3) == 0 {
		wait = time.Duration(20+a.draw.IntN(2000)) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(a.Context(), wait)
	defer cancel()
	var death *time.Timer
	if a.draw.IntN(4) == 0 {
		death = time.AfterFunc(time.Duration(20+a.draw.IntN(1500))*time.Millisecond, a.kill)
	}
	result, err := a.session.CallTool(ctx, &mcp.CallToolParams{Name: "pay", Arguments: args})
	a.calls["pay"]++
	if death != nil && !death.Stop() {
		a.calls["killed"]++
		_ = a.session.Close()
		a.session = nil
	}
	if err != nil {
		a.calls["no answer"]++
		return "", err
	}
	text := result.Content[0].(*mcp.TextContent).Text
	if result.IsError {
		for _, code := range []string{"daily_limit_exceeded", "amount_above_maximum"} {
			if strings.Contains(text, code) {
				a.refused = code
			}
		}
		a.calls["error"]++
		return "", fmt.Errorf("%s", text)
	}
	var said struct {
		Payment struct {
			Hash string `json:"tx_hash"`
		}
		Next string
	}
	err = json.Unmarshal([]byte(text), &said)
	a.calls[strings.SplitN(said.Next, " ", 2)[0]]++
	return said.Payment.Hash, err
}

// work goes on until all bills have a hash, or a limit refuses one.
func (a *agent) work() {
	var last error
	for step := 0; a.refused == "" && len(a.hashes) < a.bills(); step++ {
		if step == 60 {
			a.Errorf("agent %d: after %d calls: %v", a.number, step, last)
			return
		}
		args := map[string]any{"intent": fmt.Sprintf("invoice %d/%d", a.number, len(a.hashes)), "to": a.payee(), "amount": a.amount()}
		if a.draw.IntN(3) == 0 {
			args["intent"] = fmt.Sprintf("Invoice No. %d/%d, try %d", a.number, len(a.hashes), step)
		}
		if len(a.hashes) > 0 {
			args["different_from"] = a.hashes[0]
		}
		hash, err := a.pay(args)
		if last = err; err == nil && a.draw.IntN(4) > 0 { // else it forgets what it was told
			a.hashes = append(a.hashes, hash)
		}
	}
	if a.refused == "" && a.connect() == nil {
		_, _ = a.session.CallTool(a.Context(), &mcp.CallToolParams{Name: "wait", Arguments: map[string]any{"tx_hash": a.hashes[0]}})
	}
	if a.session != nil {
		_ = a.session.Close()
	}
}

// agentKey makes a key that may make limit payments of at most 1,000 tokens a day.
func agentKey(t *testing.T, owner *remit.Client, limit int) string {
	return must.Get(owner.CreateKey(t.Context(), remit.IssueAPIKeyRequest{DailyCount: &limit, MaxAmount: "1000000000",
		Scopes: []remit.Scope{"payments:write", "payments:read"}}))(t).APIKey
}

// agents lets n agents pay at most 50 at a time.
func agents(t *testing.T, n int, url, key string) []*agent {
	all, log := make([]*agent, n), &buffer{}
	var working sync.WaitGroup
	turns := make(chan struct{}, 50)
	for i := range all {
		all[i] = &agent{T: t, number: i, draw: rand.New(rand.NewPCG(*seed, uint64(1000+i))), state: t.TempDir(), log: log, calls: map[string]int{},
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
