package httpapi_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
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

// TestOthersTransactions: another merchant's payment is no payment, and so is one of the other mode.
func TestOthersTransactions(t *testing.T) {
	a := newAPI(t)
	a.post("/send-payment", goodBody, "Idempotency-Key: k").want(t, 201)
	other := a.otherMerchant()
	theirs := "X-Api-Key: " + other.Secret.Reveal()
	a.get("/transaction/"+exampleHash, theirs).want(t, 404, "transaction_not_found")
	a.get("/transactions", theirs).want(t, 200, `{"data":[],"has_more":false,"next_cursor":null}`)
	a.get("/transactions?idempotency_key=k", theirs).want(t, 200, `"data":[]`)

	r := newRequest(t, "GET", "/transaction/"+exampleHash, "")
	r = r.WithContext(apikey.WithPrincipal(r.Context(), apikey.Principal{MerchantID: a.merchant, Mode: apikey.Live, Grant: apikey.Full()}))
	e := httpapi.GetTransaction(a.payments)
	a.serve(e, r).want(t, 404, "transaction_not_found")

	r = newRequest(t, "GET", "/transaction/"+exampleHash, "")
	r = r.WithContext(apikey.WithPrincipal(r.Context(), apikey.Principal{MerchantID: a.merchant, Mode: apikey.Test, Grant: apikey.Full()}))
	e = httpapi.GetTransaction(prepared{a.payments, a.merchant})
	a.serve(e, r).want(t, 404, "transaction_not_found")
}

// prepared finds a payment that is not signed, which no store should.
type prepared struct {
	store.Store
	merchant string
}

func (u prepared) PaymentByHash(context.Context, chain.Hash) (payment.Payment, error) {
	return payment.Payment{Merchant: u.merchant, Mode: "test", State: payment.Prepared}, nil
}

// TestFoundOnTheChain: a recovered payment is nobody's until its request comes again, but under its
// key it has the mode of the key that asks.
func TestFoundOnTheChain(t *testing.T) {
	a := newAPI(t)
	r := newRequest(t, "GET", "/transactions?idempotency_key=k", "")
	r = r.WithContext(apikey.WithPrincipal(r.Context(), apikey.Principal{MerchantID: a.merchant, Mode: apikey.Test, Grant: apikey.Full()}))
	e := httpapi.ListTransactions(recovered{a.payments}, a.readAssets)
	a.serve(e, r).want(t, 200, `"status":"pending"`, `"mode":"test"`)
}

// recovered finds a payment that was found on the chain.
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
	for accept, want := range map[string]string{
		"": "{", "application/json": "{", "*/*": "{", "image/png": "{", "text/csv, */*": "{", "text/csv, application/json": "{",
		"text/csv;q=0.5, application/json;q=0.6": "{", "text/csv;q=0.5, application/*;q=0.6": "{", "text/csv;q=0": "{",
		"text/csv;q=high": "{", "text/csv;q=1.1": "{", "text/csv;q=": "{", "text/csv;q=0.1234": "{", "text/*;q=0.5, */*;q=0.5": "{",
		"text/csv;q=0, text/*": "{", "text/html, application/xhtml+xml, */*;q=0.8": "{",
		"text/CSV": "t", "text/*": "t", "text/*, application/json;q=0.9": "t", "text/csv, application/json;q=high": "t",
		"text/csv;q=0.2,application/json;q=0.19": "t", "text/csv ; charset=utf-8 ; Q=0.9 , */* ; q=0.8": "t", "text/csv; q=1.000,*/*;q=0.": "t",
		"application/json;q=0.2\nAccept: text/csv;q=0.3": "t", "application/json;q=0.2\nAccept: text/csv;q=0.1": "{",
	} {
		if got := a.get("/transactions", strings.Split("Accept: "+accept, "\n")...); got.status != 200 || got.body[:1] != want {
			t.Errorf("Accept: %s: %d %s", accept, got.status, got.body)
		}
	}
}

// TestQueries: bad values and unknown parameters are 422 at their parameter.
func TestQueries(t *testing.T) { answers(t, newAPI, "GET /transactions?%s") }

// A listed is a page of payments as a client reads it.
type listed struct {
	Data []struct {
		Amount    int       `json:"amount"`
		Status    string    `json:"status"`
		CreatedAt time.Time `json:"created_at"`
	}
	HasMore    bool    `json:"has_more"`
	NextCursor *string `json:"next_cursor"`
}

