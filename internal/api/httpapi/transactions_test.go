package httpapi_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// TestHashes: 64 hex digits of any case after an optional 0x or 0X; text of another form, or an unknown hash, is 404.
func TestHashes(t *testing.T) {
	paid := func(t *testing.T) *api {
		a := newAPI(t)
		a.pay().want(t, 201)
		return a
	}
	answers(t, paid, "GET /transaction/%s")
}

// TestLists: pages are newest first and have each entry once, filters travel inside the cursor, and each merchant has
// lists of its own. A page may be empty before the end; its cursor leads on.
func TestLists(t *testing.T) { answers(t, newAPI, "%s") }

// TestOfTheOtherMode: it is no payment of the caller's.
func TestOfTheOtherMode(t *testing.T) {
	a := newAPI(t)
	a.pay().want(t, 201)
	r := newRequest(t, "GET", "/transaction/"+exampleHash, "")
	r = r.WithContext(apikey.WithPrincipal(r.Context(), apikey.Principal{MerchantID: a.merchant, Mode: apikey.Live, Grant: apikey.Full()}))
	a.serve(httpapi.GetTransaction(a.payments), r).want(t, 404, "transaction_not_found")
}

// TestFoundOnTheChain: until its request comes again a recovered payment is nobody's; by key it has the asker's mode.
func TestFoundOnTheChain(t *testing.T) {
	a := newAPI(t)
	r := newRequest(t, "GET", "/transactions?idempotency_key=k", "")
	r = r.WithContext(apikey.WithPrincipal(r.Context(), apikey.Principal{MerchantID: a.merchant, Mode: apikey.Test, Grant: apikey.Full()}))
	e := httpapi.ListTransactions(recovered{a.payments}, a.readAssets)
	a.serve(e, r).want(t, 200, `"status":"pending"`, `"mode":"test"`)
}

type recovered struct{ store.Store }

func (recovered) Payment(context.Context, payment.ID) (payment.Payment, error) {
	return payment.Payment{State: payment.Committed, Amount: token.Units(1), Tx: chain.Tx{ChainID: 8453},
		Token: token.Token{Symbol: "USDC", Decimals: 6}, Network: "base", Version: 1}, nil
}

// TestUnderKey: by idempotency_key a client whose POST got no answer finds its payment.
func TestUnderKey(t *testing.T) {
	a := newAPI(t)
	a.post("/send-payment", goodBody, "Idempotency-Key: paid").want(t, 201)
	begun := payment.New(payment.KeyID(a.merchant, "test", "begun"),
		payment.Request{Merchant: a.merchant, Mode: "test", IdempotencyKey: "begun"}, asset, "base-sepolia", a.now)
	if _, _, err := a.payments.Create(t.Context(), begun); err != nil {
		t.Fatal(err)
	}
	answers(t, func(*testing.T) *api { return a }, "GET /transactions?%s")
	if got := a.get("/transactions"); strings.Count(got.body, `"tx_hash"`) != 1 {
		t.Errorf("a payment that is not signed is listed: %s", got.body)
	}
}

