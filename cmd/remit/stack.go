package main

import (
	remit "remit/internal/stack"

	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net/http"
	"sync"
	"time"

	"remit/internal/apikey"
	"remit/internal/chain"
	"remit/internal/devnet"
	"remit/internal/dispatch"
	"remit/internal/httpapi"
	"remit/internal/settlement"
	"remit/internal/token"
	"remit/internal/webhook"
	"remit/internal/webhook/guard"
)

const (
	// reservationAge is how long a reservation is left to its handler. There is one process
	// here: after a crash every reservation is an orphan.
	reservationAge = 5 * time.Second
	bumpAfter      = 3 * time.Minute
	duePage        = 100 // due deliveries pushed at once
)

// A stack is everything that serves merchants, in one process.
type stack struct {
	*localCommand
	log     *slog.Logger
	url     string
	rail    *rail
	tables  *tables
	handler http.Handler

	jobs    *jobs
	hinted  hints
	settler *settlement.Settler
	pusher  *webhook.Pusher

	quit context.CancelFunc
	wg   sync.WaitGroup
}

// build assembles the stack that is served at url. Nothing runs yet but the
// embedded chain.
func (c *localCommand) build(ctx context.Context, url string, log *slog.Logger) (*stack, error) {
	confirmationRule, err := chain.ParseConfirmationRule(c.ConfirmationRule)
	if err != nil {
		return nil, fmt.Errorf("--finality: %w", err)
	}
	limits, err := c.limits()
	if err != nil {
		return nil, err
	}
	s := &stack{localCommand: c, log: log, url: url, hinted: make(hints, 1)}
	if s.tables, err = openTables(ctx, c.DynamoDB); err != nil {
		return nil, err
	}
	s.jobs = newJobs(s.tables.jobs, log)
	if s.rail, err = c.rail(ctx, log); err != nil {
		return nil, err
	}
	sender := guard.NewClient(true)
	deliverer := webhook.NewDeliverer(s.tables.webhooks, s.jobs, sender, webhook.NoMeter{}, time.Now, mathrand.Float64)
	s.jobs.do = deliverer.Deliver
	s.pusher = webhook.NewPusher(s.tables.webhooks, s.jobs, webhook.NoMeter{})
	s.settler = settlement.New(remit.Config{
		ChainID: s.rail.chainID, Token: s.rail.coin, Window: c.Window, FeeLimit: gwei(c.MaxFeeCap), ConfirmationRule: confirmationRule,
		BlockTime: c.BlockTime, ReservationAge: reservationAge, BumpAfter: bumpAfter,
	}, settlement.Parts{
		Store: s.tables.payments, Keys: s.rail.keys, Nodes: s.rail.nodes,
		Events: webhook.NewPublisher(s.tables.webhooks, s.jobs), Log: log, Now: time.Now, Wait: wait,
	})
	dispatcher := dispatch.New(remit.Config{
		ChainID: s.rail.chainID, Token: s.rail.coin, Network: c.Network, Window: c.Window,
		Minimum: limits.minimum, Maximum: limits.maximum, Daily: limits.daily,
		FeeLimit: gwei(c.MaxFeeCap), BlockTime: c.BlockTime, ConfirmationRule: confirmationRule,
	}, dispatch.Parts{
		Store: s.tables.payments, Keys: s.rail.keys,
		Nodes: s.rail.nodes, Hints: s.hinted, Log: log, Now: time.Now, Random: rand.Reader, Draw: mathrand.IntN,
	})
	if s.handler, err = s.routes(dispatcher, sender, confirmationRule); err != nil {
		return nil, err
	}
	return s, s.jobs.recall(ctx)
}

// limits are the amounts that the flags name.
type limits struct{ minimum, maximum, daily token.Amount }

func (c *localCommand) limits() (l limits, err error) {
	for _, flag := range []struct {
		name, text string
		to         *token.Amount
	}{
		{"--minimum", c.Minimum, &l.minimum}, {"--maximum", c.Maximum, &l.maximum}, {"--daily-limit", c.DailyLimit, &l.daily},
	} {
		if *flag.to, err = token.ParseAmount(flag.text); err != nil {
			return l, fmt.Errorf("%s %s: %w", flag.name, flag.text, err)
		}
	}
	return l, nil
}

// routes serves every endpoint there is.
func (s *stack) routes(payer httpapi.Payer, sender *guard.Client, confirmationRule chain.ConfirmationRule) (http.Handler, error) {
	keys := apikey.NewBook(s.tables.keys, apikey.Test, time.Now, rand.Reader)
	book := webhook.NewBook(s.tables.webhooks, sender, time.Now, rand.Reader)
	log := webhook.NewLog(s.tables.webhooks, s.jobs, time.Now, rand.Reader)
	tester := webhook.NewTester(s.tables.webhooks, sender, time.Now, rand.Reader)
	openapi, err := description(s.url)
	if err != nil {
		return nil, err
	}
	docs, err := explorer(s.recipients())
	if err != nil {
		return nil, err
	}
	var creator httpapi.KeyCreator
	if s.KeyCreation == "public" {
		creator = keys
	}
	id := requestID
	return httpapi.NewRouter(apikey.NewAuthenticator(s.tables.keys, apikey.Test), time.Now, id,
		httpapi.CreateAPIKey(id, creator),
		httpapi.ListAPIKeys(id, keys),
		httpapi.RotateAPIKey(id, keys),
		httpapi.RevokeAPIKey(id, keys),
		httpapi.SendPayment(id, payer, s.rail.coin),
		httpapi.GetTransaction(id, s.tables.payments),
		httpapi.ListTransactions(id, s.tables.payments, s.tables.payments),
		httpapi.GetBalance(id, s.rail.nodes, s.rail.coin, s.Network, confirmationRule),
		httpapi.CreateWebhook(id, book),
		httpapi.ListWebhooks(id, book),
		httpapi.UpdateWebhook(id, book),
		httpapi.DeleteWebhook(id, book),
		httpapi.RotateWebhookSecret(id, book),
		httpapi.TestWebhook(id, tester),
		httpapi.ListDeliveries(id, log),
		httpapi.ResendDelivery(id, log),
		httpapi.Docs(id, docs),
		httpapi.OpenAPI(id, openapi),
		httpapi.Sandbox(id, s.sandbox),
	), nil
}

func requestID() string { return "req_" + rand.Text() }

// recipients are the magic ones, where there are any.
func (s *stack) recipients() []devnet.Recipient {
	if s.rail.embedded == nil {
		return nil
	}
	return devnet.Recipients()
}

// sandbox says where everything is.
func (s *stack) sandbox(ctx context.Context) (any, error) { return s.sandboxFacts(ctx) }

func (s *stack) sandboxFacts(ctx context.Context) (devnet.Facts, error) {
	facts, err := s.rail.facts(ctx)
	facts.ConfirmationRule = s.ConfirmationRule
	return facts, err
}

// start begins to settle and deliver.
func (s *stack) start() {
	ctx, quit := context.WithCancel(context.Background())
	s.quit = quit
	push := func(ctx context.Context) error {
		_, err := s.pusher.PushDue(ctx, time.Now(), duePage)
		return err
	}
	s.wg.Go(func() { settleLoop(ctx, s.settler, push, s.hinted, s.log) })
}

// stop ends what start began, then the chain.
func (s *stack) stop() error {
	s.quit()
	s.wg.Wait()
	s.jobs.close()
	var err error
	if s.rail.embedded != nil {
		err = s.rail.embedded.Close()
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
