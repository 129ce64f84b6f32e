package merchant_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
	"github.com/remit-payouts/remit/internal/sandbox/local/localtest"
	remit "github.com/remit-payouts/remit/sdk/go"
)

// before serves api, and takes the requests for itself that a function answers.
func before(t *testing.T, api string, take func(w http.ResponseWriter, r *http.Request, h http.Handler) bool) *httptest.Server {
	t.Helper()
	target := must.Get(url.Parse(api))(t)
	proxy := httputil.NewSingleHostReverseProxy(target)
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !take(w, r, proxy) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(between.Close)
	return between
}

// crowded serves api, with more entries in a list, newer than its own.
func crowded(t *testing.T, api *remit.Client, path string, newer int) *remit.Client {
	t.Helper()
	between := before(t, api.URL, func(w http.ResponseWriter, r *http.Request, proxy http.Handler) bool {
		if r.Method != http.MethodGet || r.URL.Path != path {
			return false
		}
		answer := httptest.NewRecorder()
		proxy.ServeHTTP(answer, r)
		page := strings.ReplaceAll(answer.Body.String(), devAsset, strings.ToLower(devAsset)) // the same asset
		if !r.URL.Query().Has("idempotency_key") {
			entries := strings.Repeat(`{"status":"expired","created_at":"2999-01-01T00:00:00Z"},`, newer)
			page = strings.Replace(page, `"data":[`, `"data":[`+entries, 1)
		}
		_, _ = io.WriteString(w, page)
		return true
	})
	return &remit.Client{URL: between.URL, Key: api.Key}
}

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
		must.OK(t, err)
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
	api := stack(t)
	file, all := write(t, salaries(upTo(0, 250)...)), upTo(0, 250)
	pays(t, api, file, "--batch --dry-run", 0, `to pay +250 rows, .* in 3 batches, at `)
	pays(t, api, file, "--batch --yes --wait", 0, `confirmed: 250 rows, 0\.281125 USDC`)
	results := must.Get(os.ReadFile(file + ".results.csv"))(t)
	for _, column := range []string{`(?m),(pay-[0-9a-f]{32}),`, `(?m)^\d+,confirmed,(0x[0-9a-f]{64}),0x`} {
		rows := map[string]int{}
		for _, m := range regexp.MustCompile(column).FindAllStringSubmatch(string(results), -1) {
			rows[m[1]]++
		}
		if counts := slices.Sorted(maps.Values(rows)); !slices.Equal(counts, []int{50, 100, 100}) {
			t.Errorf("%s appears in %v rows", column, counts)
		}
	}
	// Edited: the first rows removed, the others turned round, some added in between.
	edited := slices.Concat(upTo(250, 255), upTo(120, 250), upTo(255, 257), upTo(7, 120))
	slices.Reverse(edited)
	must.OK(t, os.WriteFile(file, []byte(salaries(edited...)), 0o600))
	all = append(all, upTo(250, 257)...)
	out := pays(t, api, file, "--batch --yes", 2, `paid or pending +243 rows`)
	if !matches(`(?s)not in the file 7 rows .*to pay +7 rows, .* in 1 batch`, out) {
		t.Errorf("edited:\n%s", out)
	}
	elsewhere := write(t, salaries(append(slices.Clone(edited), 300)...))
	pays(t, api, elsewhere, "--yes --wait", 0, `paid or pending +250 rows`)
	pays(t, api, elsewhere, "--yes --wait --batch", 3, `paid or pending +251 rows`)
	pays(t, api, elsewhere, "--yes --wait", 3, `paid or pending +251 rows`)
	paidOnce(t, api, append(all, 300))
	twins := write(t, salaries(9, 7, 7, 7))
	pays(t, api, twins, "--batch --yes --wait --duplicates", 0, "")
	pays(t, api, twins, "--yes --wait --duplicates", 3, `paid or pending +4 rows`)
	for _, one := range [][2]string{{salaries(400), ""}, {salaries(400, 400), "--batch"}} {
		for _, status := range []int{0, 3} {
			pays(t, api, write(t, one[0]), one[1]+" --yes --wait --duplicates", status, "")
		}
	}
	out = pays(t, api, elsewhere, "--batch --dry-run --run June", 0, `to pay +251 rows`)
	if strings.Contains(out, "not in the file") {
		t.Error(out)
	}
	paidOnce(t, api, append(all, 300, 7, 7, 400, 400))
}

