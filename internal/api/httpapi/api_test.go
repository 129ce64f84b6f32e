package httpapi_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/api/httpapi/httpapitest"
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/recipient"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
	"github.com/remit-payouts/remit/internal/sandbox/interpose"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// The address and request of every example in openapi.yaml.
const (
	alice    = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed" // an example of EIP-55
	goodBody = `{"wallet_address":"` + alice + `","amount":1000000}`
)

var (
	epoch     = time.Date(2026, time.January, 2, 15, 4, 5, 0, time.UTC)
	asset     = token.Token{Symbol: "USDC", Decimals: 6, Contract: token.Address{0xc0}}
	euro      = token.Token{Symbol: "EURC", Decimals: 2, Contract: token.Address{0xec}}
	closed    = token.Token{Symbol: "DAI", Decimals: 18, Contract: token.Address{0xda}}
	ownWallet = token.Address{0x0a}
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	os.Exit(m.Run())
}

// contract is openapi.yaml, read once: every response of every test is held against it.
var contract = sync.OnceValues(httpapitest.NewContract)

// An api is every endpoint of this package, on stores in memory, with a clock
// that only tests move. Keys and ids are drawn from a counter.
type api struct {
	*testing.T
	router   http.Handler
	now      time.Time
	keys     *apikey.Registry
	keyStore *memory.APIKeys
	book     *recipient.AddressBook
	key      string // a valid one of the merchant below
	merchant string
	payments *payments
	node     *node

	proposals *dispatch.Proposals
	hooks     *hooks
	sandbox   error
	assets    stack.Assets
	noAssets  error // of reading assets
}

func newAPI(t *testing.T) *api {
	a := &api{T: t, now: epoch, node: &node{account: chain.Account{Head: chain.Head{Number: 19241000}, Balance: token.Units(2500000)}},
		assets: stack.Assets{{ChainID: 84532, Token: asset, Network: "base-sepolia"}, {ChainID: 137, Token: euro, Network: "polygon"},
			{ChainID: 84532, Token: closed, Network: "base-sepolia", Closed: true}}}
	clock := func() time.Time { return a.now }
	keyStore := &memory.APIKeys{}
	a.keyStore = keyStore
	a.keys = &apikey.Registry{Store: keyStore, Mode: apikey.Test, Now: clock, Random: &counter{}}
	a.book = &recipient.AddressBook{Store: keyStore, Hold: 24 * time.Hour, Now: clock}
	first := must.Get(a.keys.Create(t.Context(), "Acme Coffee", apikey.KeyRequest{}))(t)
	a.key, a.merchant = first.Secret.Reveal(), first.Key.MerchantID
	a.payments = &payments{now: clock, assets: a.assets}
	a.payments.Store = interpose.Store{Store: memory.NewPayments(), Around: a.payments.around}
	a.hooks = &hooks{t: t}
	a.hooks.Registry = &webhook.Registry{Store: memory.NewWebhooks(), URLs: a.hooks, Now: clock, Random: &counter{}}
	for _, rail := range a.assets {
		s := settings.Default(settings.Rail{ChainID: rail.ChainID, Token: rail.Token, Network: rail.Network})
		s.Closed, s.BatchContract[0] = rail.Closed, byte(rail.ChainID%2) // EURC has batches
		must.OK(t, a.payments.SetSettings(t.Context(), s))
	}
	a.proposals = &dispatch.Proposals{Events: a.hooks, Explain: httpapi.Explain, Rails: dispatch.NewRails(
		dispatch.Wiring{Config: func(r store.Rail) (stack.Config, error) {
			return stack.Config{ChainID: r.Coin.ChainID, Token: r.Token, Network: r.Settings.Network, Ephemeral: true}, nil
		}, Nodes: func(stack.Config) chain.Provider { return nil }}, dispatch.Parts{Store: a.payments, Book: a.book,
			Log: slog.New(slog.DiscardHandler), Now: clock, Draw: func(int) int { return 0 }})}
	a.router = httpapi.NewRouter(&apikey.Authenticator{Keys: keyStore, Mode: apikey.Test}, clock,
		httpapi.CreateAPIKey(&apikey.Registry{Store: keyStore, Mode: apikey.Test, Now: clock, Random: &counter{}}, true),
		httpapi.ListAPIKeys(a.keys),
		httpapi.GetOwnAPIKey(a.keys, a.payments, clock),
		httpapi.IssueAPIKey(a.keys, a.hooks, a.readAssets),
		httpapi.RotateAPIKey(a.keys, a.hooks),
		httpapi.RevokeAPIKey(a.keys),
		httpapi.SendPayment(a.payments, a.payments, a.readAssets),
		httpapi.SendPayments(a.payments, a.payments, a.readAssets),
		httpapi.CreateProposal(a.proposals, a.payments, a.readAssets, clock),
		httpapi.ListProposals(a.payments),
		httpapi.GetProposal(a.payments),
		httpapi.ApproveProposal(a.proposals, a.payments, a.readAssets),
		httpapi.CancelProposal(a.proposals, a.payments),
		httpapi.GetTransaction(a.payments),
		httpapi.ListTransactions(a.payments, a.readAssets),
		httpapi.GetBalance(a.readAssets, a.nodesOf),
		httpapi.ListAssets(a.readAssets),
		httpapi.ListWallets(a.readAssets, a.nodesOf, a.payments),
		httpapi.CreateRecipient(a.book, a.payments, a.hooks, a.readAssets, clock),
		httpapi.ListRecipients(a.book, clock),
		httpapi.DeleteRecipient(a.book),
		httpapi.CreateWebhook(a.hooks.Registry),
		httpapi.ListWebhooks(a.hooks.Registry),
		httpapi.UpdateWebhook(a.hooks.Registry),
		httpapi.DeleteWebhook(a.hooks.Registry),
		httpapi.RotateWebhookSecret(a.hooks.Registry),
		httpapi.TestWebhook(a.hooks),
		httpapi.ListDeliveries(a.hooks),
		httpapi.ResendDelivery(a.hooks),
		httpapi.ResendFailed(a.hooks, clock),
		httpapi.Docs([]byte("<!DOCTYPE html>")),
		httpapi.OpenAPI([]byte("{}")),
		httpapi.Sandbox(func(context.Context) (any, error) { return sandboxFacts(), a.sandbox }),
	)
	return a
}