func (a *api) list(query string) listed {
	a.Helper()
	got := a.get("/transactions?" + query)
	got.want(a.T, 200)
	var page listed
	must.OK(a, json.Unmarshal([]byte(got.body), &page))
	if page.HasMore != (page.NextCursor != nil) {
		a.Errorf("has_more is %v: %s", page.HasMore, got.body)
	}
	return page
}

func (l listed) amounts() []int {
	var amounts []int
	for _, p := range l.Data {
		amounts = append(amounts, p.Amount)
	}
	return amounts
}

// payTimes makes payments of from to to units, a second apart.
func (a *api) payTimes(from, to int) {
	for n := from; n <= to; n++ {
		a.post("/send-payment", fmt.Sprintf(`{"to":%q,"amount":%d}`, alice, n)).want(a.T, 201)
		a.now = a.now.Add(time.Second)
	}
}

// TestPages: newest first, each payment once, however many arrive meanwhile.
func TestPages(t *testing.T) {
	a := newAPI(t)
	a.payTimes(1, 25)
	if first := a.list(""); len(first.Data) != 20 || first.Data[0].Amount != 25 || !first.HasMore {
		t.Errorf("the first page without a limit: %v", first.amounts())
	}
	page := a.list("limit=10")
	all := page.amounts()
	for arriving := 26; page.NextCursor != nil; arriving++ {
		a.payTimes(arriving, arriving)
		page = a.list("cursor=" + url.QueryEscape(*page.NextCursor))
		all = append(all, page.amounts()...)
	}
	var want []int
	for n := 25; n > 0; n-- {
		want = append(want, n)
	}
	if !slices.Equal(all, want) {
		t.Errorf("pages hold %v", all)
	}
	if len(page.Data) != 5 {
		t.Errorf("the limit did not travel inside the cursor: %d on the last page", len(page.Data))
	}
}

// TestEmptyPages: a page may be empty before the end of a list; its cursor leads on.
func TestEmptyPages(t *testing.T) {
	a := newAPI(t)
	a.payTimes(1, 2)
	read := &budgeted{Store: a.payments}
	a.only(httpapi.ListTransactions(read, a.readAssets))
	page := a.list("status=pending&limit=1")
	if len(page.Data) != 0 || !page.HasMore {
		t.Fatalf("%+v", page)
	}
	if page = a.list("cursor=" + *page.NextCursor); !slices.Equal(page.amounts(), []int{1}) || page.HasMore {
		t.Errorf("the page after the empty one: %+v", page)
	}
}

// TestPagesOfDeliveries: a page may be empty; its cursor leads on, with its status, in the same endpoint's list alone.
func TestPagesOfDeliveries(t *testing.T) {
	a := newAPI(t).hooked(2)
	list := "/webhooks/" + exampleHook + "/deliveries"
	page := a.get(list + "?status=exhausted")
	page.want(t, 200, `{"data":[],"has_more":true,"next_cursor":"`)
	next := "?cursor=" + page.member(t, "next_cursor")
	a.get(list+next).want(t, 200, `"has_more":false,"next_cursor":null`)
	a.get(list+next+"&status=exhausted&limit=1").want(t, 200)
	a.get(list+next+"&status=pending").want(t, 422, `"type":"cursor_mismatch","loc":["query","cursor"]`)
	a.get("/webhooks/other/deliveries"+next).want(t, 422, `"type":"cursor_invalid","loc":["query","cursor"]`)
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

// TestPagesFitIntoAnAnswer: Lambda takes 6,291,556 bytes of JSON, in which an answer is
// text. A page of longer payments ends early.
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
		list := a.list(query)
		paid, query = paid+len(list.Data), ""
		if list.NextCursor != nil {
			query = "cursor=" + *list.NextCursor
		}
	}
	if paid != 100 {
		t.Errorf("the pages have %d payments", paid)
	}
}

