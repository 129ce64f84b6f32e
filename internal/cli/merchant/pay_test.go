package merchant_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/cli/merchant"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
	"github.com/remit-payouts/remit/internal/sandbox/local/localtest"
	remit "github.com/remit-payouts/remit/sdk/go"
)

// pay runs remit pay on a file, and returns its exit status, and its output with the error.
func pay(t *testing.T, api *remit.Client, file, flags string) (status int, said string) {
	t.Helper()
	var c merchant.Pay
	must.OK(t, localtest.Parse(&c, append(strings.Fields(flags), file, "--url", api.URL, "--key", api.Key)...))
	var out strings.Builder
	err := c.Run(t.Context(), &out)
	if wide := regexp.MustCompile(`(?m)^.{201,}$`).FindString(out.String()); wide != "" {
		t.Errorf("a line of over 200 columns: %s", wide)
	}
	if err != nil {
		status = 1
		fmt.Fprint(&out, err)
	}
	if told, tells := err.(interface{ ExitCode() int }); tells {
		status = told.ExitCode()
	}
	return status, out.String()
}

func pays(t *testing.T, api *remit.Client, file, flags string, status int, says string) string {
	t.Helper()
	got, said := pay(t, api, file, flags)
	if got != status || !matches(says, said) {
		t.Errorf("%q ended with %d, want %d and %s:\n%s", flags, got, status, says, said)
	}
	return said
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "list.csv")
	must.OK(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// TestPayNamesEveryBadRow: nothing is paid of a file with a row that cannot be paid.
func TestPayNamesEveryBadRow(t *testing.T) {
	api := stack(t)
	tabletest.Run(t, map[string]string{"payee": payee, "asset": devAsset}, func(t *testing.T, c tabletest.Case) {
		file := write(t, c.In[0])
		for want := range strings.SplitSeq(c.Want, " … ") {
			pays(t, api, file, "--yes", 1, want)
		}
	})
	for paid, err := range api.List(t.Context(), nil) {
		t.Errorf("it made %v %v", paid, err)
	}
}

// TestPayPaysEachRowOnce: under any order of rows, any separator and any amount of
// runs, and a changed row is a payment that the command tells of before it asks.
func TestPayPaysEachRowOnce(t *testing.T) {
	api := stack(t)
	payee, other := somebody(), somebody()
	file := filepath.Join(t.TempDir(), strings.Repeat("a long name ", 15)+".csv")
	must.OK(t, os.Rename(write(t, "\xef\xbb\xbfReference;Address;Amount\n\"Zürich; May\";"+payee+";1.5\ninv-2;"+other+";2\n"), file))
	pays(t, api, file, "--dry-run", 0, `2 rows, 3\.5 USDC in all, 2 at most in one, at `+api.URL+"\n")
	pays(t, api, file, "--yes --wait --asset="+devAsset, 0, `confirmed: 2 rows, 3\.5 USDC`)
	results, err := os.ReadFile(file + ".results.csv")
	if err != nil || !matches(`(?m)^2,confirmed,0x[0-9a-f]{64},0x[0-9a-f]{64},\d+,,`+payee+`,1500000,pay-[0-9a-f]{32},[^,]*,,1\.5,20\S+Z,`+devAsset+`$`, string(results)) {
		t.Errorf("%v\n%s", err, results)
	}
	// Edited: sorted, in units, with commas; one row changed and one twice.
	again := "address,amount_units,reference\n" + other + ",2000001,inv-2\n" + payee + ",1500000,Zürich; May\n" +
		payee + ",1500000,Zürich; May\n"
	must.OK(t, os.WriteFile(file, []byte(again), 0o600))
	for _, says := range []string{`line 4 repeats line 3`, `paid or pending 1 row,`,
		`not in the file 1 row that this run paid`, `this run has 1 row otherwise; restore or remove it, or add --changed`} {
		pays(t, api, file, "--yes --wait", 1, says)
	}
	pays(t, api, file, "--yes --wait --duplicates --again", 1, "add --changed")
	pays(t, api, file, "--yes --wait --changed", 1, `the file has 1 repeat; remove them, or add --duplicates`)
	pays(t, api, file, "--yes --wait --changed --duplicates", 0, "")
	pays(t, api, file, "--yes --wait", 3, "")
	for address, want := range map[string]string{payee: "3000000", other: "4000001"} {
		if have, err := api.Balance(t.Context(), address); err != nil || have.Balance.String() != want {
			t.Errorf("%s holds %s, not %s (%v)", address, have.Balance, want, err)
		}
	}
	pays(t, api, file, "--yes --duplicates --again --run June", 2, "") // another run pays the rows again
}

// TestPayUnderAnotherName: rows that another run or program has paid, is paying or has proposed need their own consent.
func TestPayUnderAnotherName(t *testing.T) {
	api := stack(t)
	must.Get(api.Attempt(t.Context(), "", remit.Order{To: payee, Amount: "1009", Reference: "salary 9"}))(t)
	file := write(t, salaries(1, 2)+payee+",7,=formula\n0x7e57000000000000000000000000000000000001,1,\n")
	tabletest.Run(t, map[string]string{"day": `20\d\d-\d\d-\d\d`}, func(t *testing.T, c tabletest.Case) {
		at := file
		if c.In[0] != "" {
			at = write(t, salaries(numbers(t, c.In[0])...))
		}
		if status, said := pay(t, api, at, c.In[1]); fmt.Sprint(status) != c.In[2] || !matches(c.Want, said) {
			t.Errorf("%q ended with %d:\n%s", c.In[1], status, said)
		}
	})
	begun := must.Get(os.ReadFile(file + ".Jun%2F1.results.csv"))(t) // as of a run that was killed after its yes
	begun = regexp.MustCompile(`(?m)^(\d),(.*?,){5}`).ReplaceAll(begun, []byte("$1,,,,,,"))
	must.OK(t, os.WriteFile(file+".Sep.results.csv", begun, 0o600))
	_, other := pay(t, api, file, "--yes --run=Oct") // the first three, and the killed run's fourth
	if status, said := pay(t, api, file, "--yes --run=Sep"); status != 2 || strings.Contains(said, "paid elsewhere") ||
		!strings.Contains(other, "paid elsewhere  4 rows") {
		t.Errorf("a run that was begun ended with %d:\n%s", status, said)
	}
	must.Get(api.Attempt(t.Context(), "", remit.Order{To: payee, Amount: "1077", Reference: "salary 77"}))(t)
	for newer, seen := range map[int]bool{999: true, 1000: false} {
		_, said := pay(t, crowded(t, api, "/transactions", newer), write(t, salaries(77)), "--dry-run")
		if strings.Contains(said, "paid elsewhere  1 row") != seen {
			t.Errorf("below %d newer payments:\n%s", newer, said)
		}
	}
}

// TestPayAssets: a run pays the asset that its rows name, and no other.
func TestPayAssets(t *testing.T) {
	api := stack(t)
	all, dir := must.Get(api.Assets(t.Context()))(t), t.TempDir()
	words := map[string]string{"payee": payee, "eurc": all[1].Asset}
	key := fmt.Sprintf("pay-%x", sha256.Sum256([]byte("Q\x00"+payee+"\x001000000\x00\x000")))[:36] // in a run Q
	must.Get(api.Attempt(t.Context(), key, remit.Order{Asset: &all[1].Asset, To: payee, Amount: "1000000"}))(t)
	files := map[string]string{} // by their text
	tabletest.Run(t, words, func(t *testing.T, c tabletest.Case) {
		text, flags := c.In[0], c.In[1]
		if files[text] == "" {
			files[text] = filepath.Join(dir, fmt.Sprint(len(files), ".csv"))
			must.OK(t, os.WriteFile(files[text], []byte(text), 0o600))
		}
		if _, said := pay(t, api, files[text], "--yes "+flags); !matches(c.Want, said) {
			t.Errorf("%q says %s, want %s", flags, said, c.Want)
		}
	})
}

// TestPayFileSavedAgain: a spreadsheet that saves the file again changes blanks, accents and leading zeros.
func TestPayFileSavedAgain(t *testing.T) {
	api := stack(t)
	rows := func(references ...string) (text string) {
		for _, r := range references {
			text += payee + ",1," + r + ",Ada\n"
		}
		return "address,amount,reference,name\n" + text
	}
	file := write(t, rows("00123", "salary Ada ", "Jose\u0301"))
	ends := func(status int, says, flags string) {
		t.Helper()
		pays(t, api, file, "--yes --wait "+flags, status, says)
	}
	const day = `20\d\d-\d\d-\d\d`
	ends(0, `confirmed: 3 rows, 3 USDC, since [-0-9]+; `, "")
	must.OK(t, os.WriteFile(file, []byte(rows("00123", "salary Ada", "José")), 0o600))
	ends(3, `nothing new: 3 rows, 3 USDC, since `+day+`, confirmed before`, "")
	must.OK(t, os.WriteFile(file, []byte(rows("123", "salary Ada", "José")), 0o600))
	ends(1, `(?s)line 2 repeats a row that this run has as "00123": 1 USDC .*nothing was paid`, "")
	ends(0, `confirmed: 3 rows.*; made now: 1 row, 1 USDC; before: 2 rows, 2 USDC, since `+day, "--changed")
	ends(3, `not in the file 1 row that this run paid`, "")
	ends(0, `confirmed: 3 rows`, "--again --run July/1")
	must.OK(t, os.WriteFile(file, []byte(strings.Replace(rows("123", "salary Ada", "José"), "1,sal", "1.5,sal", 1)), 0o600))
	ends(1, `(?s)line 3 repeats a row that this run has with another amount: 1\.5 USDC .*nothing was paid`, "")
	must.OK(t, os.WriteFile(file, []byte(rows("123", "salary Ada", "José")), 0o600))
	pays(t, localtest.Join(t, &remit.Client{URL: api.URL}, "B"), file, "--yes", 1, `csv is of another stack`)
	june, july := must.Get(os.ReadFile(file+".results.csv"))(t), must.Get(os.ReadFile(file+".July%2F1.results.csv"))(t)
	if strings.Count(string(june), "\n") != 5 || !matches(`(?m)^2,confirmed,0x.*,00123,Ada,1,`+day+`T`, string(june)) || strings.Count(string(july), "\n") != 4 {
		t.Errorf("%s%s", june, july)
	}
	must.OK(t, os.Remove(file+".results.csv"))
	ends(3, `nothing new: 3 rows, 3 USDC, since `+day, "")
	must.OK(t, os.WriteFile(file+".results.csv", []byte("\xef\xbb\xbf"+string(june)), 0o600))
	ends(1, `results.csv: it was not written by this command`, "")
	killed := strings.Replace(string(june), "\n3,confirmed", "\n3,", 1) // before it stored the last hash
	killed = regexp.MustCompile(`\n3,,\w+`).ReplaceAllString(killed, "\n3,,")
	must.OK(t, os.WriteFile(file+".results.csv", []byte(killed), 0o600))
	must.OK(t, os.WriteFile(file, []byte(rows("123", "else", "José")), 0o600))
	ends(1, `not in the file 2 rows`, "")
	must.OK(t, os.WriteFile(file, []byte(rows("=1")), 0o600))
	ends(0, `confirmed: 1 row`, "--run=formula")
	must.OK(t, os.WriteFile(file, []byte(strings.Replace(rows("=1"), ",1,", ",1.5,", 1)), 0o600))
	ends(1, `line 2 repeats a row that this run has with another amount`, "--run=formula")
	for _, flags := range []string{"--run=single", "--run=batch --batch --again"} { // without the results
		file = write(t, rows("007", "Ann"))
		ends(0, `confirmed: 2 rows`, flags)
		for _, was := range []string{"007", "Ann"} {
			file = write(t, strings.Replace(rows("007", "Ann"), was, "else", 1))
			ends(1, `line \d repeats a row that this run has as "`+was+`"`, strings.TrimSuffix(flags, " --again"))
		}
	}
}

// TestPayWarnsOfResemblingAddresses: of rows, of earlier payments, and of the address book, which
// every key that pays may read. Nothing is refused.
func TestPayWarnsOfResemblingAddresses(t *testing.T) {
	api := stack(t)
	alike := func(digit string) string { return "0xabcd" + strings.Repeat(digit, 32) + "1234" }
	file := write(t, "address,amount\n"+alike("1")+",1\n")
	if out := pays(t, api, file, "--yes --wait", 0, ""); strings.Contains(out, "resembles") {
		t.Errorf("nothing resembles it:\n%s", out)
	}
	must.Get(api.AddRecipient(t.Context(), remit.CreateRecipientRequest{Address: alike("2")}))(t)
	file = write(t, "address,amount\n"+alike("3")+",1\n"+payee+",1\n"+alike("4")+",1\n"+alike("4")+",1\n")
	narrow := must.Get(api.CreateKey(t.Context(), remit.IssueAPIKeyRequest{Scopes: []remit.Scope{remit.ScopePaymentsRead}}))(t)
	for key, of := range map[string]int{api.Key: 3, narrow.APIKey: 2} { // each other, a payment, the address book
		out := pays(t, &remit.Client{URL: api.URL, Key: key}, file, "--dry-run", 0, "")
		for text, want := range map[string]int{"line 2: 0x": of, "line 4: 0x": of, "line 5: 0x": 0, "(paid or proposed before)": 2,
			"(your address book)": 2 * (of - 2)} {
			if got := strings.Count(out, text); got != want {
				t.Errorf("%q is there %d times, not %d:\n%s", text, got, want, out)
			}
		}
	}
}

// TestPayAcrossFailures: lost answers, overload and refusals of single rows.
func TestPayAcrossFailures(t *testing.T) {
	api := stack(t)
	payee, tooMuch := somebody(), strings.Repeat("9", 30)
	var calls atomic.Int64
	var deaf atomic.Bool // every answer to a payment is lost
	var results string
	var renewed atomic.Int64 // requests while it is deaf, one after another at first
	between := before(t, api.URL, func(w http.ResponseWriter, r *http.Request, proxy http.Handler) bool {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if r.Method != http.MethodPost || strings.Contains(string(body), tooMuch) { // whose refusal is heard at once
			return false
		}
		n := calls.Add(1) % 4
		if n == 1 || deaf.Load() { // carried out, and the answer is lost
			proxy.ServeHTTP(httptest.NewRecorder(), r)
			if deaf.Load() && renewed.Add(1) <= 2 { // the next run knows from it how long to doubt
				now := must.Get(os.Stat(results))(t)
				must.OK(t, os.Chtimes(results, time.Time{}, time.Now().Add(-time.Hour)))
				if time.Since(now.ModTime()) > 10*time.Minute {
					t.Error("a request left unnoted")
				}
			}
			panic(http.ErrAbortHandler)
		}
		if n == 2 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		}
		return n == 2
	})
	file := write(t, "address,amount_units\n"+payee+",1\n"+payee+",2\n"+payee+","+tooMuch+"\n"+payee+",8\n")
	through := &remit.Client{URL: between.URL, Key: api.Key}
	pays(t, through, file, "--yes --wait", 1, `(?s)line 4 refused: insufficient_funds.*3 confirmed, 1 refused`)
	if have, err := api.Balance(t.Context(), payee); err != nil || have.Balance.String() != "11" {
		t.Errorf("it holds %s, not 11 (%v)", have.Balance, err)
	}
	other := write(t, "address,amount_units\n"+payee+",16\n"+strings.Repeat(payee+",1\n", 18))
	results = other + ".deaf.results.csv"
	deaf.Store(true)
	const all = "--yes --duplicates --again --run=deaf --wait --patience="
	pays(t, through, other, all+"10s", 1, `1 unknown, 18 not sent; .* run the same command again`)
	if renewed.Load() < 2 {
		t.Errorf("%d requests got no answer", renewed.Load())
	}
	pays(t, through, other, all+"3s", 1, `16 unknown, 2 not sent`) // as many as at once
	deaf.Store(false)
	pays(t, through, other, all+"2m", 0, "")
	// A request of a run that ended without its answer may still pay, so a refusal of the next run proves nothing.
	for age, want := range map[time.Duration]string{30 * time.Second: "1 unknown", 72 * time.Second: "1 refused"} {
		refused := write(t, "address,amount_units\n"+payee+","+tooMuch+"\n")
		must.OK(t, os.WriteFile(refused+".results.csv", []byte("row,status,tx_hash,onchain_tx_hash,block_number,error,"+
			"address,amount_units,idempotency_key,reference,name,amount,created_at,asset\n2,,,,,,0x,4,pay-1,,,,,\n"), 0o600))
		must.OK(t, os.Chtimes(refused+".results.csv", time.Time{}, time.Now().Add(-age)))
		pays(t, api, refused, "--yes", 1, want)
	}
	if have, err := api.Balance(t.Context(), payee); err != nil || have.Balance.String() != "45" {
		t.Errorf("it holds %s, not 45 (%v)", have.Balance, err)
	}
}