func (a *api) readAssets(context.Context) (stack.Assets, error) { return a.assets, a.noAssets }

// nodesOf returns the node, which has another balance of another asset.
func (a *api) nodesOf(_ context.Context, c token.Coin) (chain.Nodes, error) {
	if c == a.assets[0].Coin() {
		return chain.Nodes{a.node}, nil
	}
	return chain.Nodes{&node{account: chain.Account{Head: a.node.account.Head, Balance: token.Units(c.ChainID)}}}, a.node.err
}

// otherMerchant returns the key of a new merchant.
func (a *api) otherMerchant() apikey.Minted {
	a.Helper()
	return must.Get(a.keys.Create(a.Context(), "Other", apikey.KeyRequest{}))(a)
}

// An answered is a response whose body has been read.
type answered struct {
	status int
	header http.Header
	body   string
}

// rotate replaces the key of that id and returns the new one.
func (a *api) rotate(id string, overlap time.Duration) apikey.Minted {
	a.Helper()
	by := apikey.Key{MerchantID: a.merchant, Grant: apikey.Full()}
	return must.Get(a.keys.Rotate(a.Context(), by, id, overlap, func(context.Context, apikey.Key) error { return nil }))(a)
}

// charge charges two payments of 70 in all to the day of a key.
func (a *api) charge(key string) {
	must.OK(a, a.payments.Charge(a.Context(), store.Charge{Merchant: a.merchant, Mode: "test", At: a.now, Amount: token.Units(70),
		Count: 2, Limits: []payment.DailyLimit{{Key: key, Amount: token.Units(90), Count: 5}}}))
}

