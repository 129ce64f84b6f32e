package torture_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/proof/dynamotest"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tooltest"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
	"github.com/remit-payouts/remit/internal/sandbox/local/localtest"
)

// A System is a payout service under the bench: the adapter that a project writes for its own.
type System struct {
	Name string

	// Start starts the service on its database, as it is, and returns its address and the end of it with SIGKILL.
	Start func() (url string, kill func())

	// Ask is the request that pays a recipient once, however often it is made. The status of its answer is below 300
	// once the service has taken the payment on.
	Ask func(url, key, to string, amount int) *http.Request

	// Save copies the database, and Restore puts the copy back. No process of the service runs meanwhile.
	Save, Restore func()

	// Recover follows the service's documentation after a restore; nil if there is none.
	Recover func(url string)
}

var remitPath string // of the program, once remit has started it

// remit is `remit local` on DynamoDB Local.
func remit(t testing.TB, chain *devnet.Chain, rpc string) System {
	wallets, key := filepath.Join(t.TempDir(), "wallets"), ""
	must.OK(t, os.WriteFile(wallets, must.Get(json.Marshal(must.Get(chain.Facts(t.Context()))(t)))(t), 0o600))
	var copied dynamotest.Image
	return System{
		Name: "Remit",
		Start: func() (string, func()) {
			server, merchant := localtest.Local(t, t.Output(), remitPath, "--window", "64", "--dynamodb",
				dynamotest.Start(t), "--rpc", rpc, "--token",
				chain.Token().Contract.String(), "--wallet-file", wallets, "--key-creation", "public", "--no-page")
			if key == "" {
				key = merchant.Key
			}
			return merchant.URL, server.Kill
		},
		Ask: func(url, id, to string, amount int) *http.Request {
			r := post(t, url+"/send-payment", id, fmt.Sprintf(`{"to":%q,"amount":"%d"}`, to, amount))
			r.Header.Set("X-Api-Key", key)
			return r
		},
		Save:    func() { copied = dynamotest.Read(t) },
		Restore: func() { copied.Restore(t) },
		Recover: func(url string) {
			out, err := exec.Command(remitPath, "recover", "--stack", url, "--yes", "--resume").CombinedOutput()
			if err != nil && bytes.Contains(out, []byte("differ")) { // some of the copy are of another wallet
				out, err = exec.Command(remitPath, "wallet", "resume", "--all", "--stack", url, "--yes").CombinedOutput()
			}
			if err != nil {
				t.Fatalf("recovering: %v\n%s", err, out)
			}
		},
	}
}

// plain is plain.py, which keeps answers by key if table is "yes".
func plain(t testing.TB, chain *devnet.Chain, rpc, table string) System {
	python, database := tooltest.Path(t, "web3.py", ".cache/torture/bin/python"), filepath.Join(t.TempDir(), "payouts.db")
	return System{
		Name: "FastAPI and web3.py" + map[string]string{"yes": ", with a table of keys"}[table],
		Start: func() (string, func()) {
			port, mark, err := dynamotest.FreePort()
			must.OK(t, err)
			t.Cleanup(func() { _ = mark.Close() })
			address := fmt.Sprint("127.0.0.1:", port)
			p := must.Get(localtest.Launch(context.WithoutCancel(t.Context()), t.Output(), "env", "RPC_URL="+rpc,
				"PRIVATE_KEY="+chain.Wallets()[0].PrivateKey(), "TOKEN="+chain.Token().Contract.String(), "TABLE="+table, "DATABASE="+database,
				python, "-m", "uvicorn", "plain:app", "--port", fmt.Sprint(port), "--log-level", "critical"))(t)
			t.Cleanup(p.Kill)
			for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
				if open, err := net.Dial("tcp", address); err == nil {
					_ = open.Close()
					return "http://" + address, p.Kill
				} else if time.Now().After(deadline) {
					t.Fatal("plain.py does not listen: ", err)
				}
			}
		},
		Ask: func(url, id, to string, amount int) *http.Request {
			return post(t, url+"/payouts", id, fmt.Sprintf(`{"to":%q,"amount":%d}`, to, amount))
		},
		Save:    func() { must.OK(t, os.WriteFile(database+".copy", must.Get(os.ReadFile(database))(t), 0o600)) },
		Restore: func() { must.OK(t, os.Rename(database+".copy", database)) },
	}
}

func post(t testing.TB, url, key, body string) *http.Request {
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader([]byte(body))))(t)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	return r
}
