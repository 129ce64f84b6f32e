package merchant_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/remit-payouts/remit/internal/proof/must"
)

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
		case "/transactions":
			_, _ = io.WriteString(w, `{"data":[]}`)
		case "/send-payment", "/send-payments":
			used = append(used, r.Header.Get("Idempotency-Key"))
			w.WriteHeader(http.StatusCreated)
			fmt.Fprintf(w, `{"tx_hash":"0x%d","status":"confirmed"}`, len(used))
		default:
			_, _ = io.WriteString(w, `{"token":"USDC","decimals":6,"balance":0}`)
		}
	}))
	defer server.Close()
	rows := "address,amount,reference\n" + payee + ",1.5,\n" + payee + ",1.5,\n" + payee + ",1.50,Zürich 😀\n" +
		"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed,2,a\n"
	var have strings.Builder
	for _, flags := range [][]string{{}, {"--run", "June"}, {"--batch"}, {"--batch", "--run", "June"}} {
		used = nil
		if out, err := run(t, write(t, rows), server.URL, "k", append(flags, "--yes", "--duplicates")...); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		slices.Sort(used[1:]) // the first is paid before the others
		fmt.Fprintf(&have, "%v\n%s\n", flags, strings.Join(used, "\n"))
	}
	if have.String() != string(want) {
		t.Errorf("the keys are now\n%s\nand were\n%s", have.String(), want)
	}
}
