// Package console serves a page that shows a stack on AWS to its operator. It only reads,
// within a budget of calls.
package console

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/cli/operator/dossier"
	"github.com/remit-payouts/remit/internal/cli/page"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
)

// Command is `remit console`.
type Command struct {
	deployed.Target
	Listen string `default:"127.0.0.1:8430" help:"Loopback address of the page."`
	Calls  int    `default:"60" help:"Most calls to AWS and nodes in any minute, retries included."`
}

// Bounds of a console, which must at least afford one timeline.
const (
	leastCalls = 20
	findWithin = 15 * time.Second // how long it looks into a payment
	breather   = 5 * time.Second  // between rounds, at least
	refresh    = 5 * time.Minute  // how long nodes and the stack's resources are taken to be the same
	overdue    = 5                // payments under way that are named
)

// Run serves the page until ctx ends. It reads, and changes nothing.
func (c *Command) Run(ctx context.Context, out io.Writer, d *deployed.Deployment) error {
	host, _, err := net.SplitHostPort(c.Listen)
	switch {
	case d.Account == nil:
		return fmt.Errorf("remit local has its own page; open %s", d.Stack)
	case err != nil || !page.Loopback(host):
		return fmt.Errorf("--listen %s is not a loopback address; use one such as 127.0.0.1:8430", c.Listen)
	case c.Calls < leastCalls:
		return fmt.Errorf("--calls %d is too few; use %d or more, the calls of one payment's timeline", c.Calls, leastCalls)
	}
	calls := &budget{most: c.Calls}
	if err := calls.take(); err != nil { // which has found the stack
		return err
	}
	if d, err = d.Over(calls.reading(d.Account.AWS), counted{calls, ethrpc.NewTransport()}); err != nil {
		return err
	}
	k := &console{Deployment: d, budget: calls}
	k.view.pending, k.view.Wallets, k.view.Nodes, k.view.Alarms.All = []pendingPayment{}, []page.Wallet{}, []nodeHealth{}, []alarm{}
	k.conclude()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("listening on %s: %w", c.Listen, err)
	}
	own, token := "http://"+listener.Addr().String(), rand.Text()
	mux := http.NewServeMux()
	page.Routes(mux, k, ctx.Done())
	server := &http.Server{Handler: page.Guard(own, page.Login(own, token, mux)), ReadHeaderTimeout: 10 * time.Second,
		ErrorLog: slog.NewLogLogger(slog.NewTextHandler(os.Stderr, nil), slog.LevelDebug)}
	var running sync.WaitGroup
	running.Go(func() { k.follow(ctx) })
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if _, err := fmt.Fprintf(out, "Console of stack %s: %s/?token=%s\nIt reads, and changes nothing. Ctrl-C ends it.\n", d.Stack, own,
		token); err != nil {
		return err
	}
	err = server.Serve(listener)
	running.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// A console is the page of a stack on AWS and what it knows of it.
type console struct {
	*deployed.Deployment
	budget *budget

	// Of the loop that follows the stack alone.
	opened   time.Time // when the nodes and the names of alarms were read
	open     chain.Nodes
	declared map[string]bool

	mu   sync.Mutex
	view consoleView
}

// A consoleView is what the page of a console shows. Every part is replaced whole.
type consoleView struct {
	pending []pendingPayment
	States  struct {
		Ages   []ageCount       `json:"ages"` // of what is under way
		Oldest []pendingPayment `json:"oldest"`
	} `json:"states"`
	Payments []page.Row    `json:"payments"`
	Wallets  []page.Wallet `json:"wallets"`
	Nodes    []nodeHealth  `json:"nodes"`
	Alarms   struct {
		All []alarm `json:"all"`
		At  int64   `json:"at"`
	} `json:"alarms"`
	Lines []page.Line `json:"lines"`
	Calls struct {
		Used int `json:"used"`
		Most int `json:"most"`
	} `json:"calls"`
}

type ageCount struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// A pendingPayment has a pending transaction: it is under way, or its end is not published yet.
type pendingPayment struct {
	ID     payment.ID    `json:"id"`
	Since  int64         `json:"since"`
	Wallet token.Address `json:"wallet"`
	Nonce  uint64        `json:"nonce"`
	row    page.Row
}

type nodeHealth struct {
	Name  string `json:"name"`
	Head  uint64 `json:"head"`
	Final uint64 `json:"final"`
	MS    int64  `json:"ms"`
	Error string `json:"error"`
}