// TestPayBatchesAfterAFailure: a batch that failed paid nobody, and its rows are free;
// in a row's place a refused one is left out.
func TestPayBatchesAfterAFailure(t *testing.T) {
	api := stack(t)
	reverts := "0x7e57000000000000000000000000000000000001,1,\n"
	file := write(t, salaries(1, 2)+reverts)
	for range 2 {
		pays(t, api, file, "--batch --yes --wait", 1, `lines 2 to 4 failed: execution_reverted`)
	}
	sandbox := must.Get(api.Call(t.Context(), "GET", "/sandbox", ""))(t)
	wallet := string(regexp.MustCompile(`"wallets":\[\{"address":"(\w+)"`).FindSubmatch(sandbox.Body)[1]) + ",5,\n"
	must.OK(t, os.WriteFile(file, []byte(salaries(1)+wallet+salaries(2)[len(salaries()):]+wallet), 0o600))
	out := pays(t, api, file, "--batch --yes --wait --duplicates", 1, `of 4 rows 2 confirmed, 2 refused`)
	if !matches(`line 3 refused: recipient_refused`, out) || !matches(`to pay +4 rows`, out) ||
		!matches(`(?s)batch 0 \(execution_reverted\): paid nobody.*batch 1 `, out) {
		t.Error(out)
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
	out = pays(t, &remit.Client{URL: api.URL, Key: key}, file, "--batch --yes --wait", 1, `1 confirmed, 2 refused`)
	if !matches(`line 3 refused: amount_above_maximum`, out) || !matches(`line 4 refused: recipient_not_in_book`, out) {
		t.Error(out)
	}
	paidOnce(t, api, []int{1, 2, 4})
}

// numbers reads "0-3 7" as 0, 1, 2, 3 and 7.
func numbers(t *testing.T, text string) (all []int) {
	for _, word := range strings.Fields(text) {
		first, last, ranged := strings.Cut(word, "-")
		if from := must.Get(strconv.Atoi(first))(t); ranged {
			all = append(all, upTo(from, must.Get(strconv.Atoi(last))(t)+1)...)
		} else {
			all = append(all, from)
		}
	}
	return all
}

// TestPayBatchesStops: the API's answers to a batch, and the payments made then. A row has the salaries of the file,
// the flags, the answers to a look-up of the run's number 0, those to one of the first row, those to a POST of a batch
// (or under number 0, of single rows), the salaries that the stack then pays, the keys of all requests for payments,
// and the output with the error. The last answer repeats; without one the stack answers.
func TestPayBatchesStops(t *testing.T) {
	api := stack(t)
	batch := func(status, reference, failure string, rows ...int) string {
		var entries []string
		for _, i := range rows {
			entries = append(entries, fmt.Sprintf(`{"to":%q,"amount":%d,"reference":"salary %d"}`, payee, 1_000+i, i))
		}
		body := fmt.Sprintf(`200 {"data":[{"asset":%q,"tx_hash":"0x%064x","status":%q,"reference":%q,"failure":{"code":%q},"payments":[%s]}]}`,
			devAsset, 7, status, reference, failure, strings.Join(entries, ","))
		if reference == "" {
			body = regexp.MustCompile(`"reference":"[^"]*"`).ReplaceAllString(body, `"reference":null`)
		}
		return body
	}
	const first = "remit pay, batch 0"
	words := map[string]string{"asset": devAsset, "payee": payee, "pending 1": batch("pending", first, "", 1),
		"confirmed 1 7": batch("confirmed", first, "", 1, 7), "erased 1 7": batch("confirmed", "", "", 1, 7),
		"erased 7":    batch("confirmed", "", "", 7),
		"differs 1 2": batch("failed", first, "amount_differs", 1, 2), "failed 1 2": batch("failed", first, "nonce_consumed", 1, 2),
		"reused": `422 {"detail":[{"type":"idempotency_key_reused","loc":["header","idempotency-key"],"msg":"Other content"}]}`}
	tabletest.Run(t, words, func(t *testing.T, c tabletest.Case) {
		t.Parallel()
		rows, flags, paid, want := numbers(t, c.In[0]), c.In[1], numbers(t, c.In[5]), c.Want
		find, own, post := c.In[2], c.In[3], c.In[4]
		begun := find != ""
		mine := localtest.Join(t, &remit.Client{URL: api.URL}, c.Name)
		var mu sync.Mutex
		var first, second string // the keys that are asked about: of number 0, then of number 1 or of the first row
		keys := map[string]bool{}
		at := before(t, api.URL, func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
			mu.Lock()
			defer mu.Unlock()
			from := new(string)
			switch key := r.URL.Query().Get("idempotency_key"); {
			case r.Method == http.MethodPost:
				if keys[r.Header.Get("Idempotency-Key")] = true; r.URL.Path == "/send-payments" ||
					flags == "single" && r.Header.Get("Idempotency-Key") == first {
					from = &post
				}
			case key == "" || r.URL.Path == "/proposals":
			case first == "" || key == first:
				first, from = key, &find
			case second == "" || key == second:
				second, from = key, &own
			case !begun: // of a run that is begun two look-ups are enough, however many rows it has
				t.Errorf("a third key is looked up: %s", key)
			}
			answer, rest, more := strings.Cut(*from, "; ")
			if more {
				*from = rest
			}
			status, body, _ := strings.Cut(answer, " ")
			switch {
			case answer == "" || answer == "pass":
				return false
			case answer == "lost":
				panic(http.ErrAbortHandler)
			case status == "429":
				w.Header().Set("Retry-After", body)
			}
			if !strings.HasPrefix(body, "{") {
				body = fmt.Sprintf(`{"detail":"No.","code":%q}`, body)
			}
			w.WriteHeader(must.Get(strconv.Atoi(status))(t))
			_, _ = io.WriteString(w, body)
			return true
		})
		patience := "--patience=1s" // of a case that ends without an answer
		if len(paid) > 0 && !strings.Contains(want, "unknown") || strings.Contains(post, "limit") {
			patience = "--patience=1m" // a busy machine may need longer for the next request, or be told to try again
		}
		file, all := salaries(rows...), "--yes "+patience+" --batch "+flags
		switch flags {
		case "single":
			all = "--yes " + patience
		case "other":
			file, all = strings.Replace(file, "salary 1", "bonus", 1), "--yes "+patience+" --batch"
		}
		status, said := pay(t, &remit.Client{URL: at.URL, Key: mine.Key}, write(t, file), all)
		if status == 0 || !matches(want, said) {
			t.Error(said)
		}
		paidOnce(t, mine, paid)
		mu.Lock() // a request whose answer is lost may still be read
		defer mu.Unlock()
		if fmt.Sprint(len(keys)) != c.In[6] {
			t.Errorf("payments were asked for under %d keys, and not %s", len(keys), c.In[6])
		}
	})
}
