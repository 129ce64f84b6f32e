package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/recipient"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/merchants/webhook/guard"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/settlement"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
	"github.com/remit-payouts/remit/internal/sandbox/local/sandbox"
)

// A process is every part that serves merchants, in one process.
type process struct {
	*Settings
	log     *slog.Logger
	url     string
	chain   *chainAccess
	tables  *tables
	rules   stack.Config
	handler http.Handler

	jobs    *jobs
	hinted  hints
	settler *settlement.Settler

	proposals *dispatch.Proposals
	quit      context.CancelFunc
	wg        sync.WaitGroup
}

// newProcess assembles the stack that is served at url. Only the embedded chain runs yet.
func newProcess(ctx context.Context, flags *Settings, url string, log *slog.Logger) (*process, error) {
	config, err := flags.config()
	if err != nil {
		return nil, err
	}
	s := &process{Settings: flags, log: log, url: url, hinted: make(hints, 1), jobs: newJobs(log)}
	if s.chain, err = openChain(ctx, flags, log); err != nil {
		return nil, err
	}
	config.ChainID, config.Token = s.chain.chainID, s.chain.asset
	s.rules = s.complete(config)
	if err = s.openTables(ctx); err == nil {
		err = s.assemble(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.chain.close())
	}
	return s, nil
}

// openTables opens the tables and stores the wallets, the settings and ReadyKey in them.
func (s *process) openTables(ctx context.Context) (err error) {
	if err := s.closed(s.chain.chainID); err != nil {
		return err
	}
	if s.tables, err = openTables(ctx, s.DynamoDB, s.Fresh); err != nil {
		return err
	}
	if err := s.tables.fit(ctx, s.chain); err != nil {
		return err
	}
	for _, a := range s.chain.keyed() {
		id := wallet.ID{ChainID: s.chain.chainID, Address: a}
		if err := s.tables.payments.Register(ctx, wallet.Registration{ID: id, State: wallet.Active,
			Key: wallet.InSecret, Since: time.Now()}); err != nil {
			return fmt.Errorf("registering wallet %s: %w", a, err)
		}
	}
	if err := s.write(ctx, s.tables, s.log); err != nil {
		return fmt.Errorf("writing the settings: %w", err)
	}
	return s.storeReadyKey(ctx)
}

func (s *process) assemble(ctx context.Context) (err error) {
	deliveries := parkingStore{s.tables.webhooks, s.jobs}
	sender := guard.NewClient(true, false)
	s.jobs.do = webhook.NewDeliverer(deliveries, s.jobs, sender, unmetered{}, time.Now, mathrand.Float64).Deliver
	current := settings.CachedKeys(s.tables.keys, false, time.Now, s.log)
	book := recipient.NewAddressBook(s.tables.keys, current, time.Now)
	events := webhook.NewPublisher(deliveries, deliveries)
	settling := settlement.Parts{
		Store: s.tables.payments, Keys: s.chain.keys, Nodes: s.chain.nodes,
		Events: events, Log: s.log, Now: time.Now,
	}
	paying := dispatch.Parts{
		Store: s.tables.payments, Keys: s.chain.keys, Book: book, Nodes: s.chain.nodes, Hints: s.hinted,
		Log: s.log, Now: time.Now, Random: rand.Reader, Draw: mathrand.IntN,
	}
	page := s.chain.page
	if page != nil {
		interposed := page.Interposed(s.tables.payments)
		settling.Store, paying.Store = interposed, interposed
	}
	payer := dispatch.New(s.rules, paying)
	settling.Refiller = payer
	s.proposals = &dispatch.Proposals{Dispatcher: payer, Events: events, Terms: s.tables.keys.Terms, Explain: httpapi.Explain}
	s.settler = settlement.New(s.rules, settling)
	keys := apikey.NewRegistry(s.tables.keys, apikey.Test, time.Now, rand.Reader)
	if s.handler, err = s.routes(payer, keys, book, current, events, deliveries, sender); err != nil {
		return err
	}
	if page != nil {
		page.Parts = sandbox.Parts{URL: s.url, Chain: s.chain.embedded, Token: s.chain.asset, Store: s.tables.payments,
			Rule: s.rules.ConfirmationRule, GasUnit: s.rules.GasUnit, Hint: s.hinted.Hint,
			Join: func(ctx context.Context) (string, string, error) {
				made, err := keys.Create(ctx, "The page", apikey.KeyRequest{})
				return made.Key.MerchantID, made.Secret.Reveal(), err
			}}
		s.handler = page.Handler(s.handler)
	}
	return deliveries.recall(ctx, time.Now())
}