// restrict makes a key as the body of POST /api-keys says, and goes on with it.
func (a *api) restrict(body string) {
	a.Helper()
	got := a.post("/api-keys", body)
	got.want(a.T, 201)
	a.key = got.member(a.T, "api_key")
}

// play sends requests ("POST /webhooks {}"), each with the headers ("Name: value") behind it, and takes steps between
// them: "as {…}" goes on with a key that this body makes. It returns the last answer. <next_cursor>
// and <api_key> are members of the answer before.
func (a *api) play(columns ...string) (got answered) {
	a.Helper()
	for len(columns) > 0 {
		n := 1
		for n < len(columns) && header.MatchString(columns[n]) {
			n++
		}
		for i, column := range columns[:n] {
			columns[i] = placeholder.ReplaceAllStringFunc(column, func(name string) string {
				return url.QueryEscape(got.member(a.T, strings.Trim(name, "<>")))
			})
		}
		if body, ok := strings.CutPrefix(columns[0], "as "); ok {
			a.restrict(body)
		} else if step, ok := steps[columns[0]]; ok {
			step(a)
		} else {
			method, rest, _ := strings.Cut(columns[0], " ")
			path, body, _ := strings.Cut(rest, " ")
			got = a.send(method, path, body, columns[1:n]...)
		}
		columns = columns[n:]
	}
	return got
}

var ours = regexp.MustCompile(`^[A-Z2-7]{26}$`)

// header is a header with its name, in requests and wanted answers.
var header = regexp.MustCompile(`^[A-Z][A-Za-z_-]+: `)

var placeholder = regexp.MustCompile("<(next_cursor|api_key)>")

// send serves a request with the given headers ("Name: value"), with a valid key unless a header says otherwise, and
// holds the answer against the contract. A Content-Type of JSON is added to a body that has none. The value "(none)"
// takes a header away; the Content-Length may be "unknown".
func (a *api) send(method, path, body string, headers ...string) answered {
	a.Helper()
	r, asked := a.request(method, path, body), len(a.payments.got)
	if body == "" {
		r.Header.Del("Content-Type")
	}
	named := map[string]bool{}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if !named[name] {
			r.Header.Del(name)
		}
		if named[name] = true; value != "(none)" {
			r.Header.Add(name, value)
		}
	}
	if r.Header.Get("Content-Length") == "unknown" {
		r.Header.Del("Content-Length")
		r.ContentLength = -1
	}
	got := a.serve(a.router, r)
	if got.status == 422 && len(a.payments.got) > asked && !judged.MatchString(got.body) {
		a.Errorf("dispatch was asked for %+v", a.payments.got[asked:])
	}
	return got
}

// judged are the 422s that only dispatch can give.
var judged = regexp.MustCompile("idempotency_key_reused|recipient_refused|too_many")

// serve serves r by h and holds the answer against the contract.
func (a *api) serve(h http.Handler, r *http.Request) answered {
	a.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	answer := w.Result()
	c := must.Get(contract())(a)
	must.OK(a, c.Check(r, answer))
	body := must.Get(io.ReadAll(answer.Body))(a)
	return answered{answer.StatusCode, answer.Header, string(body)}
}

// want checks an answer's status and each of parts: "Name: value" is a header,
// "(none)" if there is none, "(ours)" if it is ours; "=" is before the whole body, "!" before text that
// the body must not contain; "name# a b" has all values of that member, in order; other text must be in the body.
func (got answered) want(t *testing.T, status int, parts ...string) {
	t.Helper()
	if got.status != status {
		t.Fatalf("answered %d %s, want %d", got.status, got.body, status)
	}
	for _, part := range parts {
		ok := strings.Contains(got.body, part)
		if name, value, _ := strings.Cut(part, ": "); header.MatchString(part) {
			sent := cmp.Or(strings.Join(got.header.Values(name), ","), "(none)")
			ok = sent == value || value == "(ours)" && ours.MatchString(sent)
		} else if whole, found := strings.CutPrefix(part, "="); found {
			ok = got.body == whole
		} else if text, found := strings.CutPrefix(part, "!"); found {
			ok = !strings.Contains(got.body, text)
		} else if name, list, found := strings.Cut(part, "# "); found {
			var values []string
			for _, m := range regexp.MustCompile(`"`+name+`":"?([^",]*)`).FindAllStringSubmatch(got.body, -1) {
				values = append(values, m[1])
			}
			ok = strings.Join(values, " ") == list
		}
		if !ok {
			t.Errorf("answered %v %s, want %s", got.header, got.body, part)
		}
	}
}

