package merchant_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/local/localtest"
	remit "github.com/remit-payouts/remit/sdk/go"
)

// before serves api, and takes the requests for itself that a function answers.
func before(t *testing.T, api string, take func(w http.ResponseWriter, r *http.Request, h http.Handler) bool) string {
	t.Helper()
	target := must.Get(url.Parse(api))(t)
	proxy := httputil.NewSingleHostReverseProxy(target)
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !take(w, r, proxy) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(between.Close)
	return between.URL
}

// devAsset is the asset of the embedded chain.
const devAsset = "eip155:1337/erc20:0x5a393Bc7930B1e07ec535d04c384B4523181d11F"

// salaries are rows of a file: each has an amount of its own, by which the balance of
// the one recipient tells which were paid how often.
func salaries(rows ...int) string {
	var b strings.Builder
	b.WriteString("address,amount_units,reference\n")
	for _, i := range rows {
		fmt.Fprintf(&b, "%s,%d,salary %d\n", payee, 1_000+i, i)
	}
	return b.String()
}

// upTo returns the whole numbers from first to below end.
func upTo(first, end int) (all []int) {
	for i := first; i < end; i++ {
		all = append(all, i)
	}
	return all
}

// paidOnce holds that the merchant's payments pay each of the rows once, and no other.
func paidOnce(t *testing.T, api *remit.Client, rows []int) {
	t.Helper()
	var have, want []string
	for _, i := range rows {
		want = append(want, fmt.Sprint(1_000+i))
	}
	for p, err := range api.List(t.Context(), url.Values{"limit": {"100"}}) {
		if err != nil {
			t.Fatal(err)
		}
		if p.Status == "failed" {
			continue
		}
		for _, e := range append(p.Payments, remit.BatchEntry{Amount: p.Amount})[:max(1, len(p.Payments))] {
			have = append(have, e.Amount.String())
		}
	}
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Errorf("%d rows are paid, and %d were to be:\n%v\n%v", len(have), len(want), have, want)
	}
}