func (s *process) routes(payer httpapi.Payer, keys *apikey.Registry, book *recipient.AddressBook,
	current func(context.Context) (settings.Keys, error), events *webhook.Publisher, deliveries webhook.Store,
	sender *guard.Client) (http.Handler, error) {
	endpoints := webhook.NewRegistry(deliveries, sender, time.Now, rand.Reader)
	log := webhook.NewLog(deliveries, s.jobs, time.Now, rand.Reader)
	tester := webhook.NewTester(webhook.Sealed{Store: deliveries}, sender, time.Now, rand.Reader)
	openapi, err := description(s.url)
	if err != nil {
		return nil, err
	}
	var magic []devnet.Recipient // an outside chain has none
	if s.chain.embedded != nil {
		magic = devnet.Recipients()
	}
	docs, err := explorer(magic)
	if err != nil {
		return nil, err
	}
	assets := httpapi.OneAsset(stack.Asset{ChainID: s.chain.chainID, Token: s.chain.asset, Network: network})
	router := httpapi.NewRouter(apikey.NewAuthenticator(s.tables.keys, apikey.Test), time.Now,
		httpapi.CreateAPIKey(keys, current),
		httpapi.ListAPIKeys(keys),
		httpapi.GetOwnAPIKey(keys, s.tables.payments, time.Now),
		httpapi.IssueAPIKey(keys, events, assets),
		httpapi.RotateAPIKey(keys, events),
		httpapi.RevokeAPIKey(keys),
		httpapi.SendPayment(payer, s.tables.payments, assets),
		httpapi.SendPayments(payer, s.tables.payments, assets),
		httpapi.CreateProposal(s.proposals, s.tables.payments, assets, time.Now),
		httpapi.ListProposals(s.tables.payments),
		httpapi.GetProposal(s.tables.payments),
		httpapi.ApproveProposal(s.proposals, s.tables.payments, assets),
		httpapi.CancelProposal(s.proposals, s.tables.payments),
		httpapi.GetTransaction(s.tables.payments),
		httpapi.ListTransactions(s.tables.payments, assets),
		httpapi.GetBalance(assets, func(context.Context, token.Coin) (chain.Nodes, error) { return s.chain.nodes, nil }),
		httpapi.ListAssets(assets),
		httpapi.CreateRecipient(book, s.tables.payments, events, assets, time.Now),
		httpapi.ListRecipients(book, time.Now),
		httpapi.DeleteRecipient(book),
		httpapi.CreateWebhook(endpoints),
		httpapi.ListWebhooks(endpoints),
		httpapi.UpdateWebhook(endpoints),
		httpapi.DeleteWebhook(endpoints),
		httpapi.RotateWebhookSecret(endpoints),
		httpapi.TestWebhook(tester),
		httpapi.ListDeliveries(log),
		httpapi.ResendDelivery(log),
		httpapi.ResendFailed(log, time.Now),
		httpapi.Docs(docs),
		httpapi.OpenAPI(openapi),
		httpapi.Sandbox(func(ctx context.Context) (any, error) { return s.facts(ctx) }),
	)
	return s.ownHost(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" && r.Method == http.MethodGet { // the first page that a person opens
			http.Redirect(w, r, "/docs", http.StatusSeeOther)
			return
		}
		router.ServeHTTP(w, r)
	}), nil
}

// ownHost returns next for requests that name this machine, if the API listens on loopback: a web page could reach it
// through its own name that resolves to loopback, and read the answers.
func (s *process) ownHost(next http.HandlerFunc) http.Handler {
	if at, err := url.Parse(s.url); err != nil || !sandbox.Loopback(at.Hostname()) {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host := (&url.URL{Host: r.Host}).Hostname(); !sandbox.Loopback(host) && !slices.Contains(s.Hosts, host) {
			w.Header().Set("X-Request-Id", rand.Text())
			w.Header().Set("Cache-Control", "no-store")
			sandbox.Problem(w, http.StatusForbidden, "host_refused", "The API is served on this machine only: "+s.url+
				". To allow another name for it, add --host NAME to remit local.")
			return
		}
		next(w, r)
	})
}

// facts describes the chain, its token and the wallets, for GET /sandbox.
func (s *process) facts(ctx context.Context) (devnet.Facts, error) {
	facts, err := s.chain.facts(ctx, s.Settings)
	facts.ConfirmationRule, facts.PrivateKeys = s.ConfirmationRule, nil
	return facts, err
}

func (s *process) parts() deployed.Local {
	deliveries := parkingStore{s.tables.webhooks, s.jobs}
	return deployed.Local{
		Tables: deployed.Tables{Payments: s.tables.payments, AuditLog: s.tables.payments, Webhooks: deliveries,
			Keys: s.tables.keys, Jobs: deliveries},
		Keyed: s.chain.keyed, Key: s.chain.key, PutKey: s.chain.put, Nodes: s.chain.urls, Hint: s.hinted.Hint, Config: s.rules,
	}
}

func (s *process) start() {
	ctx, quit := context.WithCancel(context.Background())
	s.quit = quit
	s.wg.Go(func() { settleLoop(ctx, s.settler, s.hinted, s.log) })
	s.wg.Go(func() { releaseLoop(ctx, s.proposals, s.log) })
}

func (s *process) stop() error {
	s.quit()
	s.wg.Wait()
	s.jobs.close()
	return s.chain.close()
}