type alarm struct {
	Name  string `json:"name"`
	State string `json:"state"`
	Since int64  `json:"since"`
	Why   string `json:"why"`
}

func (k *console) Facts() any {
	return map[string]any{"name": "console of " + k.Stack,
		"parts":  []string{"states", "nodes", "alarms", "wallets", "log", "calls", "merchant"},
		"symbol": k.Asset.Symbol, "decimals": k.Asset.Decimals, "token": k.Asset.Contract, "rule": k.Config.ConfirmationRule.String(),
		"gas": page.Gas(k.Config.GasUnit, k.Asset), "listed": page.Listed}
}

func (k *console) Update() any {
	k.budget.mu.Lock()
	used := k.budget.used()
	k.budget.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.view.Calls.Used, k.view.Calls.Most = used, k.budget.most
	return k.view
}

// follow keeps the view up to date until ctx ends. A step waits until the budget has
// room for it: the more there is to read, the longer a round takes.
func (k *console) follow(ctx context.Context) {
	reported, lines := map[string]string{}, 0
	for ctx.Err() == nil {
		for _, step := range []struct {
			name string
			do   func(context.Context) error
		}{
			{"nodes", k.readNodes}, {"wallets", k.readWallets}, {"alarms", k.readAlarms},
		} {
			text := ""
			if err := step.do(ctx); err != nil && ctx.Err() == nil {
				text = "reading the " + step.name + ": " + err.Error()
			}
			k.mu.Lock()
			if text != "" && text != reported[step.name] {
				lines++
				k.view.Lines = append(slices.Clone(k.view.Lines[max(0, len(k.view.Lines)-page.Listed):]),
					page.Line{N: lines, At: time.Now().UnixMilli(), Kind: "bad", Text: text})
			}
			reported[step.name] = text
			k.conclude()
			k.mu.Unlock()
		}
		_ = deployed.Wait(ctx, breather)
	}
}

// conclude sorts the payments under way by age. The caller holds the lock.
func (k *console) conclude() {
	now, s := time.Now(), &k.view.States
	s.Ages = []ageCount{{"under a minute", 0}, {"1 to 5 minutes", 0}, {"5 minutes to an hour", 0}, {"over an hour", 0}}
	k.view.Payments = []page.Row{}
	for _, p := range k.view.pending {
		i := 0
		for _, bound := range []time.Duration{time.Minute, 5 * time.Minute, time.Hour} {
			if now.Sub(time.UnixMilli(p.Since)) >= bound {
				i++
			}
		}
		s.Ages[i].Count++
		k.view.Payments = append(k.view.Payments, p.row)
	}
	s.Oldest = slices.Clone(k.view.pending[:min(len(k.view.pending), overdue)])
	k.view.Payments = k.view.Payments[max(0, len(k.view.Payments)-page.Listed):]
}

func (k *console) Timeline(ctx context.Context, find, merchant string) (page.Timeline, error) {
	ctx, cancel := context.WithTimeout(ctx, findWithin)
	defer cancel()
	p, err := dossier.Find(ctx, k.Deployment, find, merchant)
	if err != nil {
		return page.Timeline{}, err
	}
	nodes, _, err := k.Nodes(ctx)
	if err != nil {
		return page.Timeline{}, err
	}
	timeline, err := page.TimelineOf(ctx, page.RowOf(p), p, k.Payments, nodes)
	if err != nil {
		return page.Timeline{}, err
	}
	known, err := dossier.Of(ctx, k.Deployment, p)
	if err != nil {
		return page.Timeline{}, err
	}
	if len(known.Deliveries) > 0 {
		timeline.Deliveries = known.Deliveries
	}
	if p.State.Final() && !known.PendingTx {
		timeline.Payment.At[page.Published] = page.Once
	}
	note := func(name, value string) {
		if value != "" {
			timeline.Notes = append(timeline.Notes, [2]string{name, value})
		}
	}
	note("Merchant", p.Merchant)
	note("Reference", p.Reference)
	if p.Failure != nil {
		note("Failure", string(p.Failure.Code)+": "+p.Failure.Message)
	}
	if known.Reserve != nil {
		note("Reservation", fmt.Sprintf("nonce %d since %s", known.Reserve.Nonce, known.Reserve.At))
	}
	note("Pending transaction", map[bool]string{true: "stored: it is sent until it is mined and published"}[known.PendingTx])
	return timeline, nil
}