// TestPayBatches: 250 rows are three payments, and the same file edited, sorted, on another
// machine, in the other mode or under another run's name pays the new rows.
func TestPayBatches(t *testing.T) {
	api, _ := localtest.Stack(t)
	file, all := write(t, salaries(upTo(0, 250)...)), upTo(0, 250)
	if out, err := run(t, file, api.URL, api.Key, "--batch", "--dry-run"); err != nil || !matches(`to pay +250 rows, .* in 3 batches\n`, out) {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := run(t, file, api.URL, api.Key, "--batch", "--yes", "--wait"); err != nil ||
		!matches(`all 250 rows are confirmed, 0\.281125 USDC`, out) {
		t.Errorf("%v\n%s", err, out)
	}
	results := must.Get(os.ReadFile(file + ".results.csv"))(t)
	for _, column := range []string{`(?m),(pay-[0-9a-f]{32}),`, `(?m)^\d+,confirmed,(0x[0-9a-f]{64}),0x`} {
		rows := map[string]int{}
		for _, m := range regexp.MustCompile(column).FindAllStringSubmatch(string(results), -1) {
			rows[m[1]]++
		}
		counts := slices.Sorted(func(yield func(int) bool) {
			for _, n := range rows {
				yield(n)
			}
		})
		if !slices.Equal(counts, []int{50, 100, 100}) {
			t.Errorf("%s appears in %v rows", column, counts)
		}
	}
	// Edited: the first rows removed, the others turned round, some added in between.
	edited := slices.Concat(upTo(250, 255), upTo(120, 250), upTo(255, 257), upTo(3, 120))
	slices.Reverse(edited)
	must.OK(t, os.WriteFile(file, []byte(salaries(edited...)), 0o600))
	all = append(all, upTo(250, 257)...)
	if out, err := run(t, file, api.URL, api.Key, "--batch", "--yes"); !incomplete(err, 2) ||
		!matches(`paid before +247 rows`, out) || !matches(`to pay +7 rows, .* in 1 batch`, out) ||
		!matches(`(?s)paid otherwise +3 rows .*:\n +0\.001 USDC to .* \(line 2\)\n +0\.001001 `, out) {
		t.Errorf("edited: %v\n%s", err, out)
	}
	elsewhere := write(t, salaries(append(slices.Clone(edited), 300)...))
	for _, flags := range [][]string{{}, {"--batch"}, {}} {
		if out, err := run(t, elsewhere, api.URL, api.Key, append(flags, "--yes", "--wait")...); err != nil ||
			!matches(`paid before +25[45] rows`, out) {
			t.Errorf("elsewhere, %v: %v\n%s", flags, err, out)
		}
	}
	paidOnce(t, api, append(all, 300))
	twins := write(t, salaries(9, 7, 7, 7))
	if _, err := run(t, twins, api.URL, api.Key, "--batch", "--yes", "--wait", "--duplicates"); err != nil {
		t.Error(err)
	}
	if out, err := run(t, twins, api.URL, api.Key, "--yes", "--wait", "--duplicates"); err != nil || !matches(`paid before +4 rows`, out) {
		t.Errorf("twins: %v\n%s", err, out)
	}
	for _, one := range [][2]string{{salaries(400), "--wait"}, {salaries(400, 400), "--batch"}} {
		for range 2 {
			if _, err := run(t, write(t, one[0]), api.URL, api.Key, one[1], "--yes", "--wait", "--duplicates"); err != nil {
				t.Error(err)
			}
		}
	}
	if out, err := run(t, elsewhere, api.URL, api.Key, "--batch", "--dry-run", "--run", "June"); err != nil ||
		!matches(`to pay +255 rows`, out) || strings.Contains(out, "paid otherwise") {
		t.Errorf("%v\n%s", err, out)
	}
	paidOnce(t, api, append(all, 300, 7, 7, 400, 400))
}

// TestPayBatchesAfterAFailure: a batch that failed paid nobody, and its rows are free;
// in a row's place a refused one is left out.
func TestPayBatchesAfterAFailure(t *testing.T) {
	api, _ := localtest.Stack(t)
	reverts := "0x7e57000000000000000000000000000000000001,1,\n"
	file := write(t, salaries(1, 2)+reverts)
	for range 2 {
		if out, err := run(t, file, api.URL, api.Key, "--batch", "--yes", "--wait"); !incomplete(err, 1) ||
			!matches(`lines 2 to 4 failed: execution_reverted`, out) {
			t.Errorf("%v\n%s", err, out)
		}
	}
	zero := "0x0000000000000000000000000000000000000000,5,\n"
	must.OK(t, os.WriteFile(file, []byte(salaries(1)+zero+salaries(2)[len(salaries()):]+zero), 0o600))
	out, err := run(t, file, api.URL, api.Key, "--batch", "--yes", "--wait", "--duplicates")
	if !incomplete(err, 1) || !matches(`of 4 rows 2 confirmed, 2 refused`, err.Error()) || !matches(`line 3 refused: .*zero address`, out) ||
		!matches(`(?s)batch 0 of 3 rows \(execution_reverted\): paid nobody.*batch 1 of 3 rows`, out) || !matches(`to pay +4 rows`, out) {
		t.Errorf("%v\n%s", err, out)
	}
	paidOnce(t, api, []int{1, 2})

	book := func(method, path, body string) string {
		a, err := api.Call(t.Context(), method, path, body)
		if err != nil || a.Status/100 != 2 {
			t.Fatalf("%s %s: %d %s %v", method, path, a.Status, a.Body, err)
		}
		return string(a.Body)
	}
	book("POST", "/recipients", `{"address":"`+payee+`"}`)
	key := regexp.MustCompile(`remit_test_[0-9A-Za-z]+_[0-9A-Za-z]+`).FindString(book("POST", "/api-keys",
		`{"recipients":"book","max_amount":1004}`))
	file = write(t, salaries(4, 5)+"0x3333333333333333333333333333333333333333,1,\n")
	for !strings.Contains(book("GET", "/recipients", ""), `"status":"active"`) { // after the stack's hold
		time.Sleep(100 * time.Millisecond)
	}
	out, err = run(t, file, api.URL, key, "--batch", "--yes", "--wait")
	if !incomplete(err, 1) || !matches(`1 confirmed, 2 refused`, err.Error()) || !matches(`line 3 refused: amount_above_maximum`, out) ||
		!matches(`line 4 refused: recipient_not_in_book`, out) {
		t.Errorf("%v\n%s", err, out)
	}
	paidOnce(t, api, []int{1, 2, 4})
}

// TestPayBatchesStops: the API's answers to a batch, and the payments made then.
func TestPayBatchesStops(t *testing.T) {
	api, _ := localtest.Stack(t)
	say := func(status int, body string) func(http.ResponseWriter) bool {
		return func(w http.ResponseWriter) bool {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
			return true
		}
	}
	lost := func(http.ResponseWriter) bool { panic(http.ErrAbortHandler) }
	busy := say(409, `{"detail":"A payment is being made.","code":"idempotency_in_progress"}`)
	reused := say(422, `{"detail":[{"type":"idempotency_key_reused","loc":["header","idempotency-key"],"msg":"Other content"}]}`)
	of := func(status, reference, failure string, rows ...int) func(http.ResponseWriter) bool {
		var entries []string
		for _, i := range rows {
			entries = append(entries, fmt.Sprintf(`{"to":%q,"amount":%d,"reference":"salary %d"}`, payee, 1_000+i, i))
		}
		body := fmt.Sprintf(`{"data":[{"asset":"`+devAsset+`","tx_hash":"0x%064x","status":%q,"reference":%q,"failure":{"code":%q},"payments":[%s]}]}`, 7, status,
			reference, failure, strings.Join(entries, ","))
		if reference == "" {
			body = regexp.MustCompile(`"reference":"[^"]*"`).ReplaceAllString(body, `"reference":null`)
		}
		return say(200, body)
	}
	single := func(reference, metadata string) func(http.ResponseWriter) bool {
		return say(200, `{"data":[{"asset":"`+devAsset+`","tx_hash":"0x07","status":"pending","to":"`+payee+`","amount":1001,"reference":`+reference+`,"metadata":`+
			metadata+`,"payments":null}]}`)
	}
	none, nothing := say(200, `{"data":[]}`), func(http.ResponseWriter) bool { return false }
	type answers = []func(http.ResponseWriter) bool // the last answer repeats
	for name, test := range map[string]struct {
		file      []int
		own, find answers // to GET /transactions?idempotency_key= of the first row, and of number 0 of the run
		pay       answers // to POST /send-payments, or to /send-payment of single rows
		flags     string
		want      string // of the output and the error
		paid      []int  // by the stack
		keys      int    // of all requests for payments
	}{
		"a body that is too large is halved": {file: upTo(0, 5),
			pay: answers{say(413, `{"detail":"No.","code":"body_too_large"}`),
				say(422, `{"detail":[{"type":"too_many","loc":["body","payments"],"msg":"At most 1"}]}`), nothing}, want: `5 pending`,
			paid: upTo(0, 5), keys: 5},
		"no batches here": {file: upTo(0, 150),
			pay:  answers{say(400, `{"detail":"No.","code":"batches_not_enabled"}`)},
			want: `(?s)lines 2 to 101 refused: .*without --batch.*100 refused, 50 not sent`, keys: 1},
		"a limit": {file: upTo(0, 150), pay: answers{say(400, `{"detail":"No.","code":"daily_limit_exceeded"}`)},
			want: `100 refused, 50 not sent`, keys: 1},
		"an index that no entry has": {file: upTo(0, 2), pay: answers{say(400, `{"detail":"No.","index":2}`)},
			want: `2 refused`, keys: 1},
		"a run of another asset": {file: upTo(0, 2), find: answers{say(200, `{"data":[{"asset":"eip155:1/erc20:0x1","token":"DAI","tx_hash":"0x07"}]}`)},
			want: `nothing was paid.*this run pays DAI .eip155:1/erc20:0x1.; pay USDC`},
		"it may not pay": {file: upTo(0, 2), pay: answers{say(403, `{"detail":"No.","code":"key_not_permitted"}`)},
			want: `this one can pay no row`, keys: 1},
		"it may not read": {file: upTo(0, 2), find: answers{say(403, `{"detail":"No.","code":"key_not_permitted"}`)},
			want: `nothing was paid.*403`},
		"a key that may not read, by single rows": {file: upTo(0, 2), find: answers{say(403,
			`{"detail":"No.","code":"key_not_permitted"}`)}, flags: "single", want: `nothing was paid.*403`},
		"no answer": {file: upTo(0, 150), pay: answers{lost},
			want: `100 unknown, 50 not sent; .* run the same command again`, keys: 1},
		"a limit after no answer": {file: upTo(0, 150), pay: answers{lost, say(400, `{"detail":"No.","code":"daily_limit_exceeded"}`)},
			want: `(?s)may still pay: run the same command again in 35 seconds.*100 unknown, 50 not sent`, keys: 1},
		"a limit after an answer that nothing was started": {file: upTo(0, 150),
			pay:  answers{say(429, "{}"), say(400, `{"detail":"No.","code":"daily_limit_exceeded"}`)},
			want: `100 refused, 50 not sent`, keys: 1},
		"a wait beyond all bounds": {file: upTo(0, 2), pay: answers{func(w http.ResponseWriter) bool {
			w.Header().Set("Retry-After", "18446744074") // times 10^9 it is 0.29 in 64 bits
			return say(429, "{}")(w)
		}, nothing}, want: `2 unknown`, keys: 1},
		"a first row that is refused after no answer": {file: upTo(0, 3),
			pay: answers{lost, say(400, `{"detail":"No.","code":"daily_limit_exceeded"}`), nothing}, flags: "single",
			want: `(?s)run the same command again in 35 seconds.*1 unknown, 2 not sent`, keys: 1},
		"a first row that is refused": {file: upTo(0, 4), pay: answers{say(400,
			`{"detail":"No.","code":"daily_limit_exceeded"}`), nothing}, flags: "single", want: `1 refused`,
			paid: upTo(1, 4), keys: 3},
		"no first answer": {file: upTo(0, 3), pay: answers{lost}, flags: "single", want: `1 unknown, 2 not sent`,
			keys: 1},
		"a run that is begun in batches meanwhile": {file: upTo(0, 3), find: answers{none, of("pending", "remit pay, batch 0", "", 1)},
			pay: answers{reused, nothing}, flags: "single", want: `(?s)to pay.*begun with --batch, and goes on so.*3 pending`, paid: []int{0, 2},
			keys: 2},
		"a run that is begun with a row alone": {file: upTo(0, 3),
			find: answers{none, single(`"salary 1"`, `{"remit pay":"first row"}`)}, pay: answers{reused},
			want: `(?s)to pay.*begun without --batch, and goes on so.*3 pending`, paid: []int{0, 2}, keys: 3},
		"a row alone whose words were erased": {file: upTo(0, 3), find: answers{single("null", "{}")},
			want: `(?s)without --batch, and goes on so.*3 pending`, paid: []int{0, 2}, keys: 2},
		"a row alone that may be any of several": {file: []int{0, 1, 2, 1}, find: answers{single("null", "{}")},
			flags: "other", want: `2 unknown`, paid: []int{0, 2}, keys: 2},
		"no answer to what was paid": {file: upTo(0, 2), find: answers{lost},
			want: `nothing was paid, since what was paid before is not known`},
		"a batch that another is making": {file: upTo(0, 150), find: answers{busy}, pay: answers{busy, busy, nothing},
			flags: "--patience=5s", want: `150 pending`, paid: upTo(0, 150), keys: 2},
		"a batch of other rows that is never signed": {file: upTo(0, 150), find: answers{busy}, pay: answers{reused},
			want: `(?s)batch 0 of this run was begun with other rows.*100 unknown, 50 not sent`, keys: 1},
		"a batch that is signed at last": {file: upTo(0, 3), find: answers{busy, busy,
			of("pending", "remit pay, batch 0", "", 1)}, pay: answers{reused, nothing}, flags: "--patience=5s",
			want: `3 pending`, paid: []int{0, 2}, keys: 2},
		"a batch that is never signed, by single rows": {file: upTo(0, 2), find: answers{busy}, pay: answers{reused},
			flags: "single", want: `(?s)was begun with other rows, or with one row alone.*1 unknown, 1 not sent`, keys: 1},
		"a key that is taken, and nothing is under it": {file: upTo(0, 150), pay: answers{reused}, want: `100 unknown, 50 not sent`, keys: 1},
		"a batch that paid others": {file: upTo(0, 3), find: answers{of("confirmed", "remit pay, batch 0", "", 1, 7)},
			want: `1 confirmed, 2 pending`, paid: []int{0, 2}, keys: 1},
		"a batch whose words were erased": {file: upTo(0, 3), find: answers{of("confirmed", "", "", 1, 7)},
			want: `1 confirmed, 2 pending`, paid: []int{0, 2}, keys: 1},
		"a batch of one, recovered from the chain": {file: upTo(0, 3),
			find: answers{say(200, `{"data":[{"asset":"`+devAsset+`","tx_hash":"0x07","status":"confirmed","to":"`+payee+
				`","amount":1001,"reference":null,"payments":null}]}`)}, own: answers{of("confirmed", "", "", 7)}, want: `1 confirmed, 2 pending`,
			paid: []int{0, 2}, keys: 1},
		"a batch that paid other amounts": {file: upTo(0, 3), find: answers{of("failed", "remit pay, batch 0",
			"amount_differs", 1, 2)}, want: `(?s)failed before   2 rows.*1 pending, 2 failed`,
			paid: []int{0}, keys: 1},
		"a batch that paid nobody": {file: upTo(0, 3), find: answers{of("failed", "remit pay, batch 0",
			"nonce_consumed", 1, 2)}, want: `3 pending`, paid: upTo(0, 3), keys: 1},
		"a batch that paid nobody, by single rows": {file: upTo(0, 3), find: answers{of("failed", "remit pay, batch 0",
			"nonce_consumed", 1, 2)}, flags: "single", want: `3 pending`, paid: upTo(0, 3),
			keys: 1},
		"a batch that cannot be read": {file: upTo(0, 3), find: answers{say(200,
			`{"data":[{"asset":"`+devAsset+`","tx_hash":"0x07","status":"confirmed","payments":[{"to":"0x1","amount":1001}]}]}`)},
			want: `nothing was paid.*batch 0 of this run`},
		"an amount that cannot be read": {file: upTo(0, 3), find: answers{say(200,
			`{"data":[{"asset":"`+devAsset+`","tx_hash":"0x07","status":"confirmed","payments":[{"to":"`+payee+`","amount":1.5}]}]}`)},
			want: `nothing was paid.*batch 0 of this run`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mine := localtest.Join(t, &remit.Client{URL: api.URL}, name)
			var mu sync.Mutex
			var first, second string // the keys that are asked about: of number 0, then of number 1 or of the first row
			keys := map[string]bool{}
			next := func(from *answers) func(http.ResponseWriter) bool {
				if len(*from) == 0 {
					return nothing
				}
				one := (*from)[0]
				if len(*from) > 1 {
					*from = (*from)[1:]
				}
				return one
			}
			at := before(t, api.URL, func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
				mu.Lock()
				answer := nothing
				switch key := r.URL.Query().Get("idempotency_key"); {
				case r.Method == http.MethodPost:
					if keys[r.Header.Get("Idempotency-Key")] = true; r.URL.Path == "/send-payments" ||
						test.flags == "single" && r.Header.Get("Idempotency-Key") == first {
						answer = next(&test.pay)
					}
				case key == "":
				case first == "" || key == first:
					first, answer = key, next(&test.find)
				case second == "" || key == second:
					second, answer = key, next(&test.own)
				case test.find == nil: // of a run that is begun two look-ups are enough, however many rows it has
					t.Errorf("a third key is looked up: %s", key)
				}
				mu.Unlock()
				return answer(w)
			})
			flags := []string{"--yes", "--patience=1s", "--batch"}
			if test.flags == "single" {
				flags = flags[:2]
			} else if strings.HasPrefix(test.flags, "--") {
				flags = append(flags, test.flags)
			}
			file := write(t, salaries(test.file...))
			if test.flags == "other" {
				file = write(t, strings.Replace(salaries(test.file...), "salary 1", "bonus", 1))
			}
			out, err := run(t, file, at, mine.Key, flags...)
			if err == nil || !matches(test.want, out+err.Error()) {
				t.Errorf("%v\n%s", err, out)
			}
			paidOnce(t, mine, test.paid)
			mu.Lock() // a request whose answer is lost may still be read
			defer mu.Unlock()
			if len(keys) != test.keys {
				t.Errorf("payments were asked for under %d keys, and not %d", len(keys), test.keys)
			}
		})
	}
}