// outcome is want for the last column of a table: a status, then the parts with " … " between them.
func (got answered) outcome(t *testing.T, want string) {
	t.Helper()
	code, parts, _ := strings.Cut(want, " ")
	status := must.Get(strconv.Atoi(code))(t)
	got.want(t, status, strings.Split(parts, " … ")...)
}

// words are the functions that tables call by name.
var words = map[string]string{
	"alice":               alice,
	"alice in lower case": strings.ToLower(alice),
	"payment":             goodBody,
	"proposed": `{"wallet_address":"` + alice + `","amount":1000000,"reference":"inv-2041","metadata":{"order":"2041"}` +
		`,"not_before":"2026-01-09T09:00:00Z"}`,
	"proposal": proposal.ID(payment.KeyID("mer_0123456789ABCDEF", "test", "order-2041")),
	"hash":     exampleHash,
	"key":      "key_GHIJKLMNOPQR", // of newAPI
	"alike 1":  alike(1), "alike 2": alike(2), "alike 3": alike(3),
	"like an entry":     resembles(alike(1) + ", an entry of your address book"),
	"like a payment":    resembles(alike(2) + ", a recipient that you have paid"),
	"like some payment": resembles("a recipient that you have paid"),
	"second key":        "key_9ABCDEFGHIJK", // made by it
	"webhook":           newHook,
	"hook":              exampleHook,
	"2^256-1":           maxAmount,
	"20 pairs":          pairs(20),
	"21 pairs":          pairs(21),
	"batch":             `{"payments":[{"to":"` + alice + `","amount":1},{"to":"0x` + strings.Repeat("1", 40) + `","amount":2}]}`,
	"usdc":              "eip155:84532/erc20:0xC000000000000000000000000000000000000000", // the default
	"eurc":              "eip155:137/erc20:0xEC00000000000000000000000000000000000000",
	"dai":               "eip155:84532/erc20:0xDA00000000000000000000000000000000000000", // closed
	"100 payments":      strings.Repeat(`{"to":"`+alice+`","amount":1},`, 99) + `{"to":"` + alice + `","amount":1}`,
}

func pairs(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`"k%d":"v"`, i))
	}
	return "{" + strings.Join(list, ",") + "}"
}