// TestPayAgainAfterAFailure: results separate rows that failed on the chain from paid rows, and
// nothing is paid while there is no place for the results.
func TestPayAgainAfterAFailure(t *testing.T) {
	api := stack(t)
	const reverts = "0x7e57000000000000000000000000000000000001"
	file := write(t, "address,amount\n"+payee+",1\n"+reverts+",1\n")
	must.OK(t, os.Mkdir(file+".results.csv", 0o700))
	pays(t, api, file, "--yes", 1, "writing "+file+".results.csv")
	for paid, err := range api.List(t.Context(), nil) {
		t.Errorf("it made %v %v", paid, err)
	}
	must.OK(t, os.Remove(file+".results.csv"))
	for _, want := range []string{"to pay          2 rows",
		"(?s)paid or pending 1 row,.*failed before   1 row, not paid again.*to pay          nothing.*" +
			"made now: 0 rows, 0 USDC; before: 1 row, 1 USDC, since "} {
		out := pays(t, api, file, "--yes --wait", 1, want)
		if !matches("line 3 failed: execution_reverted.*reverts when mined", out) {
			t.Error(out)
		}
	}
}

func matches(pattern, text string) bool { return regexp.MustCompile(pattern).MatchString(text) }

// TestPayKeys holds the Idempotency-Keys of rows and batches byte for byte: with other keys, a
// file that an earlier version paid would be paid again.
func TestPayKeys(t *testing.T) {
	want := must.Get(os.ReadFile("testdata/paykeys.txt"))(t)
	var mu sync.Mutex
	var used []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		switch r.URL.Path {
		case "/transactions", "/proposals":
			_, _ = io.WriteString(w, `{"data":[]}`)
		case "/send-payment", "/send-payments":
			used = append(used, r.Header.Get("Idempotency-Key"))
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, `{"tx_hash":"0x%d","status":"confirmed"}`, len(used))
		default:
			_, _ = io.WriteString(w, `{"data":[{"token":"USDC","decimals":6,"default":true}]}`)
		}
	}))
	defer server.Close()
	rows := "address,amount,reference\n" + payee + ",1.5,\n" + payee + ",1.5,\n" + payee + ",1.50,Zürich 😀\n" +
		"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed,2,a\n"
	var have strings.Builder
	for _, flags := range []string{"", "--run June", "--batch", "--batch --run June"} {
		used = nil
		pays(t, &remit.Client{URL: server.URL, Key: "k"}, write(t, rows), flags+" --yes --duplicates", 0, "")
		slices.Sort(used[1:]) // the first is paid before the others
		fmt.Fprintf(&have, "[%s]\n%s\n", flags, strings.Join(used, "\n"))
	}
	if have.String() != string(want) {
		t.Errorf("the keys are now\n%s\nand must stay as they were:\n%s", have.String(), want)
	}
}

// TestPayTellsWhyARowWaits, which is no error of the row in its results.
func TestPayTellsWhyARowWaits(t *testing.T) {
	api := stack(t)
	at := before(t, api.URL, func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `{"tx_hash":"0x07","status":"pending","progress":"waiting_for_funds"}`)
		}
		return r.Method == http.MethodPost
	})
	file := write(t, "address,amount\n"+payee+",1\n")
	pays(t, &remit.Client{URL: at.URL, Key: api.Key}, file, "--yes", 2, `line 2 pending: waiting_for_funds\n`)
	if results := must.Get(os.ReadFile(file + ".results.csv"))(t); !matches(`(?m)^2,pending,0x07,,,,`+payee, string(results)) {
		t.Errorf("%s", results)
	}
}
