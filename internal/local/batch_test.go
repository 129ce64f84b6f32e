package local_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"remit/internal/client"
	"remit/internal/devnet"
	"remit/internal/disburser"
	"remit/internal/local"
	"remit/internal/local/localtest"
	"remit/internal/merchant"
	"remit/internal/token"
)

// over starts `remit local` on a chain, from whose wallets it pays, until the test ends, and
// returns a merchant of it.
func over(t *testing.T, on *devnet.Chain, from devnet.Wallet, flags ...string) *client.Client {
	t.Helper()
	keys := filepath.Join(t.TempDir(), "keys")
	check(t, os.WriteFile(keys, []byte(from.PrivateKey()), 0o600))
	out, _ := localtest.Start(t, &local.Command{},
		append([]string{"--listen=127.0.0.1:0", "--rpc=" + on.URL(), "--token=" + on.Token().Contract.String(),
			"--wallet-file=" + keys, "--block-time=100ms", "--confirmation-rule=1", "--key-creation=public"}, flags...)...)
	api := &client.Client{URL: strings.Fields(out.Await(t, "API"))[1]}
	out.Await(t, "Ctrl-C")
	var err error
	api.Key, err = api.CreateKey(t.Context(), "Acme")
	check(t, err)
	return api
}

// TestBatchWithARecipientListedOnTheWay: the token refuses a recipient after a batch is
// simulated and before it is in a block. Nobody is paid, the event says so, and the batch
// without that recipient pays everybody else once. A stack whose batch contract is not there
// sends nothing.
func TestBatchWithARecipientListedOnTheWay(t *testing.T) {
	on, err := devnet.Start(t.Context(), devnet.Config{Listen: "127.0.0.1:0", BlockTime: 100 * time.Millisecond, Wallets: 2, Now: time.Now})
	check(t, err)
	t.Cleanup(func() { _ = on.Close() })
	var list client.Batch
	for i := range 5 {
		list.Payments = append(list.Payments, client.Order{To: token.Address{0x70 + byte(i)}.String(), Amount: json.Number(fmt.Sprint(100 + i))})
	}
	refused := func(api *client.Client, key string, status int, code string) {
		t.Helper()
		p, err := api.SendBatch(t.Context(), list, key)
		if problem, ok := errors.AsType[*client.Problem](err); !ok || problem.Status != status || !strings.Contains(string(problem.Body), code) {
			t.Errorf("%s is answered %+v, %v; want %d %s", key, p, err, status, code)
		}
	}
	refused(over(t, on, on.Wallets()[1], "--batch-contract="+token.Address{0xde}.String()), "no-contract", http.StatusServiceUnavailable,
		`"payment_rail_unavailable"`)
	if n, err := on.NonceOf(t.Context(), on.Wallets()[1].Address); n != 0 || err != nil {
		t.Errorf("without a contract %d transactions are sent, %v", n, err)
	}

	api, events := over(t, on, on.Wallets()[0], "--batch-contract="+disburser.Address().String()), make(chan string, 8)
	hooks := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var e struct {
			Type string
			Data client.Payment
		}
		_ = json.NewDecoder(r.Body).Decode(&e)
		events <- fmt.Sprint(e.Type, " ", e.Data.Hash, " ", e.Data.Status, " ", e.Data.Failure.Code)
	}))
	t.Cleanup(hooks.Close)
	_, err = api.CreateWebhook(t.Context(), hooks.URL, "", "payment.failed", "payment.confirmed")
	check(t, err)
	ended := func(key, want string) {
		t.Helper()
		p, err := api.SendBatch(t.Context(), list, key)
		check(t, err)
		if key == "list" { // no block is made yet
			check(t, on.Blacklist(token.Address{0x73}))
			on.Freeze(false)
		}
		select {
		case got := <-events:
			if want := fmt.Sprintf(want, p.Hash); got != want {
				t.Errorf("%s ends with %s, want %s", key, got, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s does not end", key)
		}
	}
	held := func(want ...uint64) {
		t.Helper()
		for i, units := range want {
			if got, err := on.TokenBalance(t.Context(), token.Address{0x70 + byte(i)}); err != nil || got != token.Units(units) {
				t.Errorf("recipient %d has %v, %v; want %d", i, got, err, units)
			}
		}
	}
	on.Freeze(true)
	ended("list", "payment.failed %s failed execution_reverted")
	held(0, 0, 0, 0, 0)
	refused(api, "again", http.StatusBadRequest, `"recipient_not_allowed","index":3`)
	list.Payments = append(list.Payments[:3:3], list.Payments[4:]...)
	ended("others", "payment.confirmed %s confirmed ")
	held(100, 101, 102, 0, 104)

	// The same of a file: its rows fail together, and the next run pays all but the one.
	file, rows := filepath.Join(t.TempDir(), "list.csv"), "address,amount_units\n"
	for i := range 5 {
		rows += fmt.Sprintf("%s,%d\n", token.Address{0x80 + byte(i)}, 200+i)
	}
	check(t, os.WriteFile(file, []byte(rows), 0o600))
	pay := func(want string) {
		var c merchant.Pay
		check(t, localtest.Parse(&c, file, "--url", api.URL, "--key", api.Key, "--batch", "--yes", "--wait"))
		var out bytes.Buffer
		if err := c.Run(t.Context(), &out); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s\n%s", err, want, out.String())
		}
	}
	on.Freeze(true)
	var listed sync.WaitGroup
	listed.Go(func() {
		defer on.Freeze(false)
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if pending, _, err := api.Payments(t.Context(), url.Values{"status": {"pending"}}); err == nil && len(pending) > 0 { // in no block yet
				if err := on.Blacklist(token.Address{0x83}); err != nil {
					t.Error(err)
				}
				return
			}
		}
		t.Error("no batch is made of the file")
	})
	pay("of 5 rows 5 failed")
	listed.Wait()
	pay("of 5 rows 4 confirmed, 1 refused")
	for i, want := range []uint64{200, 201, 202, 0, 204} {
		if got, err := on.TokenBalance(t.Context(), token.Address{0x80 + byte(i)}); err != nil || got != token.Units(want) {
			t.Errorf("row %d: recipient has %v, %v; want %d", i, got, err, want)
		}
	}
}