// TestCSV: where Accept ranks text/csv above JSON the same page comes as CSV, which leads on to the
// next one, and in which no spreadsheet finds a formula. Errors stay JSON.
func TestCSV(t *testing.T) {
	a := newAPI(t)
	a.payTimes(1, 2)
	a.post("/send-payment", `{"to":"`+alice+`","amount":3,"reference":"=HYPERLINK(1)","metadata":{"a":"<b>, \"c\""}}`).want(t, 201)
	a.fail()
	page := a.get("/transactions?limit=2", "Accept: text/csv")
	page.want(t, 200)
	rows := must.Get(csv.NewReader(strings.NewReader(page.body)).ReadAll())(t)
	const names = "tx_hash,status,amount,wallet_address,to,token,decimals,network,reference,metadata,onchain_tx_hash,block_number,network_fee," +
		"network_fee_unit,progress,failure,payments,version,mode,created_at,updated_at,amount_text,idempotency_key,network_fee_text,asset"
	if len(rows) != 3 || strings.Join(rows[0], ",") != names {
		t.Fatalf("%d rows: %s", len(rows), page.body)
	}
	if newest := rows[1]; newest[2] != "3" || newest[8] != "'=HYPERLINK(1)" || newest[9] != `{"a":"<b>, \"c\""}` ||
		newest[11]+newest[12]+newest[15]+newest[16]+newest[22]+newest[23] != "" || newest[21] != "3" {
		t.Errorf("%q", newest)
	}
	next, ok := strings.CutPrefix(page.header.Get("Link"), "<")
	next, rel, _ := strings.Cut(next, ">")
	here := must.Get(url.Parse("/v1/transactions?limit=2"))(t)
	there, err := here.Parse(next)
	if must.OK(t, err); !ok || rel != `; rel="next"` || there.Path != here.Path {
		t.Fatalf("Link: %s", page.header.Get("Link"))
	}
	last := a.get("/transactions?"+there.RawQuery, "Accept: text/csv")
	if last.want(t, 200, `,61234567890,wei,,"{""code"":""execution_reverted"",`, ",1,,61234567890,eip155:84532/erc20:0xC000000000000000000000000000000000000000\r\n"); strings.Count(last.body, "\r\n") != 2 ||
		last.header.Get("Link") != "" {
		t.Errorf("the last page: %v %s", last.header, last.body)
	}
	if got := a.get("/transactions?status=confirmed", "Accept: text/csv"); got.body != names+"\r\n" {
		t.Errorf("no payment at all: %q", got.body)
	}
	a.get("/transactions?limit=0", "Accept: text/csv").want(t, 422, `"integer_range"`)
}

// TestAccept: which of the two Accept ranks first.
func TestAccept(t *testing.T) { answers(t, newAPI, "GET /transactions") }

// TestQueries: bad values and unknown parameters are 422 at their parameter.
func TestQueries(t *testing.T) { answers(t, newAPI, "GET /transactions?%s") }

// payTimes makes payments of from to to units, a second apart.
func (a *api) payTimes(from, to int) {
	for n := from; n <= to; n++ {
		a.post("/send-payment", fmt.Sprintf(`{"to":%q,"amount":%d}`, alice, n)).want(a.T, 201)
		a.now = a.now.Add(time.Second)
	}
}

// budgeted finds nothing on a first page, which ends behind the newest payment.
type budgeted struct{ store.Store }

func (b *budgeted) List(ctx context.Context, f store.Filter) ([]payment.Payment, store.Position, error) {
	page, next, err := b.Store.List(ctx, f)
	if f.From.IsZero() {
		page = nil
	}
	return page, next, err
}

// TestPagesFitIntoAnAnswer: Lambda takes 6,291,556 bytes of JSON, with the answer as text. A longer page ends early.
func TestPagesFitIntoAnAnswer(t *testing.T) {
	a := newAPI(t)
	words := make(map[string]string)
	for i := range 20 {
		words[strconv.Itoa(i)] = strings.Repeat("\x01", 499) + "<"
	}
	metadata := must.Get(json.Marshal(words))(t)
	for n := range 100 {
		a.post("/send-payment", fmt.Sprintf(`{"to":%q,"amount":%d,"metadata":%s}`, alice, n+1, metadata)).want(t, 201, `\u0001<`)
	}
	fits := func(body string) {
		text := must.Get(json.Marshal(body))(t)
		if n := len(text) - 5*strings.Count(body, "<"); n > 6_291_556 { // not escaped by the runtime
			t.Errorf("an answer has %d bytes", n)
		}
	}
	paid := 0
	for query := "limit=100"; query != ""; {
		page := a.get("/transactions?" + query)
		fits(page.body)
		fits(a.get("/transactions?"+query, "Accept: text/csv").body)
		paid, query = paid+strings.Count(page.body, `"tx_hash"`), ""
		if next := page.member(t, "next_cursor"); next != "<nil>" {
			query = "cursor=" + next
		}
	}
	if paid != 100 {
		t.Errorf("the pages have %d payments", paid)
	}
}