// steps happen between the requests of a table.
var steps = map[string]func(*api){
	"no money":              refused(dispatch.ErrInsufficient),
	"below the minimum":     refused(dispatch.ErrAmountBelow),
	"above the maximum":     refused(dispatch.ErrAmountAbove),
	"above the day's limit": refused(store.ErrDailyLimit),
	"too many pending":      refused(dispatch.ErrTooMany),
	"a refused recipient":   refused(dispatch.ErrRecipient),
	"a similar payment": func(a *api) {
		refused(&dispatch.SimilarError{TxHash: must.Get(chain.ParseHash(exampleHash))(a)})(a)
	},
	"a similar one unsigned":              refused(dispatch.ErrSimilarPending),
	"a guarded key's batch":               refused(dispatch.ErrGuardedBatch),
	"in flight":                           refused(dispatch.ErrInProgress),
	"an open proposal":                    refused(&dispatch.OpenError{ID: proposal.Payment(words["proposal"])}),
	"an amount to approve":                refused(dispatch.ErrApprovalRequired),
	"nodes are down":                      refused(errors.Join(dispatch.ErrUnavailable, errBroken, store.ErrNotFound)),
	"the chain is behind":                 refused(errors.Join(dispatch.ErrRolledBack, errBroken)),
	"broken dispatch":                     refused(errBroken),
	"the payment is confirmed":            (*api).confirm,
	"the payment fails":                   (*api).fail,
	"keys by an operator only":            func(a *api) { a.only(httpapi.CreateAPIKey(nil, false)) },
	"ten payments":                        func(a *api) { a.payTimes(1, 10) },
	"25 payments":                         func(a *api) { a.payTimes(1, 25) },
	"another payment":                     func(a *api) { a.payTimes(99, 99) },
	"two webhooks":                        func(a *api) { a.hooked(2) },
	"the largest balance":                 func(a *api) { a.node.account.Balance = token.MaxAmount() },
	"the chain is silent":                 func(a *api) { a.node.err = errBroken },
	"a store that finds nothing at first": func(a *api) { a.only(httpapi.ListTransactions(&budgeted{a.payments}, a.readAssets)) },
	"two of one reference": func(a *api) {
		for i := range 2 {
			a.post("/send-payment", fmt.Sprintf(`{"to":%q,"amount":%d,"reference":"Zürich & co"}`, alice, i+1)).want(a.T, 201)
			a.now = a.now.Add(time.Second)
		}
	},
	"three proposals": func(a *api) {
		for _, key := range []string{"a", "b", "order-2041"} {
			a.post("/proposals", words["proposed"], "Idempotency-Key: "+key).want(a.T, 201)
			a.now = a.now.Add(time.Second)
		}
		a.post("/proposals/"+words["proposal"]+"/cancel", "").want(a.T, 200)
	},
	"three recipients": func(a *api) {
		for i, label := range []string{"a", "b", "c"} {
			a.post("/recipients", fmt.Sprintf(`{"address":"0x%040s","label":%q}`, strings.Repeat(fmt.Sprint(i+1), 40), label)).want(a.T, 201)
			a.now = a.now.Add(time.Second)
		}
	},
	"another merchant's key":   func(a *api) { a.key = a.otherMerchant().Secret.Reveal() },
	"its key is rotated":       func(a *api) { a.key = a.rotate(a.keyID(), time.Hour).Secret.Reveal() },
	"the proposal is released": (*api).released,
	"its release is begun":     func(a *api) { a.begun() },
	"its release was refused": func(a *api) {
		p := must.Get(a.payments.Proposal(a.Context(), payment.KeyID(a.merchant, "test", "order-2041")))(a)
		no := p.Refused(proposal.Refusal{Code: "insufficient_funds", Message: "No.", Index: new(1)}, a.now)
		must.OK(a, a.payments.Amend(a.Context(), p, no, store.Guard{}))
	},
	"a wallet of its own": func(a *api) {
		must.OK(a, a.payments.Register(a.Context(), wallet.Registration{ID: wallet.ID{ChainID: 84532, Address: token.Address{0x77}},
			Token: asset.Contract, State: wallet.Assigned, Key: wallet.InSecret, Merchant: a.merchant}))
	},
	"a thousand proposals": func(a *api) {
		for i := range proposal.MaxOpen {
			p := proposal.New(proposal.Proposal{}, payment.Request{Merchant: a.merchant, Mode: "test",
				IdempotencyKey: fmt.Sprint(i)}, asset, 84532, "", a.now)
			must.Get(a.payments.Propose(a.Context(), p))(a)
		}
	},
	"its day is charged":              func(a *api) { a.charge(a.get("/api-keys/self").member(a.T, "id")) },
	"the second key's day is charged": func(a *api) { a.charge(words["second key"]) },
	"an entry and a payment": func(a *api) {
		a.post("/recipients", `{"address":"`+alike(1)+`"}`).want(a.T, 201)
		a.post("/send-payments", fmt.Sprintf(`{"payments":[{"to":%q,"amount":1},{"to":%q,"amount":1}]}`, alice, alike(2))).want(a.T, 201)
	},
	"a history that cannot be read": func(a *api) {
		a.only(httpapi.CreateRecipient(a.book, unlisted{a.payments}, a.hooks, a.readAssets, func() time.Time { return a.now }))
	},
	"the store is down":     func(a *api) { a.payments.fail = errBroken },
	"no assets are known":   func(a *api) { a.noAssets = errBroken },
	"no asset is added":     func(a *api) { a.assets = nil },
	"the default is closed": func(a *api) { a.assets[0].Closed = true },
	"a suspended merchant": func(a *api) {
		must.OK(a, a.keyStore.SetTerms(a.Context(), a.merchant, apikey.Terms{}, apikey.Terms{Suspended: "stolen key"}))
	},
	"an entry below the minimum":  refused(second(dispatch.ErrAmountBelow)),
	"an entry above the maximum":  refused(second(dispatch.ErrAmountAbove)),
	"a refused entry":             refused(second(dispatch.ErrRecipient)),
	"an entry not in the book":    refused(second(dispatch.ErrNotInBook)),
	"an entry that is not known":  refused(second(dispatch.ErrUnavailable)),
	"seven fit":                   refused(&dispatch.TooManyError{Fit: 7}),
	"no batch contract":           refused(dispatch.ErrNoBatches),
	"an expired request":          refused(dispatch.ErrExpired),
	"a stack that requires keys":  refused(dispatch.ErrKeyMissing),
	"a recipient not in the book": refused(dispatch.ErrNotInBook),
	"a day passes":                func(a *api) { a.now = a.now.Add(24 * time.Hour) },
	"25 keys": func(a *api) {
		for a.post("/api-keys", `{}`).status == 201 {
		}
	},
	"no webhook":         func(a *api) { a.hooks.refuse = broken(webhook.ErrNotFound) },
	"no delivery":        func(a *api) { a.hooks.refuse = broken(webhook.ErrDeliveryNotFound) },
	"a disabled webhook": func(a *api) { a.hooks.refuse = broken(webhook.ErrDisabled) },
	"broken webhooks":    func(a *api) { a.hooks.refuse = errBroken },
	"ten webhooks":       func(a *api) { a.hooked(webhook.EndpointLimit) },
	"webhooks that change all the time": func(a *api) {
		*a.hooks.Registry = webhook.Registry{Store: contended{}, URLs: a.hooks, Now: func() time.Time { return epoch }, Random: &counter{}}
	},
}

