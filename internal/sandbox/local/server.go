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
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/recipient"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/merchants/webhook/guard"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/keyring"
	"github.com/remit-payouts/remit/internal/payments/settlement"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
	"github.com/remit-payouts/remit/internal/sandbox/local/sandbox"
)

// A process is every part that serves merchants, in one process.
type process struct {
	*Settings
	log     *slog.Logger
	url     string
	page    *sandbox.Sandbox // nil where no page is served
	rails   rails            // in the order of the tables
	keys    *vault
	tables  *tables
	handler http.Handler

	jobs     *jobs
	hinted   hints
	settlers []*settlement.Settler // of the rails, in their order

	proposals *dispatch.Proposals
	quit      context.CancelFunc
	wg        sync.WaitGroup
}

// newProcess assembles the stack that is served at url. Only the embedded chains run yet.
func newProcess(ctx context.Context, flags *Settings, url string, log *slog.Logger) (*process, error) {
	config, err := flags.config()
	if err != nil {
		return nil, err
	}
	s := &process{Settings: flags, log: log, url: url, jobs: newJobs(log),
		keys: &vault{held: map[token.Address]keyring.Key{}, rails: map[token.Address]token.Coin{}}}
	if s.servesPage() {
		s.page = sandbox.New(time.Now, log)
	}
	for n := range max(len(s.Rail), len(s.Token)) {
		if err == nil {
			err = s.open(ctx, n, config)
		}
	}
	if err == nil {
		err = s.openTables(ctx)
	}
	if err == nil {
		err = s.assemble(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *process) close() (err error) {
	if s.page != nil {
		err = s.page.Close()
	}
	for _, r := range s.rails {
		if r.embedded != nil {
			if closing := r.embedded.Close(); !errors.Is(closing, context.Canceled) {
				err = errors.Join(err, closing)
			}
		}
	}
	return err
}

// openTables opens the tables and stores the wallets, the settings and ReadyKey in them.
func (s *process) openTables(ctx context.Context) (err error) {
	for _, r := range s.rails {
		if err := s.closed(r.ChainID); err != nil {
			return err
		}
	}
	if s.tables, err = openTables(ctx, s.DynamoDB, s.Fresh); err != nil {
		return err
	}
	if err := s.tables.fit(ctx, s.rails); err != nil {
		return err
	}
	for a, of := range s.keys.keyed() {
		id := wallet.ID{ChainID: of.ChainID, Address: a}
		if err := s.tables.payments.Register(ctx, wallet.Registration{ID: id, Token: of.Contract, State: wallet.Active,
			Key: wallet.InSecret, Since: time.Now()}); err != nil {
			return fmt.Errorf("registering wallet %s: %w", a, err)
		}
	}
	if err := s.write(ctx, s.tables, s.rails, s.log); err != nil {
		return fmt.Errorf("writing the settings: %w", err)
	}
	rules, err := s.tables.payments.Rules(ctx)
	if err != nil {
		return err
	}
	for i, r := range rules.Rails { // tables that were kept may have another order than the flags
		s.rails[i], s.rails[slices.Index(s.rails, s.rails.of(r.Coin))] = s.rails.of(r.Coin), s.rails[i]
	}
	return s.storeReadyKey(ctx)
}

func (s *process) assemble(ctx context.Context) (err error) {
	deliveries := parkingStore{s.tables.webhooks, s.jobs}
	sender := guard.NewClient(true, false)
	s.jobs.do = (&webhook.Deliverer{Store: deliveries, Queue: s.jobs, Sender: sender, Meter: unmetered{}, Now: time.Now,
		Jitter: mathrand.Float64}).Deliver
	book := &recipient.AddressBook{Store: s.tables.keys, Hold: recipientHold, Now: time.Now}
	events := &webhook.Publisher{Store: deliveries, Queue: deliveries}
	ring := keyring.New(s.keys.key)
	settling := settlement.Parts{Store: s.tables.payments, Keys: ring, Events: events, Log: s.log, Now: time.Now}
	paying := dispatch.Parts{
		Store: s.tables.payments, Keys: ring, Book: book, Hints: s.hinted,
		Log: s.log, Now: time.Now, Random: rand.Reader, Draw: mathrand.IntN,
	}
	page := s.page
	if page != nil {
		interposed := page.Interposed(s.tables.payments)
		settling.Store, paying.Store = interposed, interposed
	}
	nodes := func(c stack.Config) chain.Provider { return s.rails.of(c.Coin()).nodes }
	payer := dispatch.NewRails(dispatch.Wiring{Config: s.config, Nodes: nodes}, paying)
	for i, r := range s.rails {
		of, config := settling, r.Config
		config.Further = i > 0
		of.Nodes, of.Log = r.nodes, s.log.With("rail", r.Coin().String())
		if of.Refiller, err = payer.Of(ctx, r.Coin()); err != nil {
			return err
		}
		s.settlers = append(s.settlers, settlement.New(config, of))
	}
	s.proposals = &dispatch.Proposals{Rails: payer, Events: events, Terms: s.tables.keys.Terms, Explain: httpapi.Explain}
	keys := &apikey.Registry{Store: s.tables.keys, Mode: apikey.Test, Now: time.Now, Random: rand.Reader}
	if s.handler, err = s.routes(payer, keys, book, events, deliveries, sender); err != nil {
		return err
	}
	if page != nil {
		page.Parts = sandbox.Parts{URL: s.url, Store: s.tables.payments, Hint: s.hinted.Hint,
			Join: func(ctx context.Context) (string, string, error) {
				made, err := keys.Create(ctx, "The page", apikey.KeyRequest{})
				return made.Key.MerchantID, made.Secret.Reveal(), err
			}}
		s.handler = page.Handler(s.handler)
	}
	return deliveries.recall(ctx, time.Now())
}

// config returns how payments of a rail are made: as when the process began.
func (s *process) config(r store.Rail) (stack.Config, error) {
	if of := s.rails.of(r.Coin); of != nil {
		return of.Config, nil
	}
	return stack.Config{}, fmt.Errorf("the rail %s is not started here", r.Coin)
}

func (s *process) routes(payer *dispatch.Rails, keys *apikey.Registry, book *recipient.AddressBook,
	events *webhook.Publisher, deliveries webhook.Store, sender *guard.Client) (http.Handler, error) {
	endpoints := &webhook.Registry{Store: deliveries, URLs: sender, Now: time.Now, Random: rand.Reader}
	log := &webhook.Log{Store: deliveries, Queue: s.jobs, Now: time.Now, Random: rand.Reader}
	tester := &webhook.Tester{Store: webhook.Sealed{Store: deliveries}, Sender: sender, Now: time.Now, Random: rand.Reader}
	openapi, err := description(s.url, s.Version)
	if err != nil {
		return nil, err
	}
	var magic []devnet.Recipient // an outside chain has none
	if s.rails[0].embedded != nil {
		magic = devnet.Recipients()
	}
	docs, err := explorer(magic, s.readyKey())
	if err != nil {
		return nil, err
	}
	assets := httpapi.Assets(payer.Assets)
	nodes := func(_ context.Context, c token.Coin) (chain.Nodes, error) { return s.rails.of(c).nodes, nil }
	router := httpapi.NewRouter(&apikey.Authenticator{Keys: s.tables.keys, Mode: apikey.Test}, time.Now,
		httpapi.CreateAPIKey(keys, s.KeyCreation == "public"),
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
		httpapi.GetBalance(assets, nodes),
		httpapi.ListAssets(assets),
		httpapi.ListWallets(assets, nodes, s.tables.payments),
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

// facts describes the chains, their tokens and the wallets, for GET /sandbox.
func (s *process) facts(ctx context.Context) (first devnet.Facts, err error) {
	var assets []devnet.AssetFacts
	for i, r := range s.rails {
		facts, err := r.facts(ctx, s.keys)
		if err != nil {
			return first, err
		}
		if i == 0 {
			first = facts
		}
		facts.Asset = r.Coin().String()
		assets = append(assets, facts.AssetFacts)
	}
	first.ConfirmationRule, first.PrivateKeys, first.Assets = s.ConfirmationRule, nil, assets
	return first, nil
}

func (s *process) parts() deployed.Local {
	deliveries := parkingStore{s.tables.webhooks, s.jobs}
	urls := map[uint64][]string{}
	for _, r := range s.rails {
		urls[r.ChainID] = r.urls
	}
	return deployed.Local{
		Tables: deployed.Tables{Payments: s.tables.payments, AuditLog: s.tables.payments, Webhooks: deliveries,
			Keys: s.tables.keys, Jobs: deliveries},
		Keyed: s.keys.keyed, Key: s.keys.key, PutKey: s.keys.put,
		Nodes: urls, Hint: s.hinted.Hint, Config: s.rails[0].Config,
	}
}

func (s *process) start() {
	ctx, quit := context.WithCancel(context.Background())
	s.quit = quit
	for i, settler := range s.settlers {
		s.wg.Go(func() { settleLoop(ctx, settler, s.hinted[i]) })
	}
	s.wg.Go(func() { releaseLoop(ctx, s.proposals, s.log) })
}

func (s *process) stop() error {
	s.quit()
	s.wg.Wait()
	s.jobs.close()
	return s.close()
}