// TestCursors: another merchant's cursor is refused, and a cursor changed in any place.
func TestCursors(t *testing.T) {
	a := newAPI(t)
	a.payTimes(1, 2)
	cursor := a.get("/transactions?limit=1").member(t, "next_cursor")
	refused := func(name, cursor string, headers ...string) {
		t.Helper()
		got := a.get("/transactions?cursor="+url.QueryEscape(cursor), headers...)
		if got.status != 422 || !strings.Contains(got.body, `"cursor_invalid"`) {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	for i := range cursor {
		for _, c := range "Aa0_" {
			if changed := cursor[:i] + string(c) + cursor[i+1:]; changed != cursor {
				refused(fmt.Sprint("changed at ", i), changed)
			}
		}
		refused(fmt.Sprint("cut at ", i), cursor[:i])
	}
	refused("padded", cursor+"=")
	refused("with a line feed inside", cursor[:8]+"\n"+cursor[8:])
	refused("with a blank", cursor+" ")
	other := a.otherMerchant()
	refused("of another merchant", cursor, "X-Api-Key: "+other.Secret.Reveal())
	for _, limit := range []string{"0", "101", "-1"} {
		refused("forged with the limit "+limit, forge(t, cursor, a.merchant, `"n":1`, `"n":`+limit))
	}
	for _, cursor := range []string{cursor, forge(t, cursor, a.merchant, `"n":1`, `"n":2`)} { // a checksum is no secret, and grants nothing
		a.get("/transactions?cursor="+cursor).want(t, 200, "amount# 1")
	}
}

// forge changes a cursor and its checksum, as a reader of this code can.
func forge(t *testing.T, cursor, merchant, old, replacement string) string {
	t.Helper()
	b := must.Get(base64.RawURLEncoding.DecodeString(cursor))(t)
	body := strings.Replace(string(b[12:]), old, replacement, 1)
	sum := sha256.Sum256([]byte("cursor 1\x00" + merchant + "\x00test\x00" + body))
	return base64.RawURLEncoding.EncodeToString(append(sum[:12], body...))
}

// TestProgressOfPayments: every answer about a pending payment shows what the last round saw of its wallet, which is
// read once for all of them; if it cannot be read, none is shown as mined. A final payment has no progress.
func TestProgressOfPayments(t *testing.T) {
	a := newAPI(t)
	a.post("/send-payment", goodBody, "Idempotency-Key: k").want(t, 201, `"progress":"committed"`)
	a.post("/proposals", words["proposed"], "Idempotency-Key: order-2041").want(t, 201)
	a.released()
	a.payTimes(1, 29)
	p := a.first()
	id := wallet.ID{ChainID: p.Tx.ChainID, Address: p.Wallet}
	seen := wallet.Progress{Mined: 5, Sent: 20}
	must.OK(t, a.payments.Store.Open(t.Context(), wallet.Wallet{ID: id}, p.Token.Contract))
	must.Get(a.payments.Store.Claim(t.Context(), id, "run", a.now, a.now, &seen))(t)
	const mined = `"progress":"mined"`
	a.get("/transaction/"+exampleHash).want(t, 200, mined)
	a.get("/transactions?idempotency_key=k").want(t, 200, mined)
	a.get("/proposals/"+words["proposal"]).want(t, 200, mined)
	a.post("/send-payment", goodBody, `Idempotency-Key: "k"`).want(t, 201, mined, `"idempotency_key":"k"`)
	a.get("/transactions", "Accept: text/csv").want(t, 200, "wei,sent,")
	a.payments.walletReads.Store(0)
	page := a.get("/transactions?limit=100")
	page.want(t, 200)
	if n := strings.Count(page.body, mined); n != 5 || a.payments.walletReads.Load() != 1 {
		t.Errorf("%d are mined, after %d reads of their wallet: %s", n, a.payments.walletReads.Load(), page.body)
	}
	a.payments.unreadable = true
	if page := a.get("/transactions?limit=100"); strings.Count(page.body, `"progress":"committed"`) != 31 {
		t.Errorf("the wallet cannot be read: %d %s", page.status, page.body)
	}
	a.payments.unreadable = false
	p = must.Get(p.Confirm(chain.Receipt{Tx: p.TxHash, Block: 7}, a.now))(t)
	must.OK(t, a.payments.Finish(t.Context(), p))
	a.get("/transaction/"+p.TxHash.String()).want(t, 200, `"progress":null`)
}

func TestBalances(t *testing.T) { answers(t, newAPI, "GET /balance/%s") }

// TestWallets: GET /wallets shows the wallets of the asking merchant alone, with what is promised of their balance.
func TestWallets(t *testing.T) {
	a := newAPI(t)
	get := func(want string) { t.Helper(); a.get("/wallets").want(t, 200, "="+want) }
	id := wallet.ID{ChainID: 84532, Address: token.Address{0x77}}
	row := func(amounts, status string) string {
		return `{"data":[{"address":"` + id.Address.String() + `","asset":"` + a.assets[0].Coin().String() + `",` + amounts +
			`,"status":"` + status + `"}]}`
	}
	full := `"balance":2500000,"balance_text":"2500000","spendable":2500000,"spendable_text":"2500000"`
	of := func(r wallet.ID, merchant string, state wallet.State) error {
		return a.payments.Register(t.Context(), wallet.Registration{ID: r, State: state,
			Token: map[uint64]token.Address{84532: asset.Contract, 137: euro.Contract}[r.ChainID], Key: wallet.InSecret, Merchant: merchant})
	}
	must.OK(t, of(wallet.ID{ChainID: 84532, Address: token.Address{1}}, "", wallet.Active))
	must.OK(t, of(wallet.ID{ChainID: 84532, Address: token.Address{2}}, "mer_other", wallet.Assigned))
	get(`{"data":[]}`)
	must.OK(t, of(id, a.merchant, wallet.Assigned))
	get(row(full, "active"))
	must.OK(t, a.payments.Open(t.Context(), wallet.Wallet{ID: id, Merchant: a.merchant, NextNonce: 1, Ceiling: 9,
		Balance: token.Units(9), Reservations: map[payment.ID]wallet.Reservation{}}, asset.Contract))
	a.node.account.Mined = 1
	of5 := payment.Request{Merchant: a.merchant, Mode: "test", To: token.Address{9}, Amount: token.Units(5)}
	p := payment.New("pay_a", of5, asset, "n", a.now).AssignedTo(id.Address, chain.Tx{ChainID: 84532})
	_, _, err := a.payments.Create(t.Context(), p)
	need := store.NeedOf(p, a.now)
	need.Owner = a.merchant
	must.OK(t, cmp.Or(err, must.Err(a.payments.Reserve(t.Context(), need))))
	tied := row(strings.ReplaceAll(full, `"spendable":2500000,"spendable_text":"2500000"`, `"spendable":2499995,"spendable_text":"2499995"`), "active")
	get(tied)
	a.payments.nonce = 1
	must.Get(a.payments.commit(t.Context(), p))(t)
	tx := must.Get(a.payments.PendingTx(t.Context(), id, 1))(t)
	must.OK(t, a.payments.Store.Release(t.Context(), p.ID, tx))
	get(tied)
	a.node.account.Mined = 2
	get(row(full, "active"))
	must.OK(t, a.payments.Pause(t.Context(), id, "audit"))
	get(row(full, "paused"))
	must.OK(t, a.payments.Repause(t.Context(), id, "audit", ""))
	must.OK(t, a.payments.SetState(t.Context(), id, wallet.Assigned, wallet.Draining, a.now))
	a.node.err = errors.New("silent")
	get(row(`"balance":null,"balance_text":null,"spendable":null,"spendable_text":null`, "paused"))
	id.Address[1]++
	must.OK(t, of(id, a.merchant, wallet.Assigned))
	must.OK(t, of(wallet.ID{ChainID: 137}, a.merchant, wallet.Assigned))
	a.node.hangs = 10 * time.Second // a call's limit
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if a.get("/wallets").want(t, 200, words["eurc"]); time.Since(began) > 14*time.Second {
			t.Errorf("two wallets on a node that hangs take %s, and the function has 15", time.Since(began))
		}
	})
}