func second(err error) error { return &chain.EntryError{Index: 1, Err: err} }

// broken returns err as an adapter does, with text that is for the log.
func broken(err error) error { return fmt.Errorf("asking: %w", errors.Join(err, errBroken)) }

// refused is the step after which dispatch returns err.
func refused(err error) func(*api) { return func(a *api) { a.payments.refuse = broken(err) } }

// answers runs the table of t. Each case begins with an api of its own. The first of its inputs stands for %s in
// request, if that has one; further inputs are headers, steps and requests.
func answers(t *testing.T, begin func(*testing.T) *api, request string) {
	tabletest.Run(t, words, func(t *testing.T, c tabletest.Case) {
		if strings.Contains(request, "%s") {
			c.In[0] = strings.Replace(request, "%s", c.In[0], 1)
		} else {
			c.In = slices.Insert(c.In, 0, request)
		}
		begin(t).play(c.In...).outcome(t, c.Want)
	})
}

// counter yields 0, 1, 2, … as if they were random.
type counter struct{ next byte }

func (c *counter) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = c.next
		c.next++
	}
	return len(b), nil
}

// payments stands for dispatch: it commits each payment at once.
type payments struct {
	interpose.Store
	now    func() time.Time
	assets stack.Assets
	refuse error // of Send
	fail   error // of the store
	nonce  uint64
	got    []payment.Request

	walletReads atomic.Int32
	unreadable  bool // the wallets
}

// Wallet implements httpapi.WalletFinder.
func (s *payments) Wallet(ctx context.Context, id wallet.ID) (wallet.Wallet, error) {
	if s.walletReads.Add(1); s.unreadable {
		return wallet.Wallet{}, store.ErrUnreadable
	}
	return s.Store.Wallet(ctx, id)
}