// TestFilters: they restrict, they are exclusive, and they travel inside the cursor.
func TestFilters(t *testing.T) {
	a := newAPI(t)
	a.payTimes(1, 10) // at 15:04:05 to 15:04:14
	a.confirm()       // the first one
	for query, want := range map[string][]int{
		"status=confirmed":                          {1},
		"status=failed":                             nil,
		"created_after=2026-01-02T15:04:11.999Z":    {10, 9, 8},
		"created_after=2026-01-02T16:04:12%2B01:00": {10, 9},
		"created_after=2026-01-02T15:04:07Z&created_before=2026-01-02T15:04:10Z": {5, 4},
	} {
		if got := a.list(query).amounts(); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	const filters = "status=pending&created_before=2026-01-02T15:04:14Z"
	first := a.list(filters + "&limit=4")
	if got := first.amounts(); !slices.Equal(got, []int{9, 8, 7, 6}) {
		t.Errorf("first page %v", got)
	}
	next := "cursor=" + *first.NextCursor
	for query, want := range map[string][]int{
		next:                 {5, 4, 3, 2},
		next + "&limit=1":    {5},
		next + "&" + filters: {5, 4, 3, 2},
		next + "&created_before=2026-01-02T16:04:14%2B01:00": {5, 4, 3, 2},
	} {
		if got := a.list(query).amounts(); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	a.post("/send-payment", `{"to":"`+alice+`","amount":11,"reference":"Zürich & co"}`).want(t, 201)
	a.post("/send-payment", `{"to":"`+alice+`","amount":12,"reference":"Zürich & co"}`).want(t, 201)
	const reference = "reference=Z%C3%BCrich+%26+co&status=pending&created_after=2026-01-02T15:04:05Z"
	if page := a.list(reference + "&limit=1"); !slices.Equal(page.amounts(), []int{12}) && !slices.Equal(page.amounts(), []int{11}) ||
		len(a.list("cursor="+*page.NextCursor).Data) != 1 || len(a.list("reference=Z%C3%BCrich+%26+co&cursor="+*page.NextCursor).Data) != 1 {
		t.Errorf("by reference: %v", page.amounts())
	}
	if got := a.list("reference=z%C3%BCrich+%26+co"); len(got.Data) != 0 {
		t.Errorf("another reference: %v", got.amounts())
	}
	for _, other := range []string{"status=failed", "created_before=2026-01-02T15:04:13Z", "reference=x",
		"created_after=2026-01-02T15:04:05Z"} {
		a.get("/transactions?"+next+"&"+other).want(t, 422, `"type":"cursor_mismatch","loc":["query","cursor"]`)
	}
}

// TestCursors: another merchant's cursor is refused, and a cursor changed in any place.
func TestCursors(t *testing.T) {
	a := newAPI(t)
	a.payTimes(1, 2)
	cursor := *a.list("limit=1").NextCursor
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
		if got := a.list("cursor=" + cursor).amounts(); !slices.Equal(got, []int{1}) {
			t.Errorf("as it is: %v", got)
		}
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
	a.payTimes(1, 30)
	p := a.first()
	id := wallet.ID{ChainID: p.Tx.ChainID, Address: p.Wallet}
	seen := wallet.Progress{Mined: 5, Sent: 20}
	must.OK(t, a.payments.Store.Open(t.Context(), wallet.Wallet{ID: id}))
	must.Get(a.payments.Store.Claim(t.Context(), id, "run", a.now, a.now, &seen))(t)
	const mined = `"progress":"mined"`
	a.get("/transaction/"+exampleHash).want(t, 200, mined)
	a.get("/transactions?idempotency_key=k").want(t, 200, mined)
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

// TestBalancesAreExact: to 2^256-1.
func TestBalancesAreExact(t *testing.T) {
	a := newAPI(t)
	a.node.account.Balance = token.MaxAmount()
	a.get("/balance/"+alice).want(t, 200, `"balance":`+maxAmount+`,`)
}

// TestNodesOfABalance: enough nodes reach the balance.
func TestNodesOfABalance(t *testing.T) {
	good := chain.Account{Head: chain.Head{Number: 9}, Balance: token.Units(5)}
	for _, test := range []struct {
		name   string
		nodes  []*node
		status int
		part   string
		asked  int // of the first node, for the account
	}{
		{"the first node answers", []*node{{account: good}, {err: errBroken}}, 200, `"block_number":9`, 1},
		{"the first node is down", []*node{{err: errBroken}, {account: good}}, 200, `"block_number":9`, 0},
		{"one of three", []*node{{account: good}, {}, {account: good}}, 200, `"balance":5`, 1},
		{"every node is down", []*node{{err: errBroken}, {err: errBroken}}, 503, `"code":"payment_rail_unavailable"`, 0},
		{"no node at all", nil, 503, `"code":"payment_rail_unavailable"`, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := newAPI(t)
			var nodes chain.Nodes
			for _, n := range test.nodes {
				nodes = append(nodes, n)
			}
			a.only(httpapi.GetBalance(a.readAssets, func(context.Context, token.Coin) (chain.Nodes, error) { return nodes, nil }))
			a.get("/balance/"+alice).want(t, test.status, test.part, "!arn:")
			if len(test.nodes) > 0 && test.nodes[0].asked != test.asked {
				t.Errorf("the first node was asked %d times for it, want %d", test.nodes[0].asked, test.asked)
			}
		})
	}
}