func (s *payments) Send(ctx context.Context, r payment.Request) (dispatch.Result, error) {
	s.got = append(s.got, r)
	i := slices.IndexFunc(r.Outputs(), func(e payment.Entry) bool { return e.To == ownWallet })
	switch {
	case i >= 0:
		return dispatch.Result{}, &chain.EntryError{Index: i, Err: dispatch.ErrOwnWallet}
	case r.NotAfter.After(s.now().Add(dispatch.MaxNotAfter)):
		return dispatch.Result{}, dispatch.ErrNotAfter
	case s.refuse != nil:
		return dispatch.Result{}, s.refuse
	}
	id, err := payment.NewID(r.Merchant, r.Mode, r.IdempotencyKey, &counter{next: byte(s.nonce)})
	if err != nil {
		return dispatch.Result{}, err
	}
	paid, found := s.assets.Find(r.Asset)
	if !found {
		paid = s.assets[0]
	}
	offer := payment.New(id, r, paid.Token, paid.Network, s.now()).AssignedTo(ownWallet, chain.Tx{ChainID: paid.ChainID})
	stored, err := s.Payment(ctx, id)
	created := errors.Is(err, store.ErrNotFound)
	switch {
	case created && r.Key.OtherAsset:
		return dispatch.Result{}, dispatch.ErrOtherAsset
	case created && paid.Closed:
		return dispatch.Result{}, dispatch.ErrAssetClosed
	case created:
		stored, created, err = s.Create(ctx, offer)
	}
	switch {
	case err != nil:
		return dispatch.Result{}, err
	case !created && stored.Fingerprint != r.Fingerprint():
		return dispatch.Result{}, dispatch.ErrKeyReused
	case !created:
		return dispatch.Result{Payment: stored, Replayed: true}, nil
	}
	committed, err := s.commit(ctx, stored)
	return dispatch.Result{Payment: committed}, err
}

// around makes the store's calls, unless it fails.
func (s *payments) around(ctx context.Context, _ interpose.Call, apply func(context.Context)) error {
	if s.fail == nil {
		apply(ctx)
	}
	return s.fail
}

// commit signs p with the next nonce. The first hash is the examples'.
func (s *payments) commit(ctx context.Context, p payment.Payment) (payment.Payment, error) {
	hash, err := chain.ParseHash(exampleHash)
	if err != nil {
		return p, err
	}
	hash[31] += byte(s.nonce)
	hash[30] += byte(s.nonce >> 8)
	committed, err := p.Commit(chain.Signed{Nonce: s.nonce, Hash: hash, Raw: []byte{1}}, s.now())
	if err != nil {
		return p, err
	}
	s.nonce++
	return committed, s.Commit(ctx, committed)
}

type node struct {
	chain.Node
	account chain.Account
	err     error
	asked   int
	hangs   time.Duration
}

func (n *node) Head(context.Context, chain.ConfirmationRule) (chain.Head, error) {
	time.Sleep(n.hangs)
	return n.account.Head, n.err
}

func (n *node) String() string { return "node" }

func (n *node) Account(context.Context, token.Address, token.Address, chain.Head) (chain.Account, error) {
	n.asked++
	return n.account, n.err
}

// hooks is a Registry that also stands for the sender and the log of package webhook.
type hooks struct {
	*webhook.Registry
	t      *testing.T
	events []event
	refuse error // of checking a URL, testing, listing deliveries and resending
}

func (h *hooks) Check(_ context.Context, url string) error {
	if h.refuse != nil {
		return h.refuse
	}
	if !strings.HasPrefix(url, "https://") {
		return &webhook.FieldError{Field: "url", Reason: "must begin with https://"}
	}
	return nil
}

type event struct {
	owner webhook.Owner
	kind  string
	data  any
}

// Announce implements dispatch.Announcer. It fails the test if openapi.yaml does not describe the event.
func (h *hooks) Announce(_ context.Context, o webhook.Owner, kind string, at time.Time, data any) error {
	if h.refuse != nil {
		return h.refuse
	}
	h.events = append(h.events, event{o, kind, data})
	body := must.Get(json.Marshal(map[string]any{"id": "evt_1", "type": kind, "timestamp": payment.Time(at), "data": data}))(h.t)
	must.OK(h.t, must.Get(contract())(h.t).CheckEvent(body))
	return nil
}

func (h *hooks) Test(context.Context, webhook.Owner, string) (webhook.Attempt, error) {
	return webhook.Attempt{At: epoch, StatusCode: 200, Duration: 38 * time.Millisecond, Response: "ok"}, h.refuse
}

func (h *hooks) Page(_ context.Context, o webhook.Owner, id string, status webhook.DeliveryStatus, _ time.Time,
	after string, _ int) ([]webhook.Delivery, string, error) {
	if h.refuse == nil && status == webhook.Exhausted && after == "" {
		return nil, "dlv_1", nil
	}
	d := exampleDelivery(o, id, "dlv_019b7f3a1c0800000000000000000000")
	d.NextAttemptAt = epoch.Add(5 * time.Second)
	d.Attempts = []webhook.Attempt{{At: epoch, Duration: 15 * time.Second, Error: "no answer within 15 s"}}
	return []webhook.Delivery{d}, "", h.refuse
}

func (h *hooks) Resend(_ context.Context, o webhook.Owner, id, _ string) (webhook.Delivery, error) {
	return exampleDelivery(o, id, "dlv_019b7f3a1c0800000000000000000001"), h.refuse
}

func (h *hooks) ResendFailed(context.Context, webhook.Owner, string, time.Time) (int, bool, error) {
	return 130, false, h.refuse
}

func exampleDelivery(o webhook.Owner, endpoint, id string) webhook.Delivery {
	return webhook.Delivery{Ref: webhook.Ref{Owner: o, Endpoint: endpoint, Delivery: id},
		Event:  webhook.Event{ID: "evt_" + strings.Repeat("a", 32), Type: webhook.PaymentConfirmed},
		Status: webhook.Pending, NextAttemptAt: epoch, CreatedAt: epoch}
}

func sandboxFacts() any {
	type m = map[string]any
	facts := m{
		"rpc_url": "http://127.0.0.1:8545", "chain_id": 1337,
		"token": m{"address": "0x5FbDB2315678afecb367f032d93F642f64180aa3", "symbol": "USDC", "decimals": 6},
		"wallets": []m{{"address": "0x70997970C51812dc3A010C7d01b50e0d17dc79C8", "token_balance": token.Units(1e12),
			"gas_balance": token.Units(1e18)}},
		"recipients": []m{{"address": "0x7e57000000000000000000000000000000000001", "behaviour": "revert"}},
	}
	asset := maps.Clone(facts)
	asset["asset"] = "eip155:1337/erc20:0x5FbDB2315678afecb367f032d93F642f64180aa3"
	facts["block_time_seconds"], facts["finality"], facts["assets"] = 1, "2", []m{asset}
	return facts
}

// errBroken is a failure whose text must never reach a caller.
var errBroken = errors.New("arn:aws:secretsmanager: broken")

// contended is a store whose endpoint another writer changes all the time.
type contended struct{ webhook.EndpointStore }

func (contended) Endpoint(_ context.Context, o webhook.Owner, id string) (webhook.Endpoint, error) {
	return webhook.Endpoint{Owner: o, ID: id, Status: webhook.Enabled}, nil
}

func (contended) SaveEndpoint(context.Context, webhook.Endpoint) (webhook.Endpoint, error) {
	return webhook.Endpoint{}, webhook.ErrConflict
}

func newRequest(t *testing.T, method, path, body string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return r
}

// only leaves a single endpoint, which takes every key.
func (a *api) only(e httpapi.Endpoint) {
	a.router = httpapi.NewRouter(anyKey{a.merchant}, time.Now, e)
}

func (a *api) request(method, path, body string) *http.Request {
	r := newRequest(a.T, method, path, body)
	r.Header.Set("X-Api-Key", a.key)
	return r
}
