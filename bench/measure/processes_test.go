package measure_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/remit-payouts/remit/internal/proof/must"
	sdk "github.com/remit-payouts/remit/sdk/go"
)

// BenchmarkLoad measures `remit local` as a process, under clients that each make one payment after the other over
// HTTP. The chain must hold every payment exactly once.
func BenchmarkLoad(b *testing.B) {
	remit := build(b, nil, "github.com/remit-payouts/remit/cmd/remit")
	for _, row := range []struct{ clients, wallets, payments int }{{8, 4, 4000}, {32, 4, 15_000}, {32, 16, 15_000}} {
		loadLocal(b, remit, row.clients, row.wallets, pick(row.payments, 300), 1)
	}
}

// BenchmarkBatches measures what BenchmarkLoad and BenchmarkStore do, of batches of 100.
func BenchmarkBatches(b *testing.B) {
	loadLocal(b, build(b, nil, "github.com/remit-payouts/remit/cmd/remit"), 32, 4, pick(2000, 30), 100)
	lives(b, pick(400, 10), 100)
}

// loadLocal has clients make n requests of `remit local`, each for so many payments.
func loadLocal(b *testing.B, remit string, clients, wallets, n, size int) {
	b.Run(fmt.Sprintf("clients=%d/wallets=%d", clients, wallets), func(b *testing.B) {
		server, m := startLocal(b, remit, wallets)
		hashes := make([]string, n)
		begin := time.Now()
		load(b, clients, n, time.Hour, func(ctx context.Context, i int) error {
			p, err := askBatch(ctx, m, i, size)
			hashes[i] = p.TxHash
			return err
		})
		last, payments := time.Now(), n*size
		allConfirmed(b, m, hashes)
		confirmed := time.Since(last)
		found := sandboxTransfers(b, m)
		for i := range payments {
			if i = i%n + i/n*stride; len(found[i]) != 1 || len(found) != payments {
				b.Fatalf("payment %d is mined %d times, and %d other amounts", i, len(found[i]), len(found)-payments)
			}
		}
		peak := resident(server.Process.Pid, "VmHWM")
		server.Kill()
		report(b, metrics{"payments": float64(payments), "payments/s": float64(payments) / last.Sub(begin).Seconds(),
			"confirmed-s": confirmed.Seconds(), "peak-MB": peak,
			"cpu-ms/payment": millis(server.ProcessState.UserTime()+
				server.ProcessState.SystemTime()) / float64(payments)}) // of the server, not of the clients
	})
}

// allConfirmed waits until payments are confirmed.
func allConfirmed(b *testing.B, m *sdk.Client, hashes []string) {
	b.Helper()
	for _, hash := range hashes {
		for p := must.Get(m.Get(b.Context(), hash))(b); p.Status != "confirmed"; p = must.Get(m.Get(b.Context(), hash))(b) {
			if p.Status != "pending" {
				b.Fatalf("payment %s is %s", hash, p.Status)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}

var baseline = flag.String("baseline", "", "a remit of another commit, which BenchmarkAnvil measures in turns with this one")

// BenchmarkAnvil measures `remit local` on an anvil: the latency of one client, and how many payments 32 clients make a
// second. With -baseline, three turns of both, and the ratios of their medians.
func BenchmarkAnvil(b *testing.B) {
	const single, clients, wallets = 300, 32, 16
	n, rates, p50s := pick(20_000, 1000), map[string][]float64{}, map[string][]float64{}
	remits := map[string]string{"this": build(b, nil, "github.com/remit-payouts/remit/cmd/remit"), "baseline": *baseline}
	turn := func(name string) func(*testing.B) {
		return func(b *testing.B) {
			chain := startNode(b, io.Discard, "anvil", wallets)
			file := filepath.Join(b.TempDir(), "wallets")
			must.OK(b, os.WriteFile(file, []byte(strings.Join(chain.facts.PrivateKeys, "\n")), 0o600))
			server, m := startLocal(b, remits[name], wallets, "--rpc", chain.facts.RPCURL, "--token", chain.facts.Token.Address.String(),
				"--wallet-file", file, "--key-creation", "public", "--confirmation-rule", "2")
			hashes := make([]string, n+single)
			var begin time.Time
			for _, part := range []struct{ clients, first, n int }{{1, 0, single}, {clients, single, n}} {
				begin = time.Now()
				latency := load(b, part.clients, part.n, time.Hour, func(ctx context.Context, i int) error {
					p, err := ask(ctx, m, part.first+i)
					hashes[part.first+i] = p.TxHash
					return err
				})
				if part.first == 0 {
					p50s[name] = append(p50s[name], quantile(latency, 0.5))
				}
			}
			rate := float64(n) / time.Since(begin).Seconds()
			rates[name] = append(rates[name], rate)
			allConfirmed(b, m, hashes)
			found := must.Get(transfers(b.Context(), chain.Client, common.Address(chain.facts.Token.Address)))(b)
			for i := range hashes {
				if len(found[i]) != 1 || len(found) != len(hashes) {
					b.Fatalf("payment %d is mined %d times, and %d others", i, len(found[i]), len(found)-len(hashes))
				}
			}
			server.Kill()
			report(b, metrics{"payments/s": rate, "single-p50-ms": p50s[name][len(p50s[name])-1],
				"cpu-ms/payment": millis(server.ProcessState.UserTime()+server.ProcessState.SystemTime()) / float64(len(hashes))})
		}
	}
	for i := range 3 {
		for _, name := range []string{"baseline", "this"} {
			if remits[name] != "" && (i == 0 || *baseline != "") {
				b.Run(fmt.Sprint(name, "/turn=", i+1), turn(name))
			}
		}
	}
	if *baseline != "" {
		b.Run("ratio", func(b *testing.B) {
			report(b, metrics{"x-payments/s": quantile(rates["this"], 0.5) / quantile(rates["baseline"], 0.5),
				"x-single-p50": quantile(p50s["this"], 0.5) / quantile(p50s["baseline"], 0.5)})
		})
	}
}

// BenchmarkColdstart measures the init of every function as a process, from its birth until it asks the Lambda Runtime
// API for its first event, and its size, beside those of a function that does nothing.
func BenchmarkColdstart(b *testing.B) {
	type function struct {
		name, path, chain string
		init, resident    []float64 // milliseconds and MB
	}
	var flags []string // for Lambda, from the Makefile
	for _, export := range regexp.MustCompile(`(?m)^\$\(LAMBDA_TARGETS\)[a-z0-9 ]*: export (\w+) := (.*)$`).FindAllStringSubmatch(string(must.Get(os.ReadFile(root+"/Makefile"))(b)), -1) {
		flags = append(flags, export[1]+"="+export[2])
	}
	all := []*function{{name: "hello", path: build(b, flags, "github.com/remit-payouts/remit/bench/hello"), chain: "no"}}
	for _, main := range must.Get(filepath.Glob(root + "/functions/*/main.go"))(b) {
		f := &function{name: filepath.Base(filepath.Dir(main)), chain: "no"}
		f.path = build(b, flags, "github.com/remit-payouts/remit/functions/"+f.name)
		if links := must.Get(exec.Command("go", "list", "-tags=lambda.norpc", "-deps",
			"github.com/remit-payouts/remit/functions/"+f.name).Output())(b); bytes.Contains(links,
			[]byte("github.com/remit-payouts/remit/internal/evm/ethrpc")) {
			f.chain = "yes"
		}
		all = append(all, f)
	}
	asked, over := make(chan time.Time, 1), make(chan struct{})
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- time.Now()
		select { // the first event never comes
		case <-r.Context().Done():
		case <-over:
		}
	}))
	defer api.Close()
	defer close(over)
	env := strings.Fields(`AWS_REGION=us-east-1 AWS_ACCESS_KEY_ID=bench AWS_SECRET_ACCESS_KEY=bench AWS_LAMBDA_LOG_FORMAT=JSON AWS_LAMBDA_FUNCTION_MEMORY_SIZE=512
		STACK=bench MODE=test NETWORK=bench API_KEYS_TABLE=keys PAYMENTS_TABLE=payments WEBHOOKS_TABLE=webhooks
		WALLET_SECRETS=bench/wallets/ RPC_SECRET=rpc
		SETTLE_QUEUE_URL=http://127.0.0.1:1/settle WEBHOOK_QUEUE_URL=http://127.0.0.1:1/webhooks CHAIN_ID=1337 TOKEN_ADDRESS=` + payee + ` TOKEN_SYMBOL=USDC TOKEN_DECIMALS=6
		CONFIRMATION_RULE=2 BLOCK_TIME=2s ENVIRONMENT=dev ALARM_TOPIC_ARN= _HANDLER=bootstrap
		WEBHOOK_LOOPBACK=allowed AWS_LAMBDA_RUNTIME_API=` + strings.TrimPrefix(api.URL, "http://"))
	// In turns, so that other work of the machine slows all alike. The first round
	// brings the files into memory and does not count.
	for round := range 1 + pick(15, 3) {
		for _, f := range all {
			cmd, said := exec.Command(f.path), &bytes.Buffer{}
			cmd.Env, cmd.Stderr, cmd.Stdout = env, said, said
			born := time.Now()
			must.OK(b, cmd.Start())
			select {
			case at := <-asked:
				if round > 0 {
					f.init, f.resident = append(f.init, millis(at.Sub(born))), append(f.resident, resident(cmd.Process.Pid, "VmRSS"))
				}
				_ = cmd.Process.Kill()
				_ = cmd.Wait() // killed
			case <-time.After(20 * time.Second):
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
				b.Fatalf("%s did not ask for an event: %s", f.name, said)
			}
		}
	}
	for _, f := range all {
		text := must.Get(os.ReadFile(f.path))(b)
		var packed bytes.Buffer
		z := zip.NewWriter(&packed)
		z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser,
			error) {
			return flate.NewWriter(w, flate.DefaultCompression)
		}) // as SAM
		must.Get(must.Get(z.Create("bootstrap"))(b).Write(text))(b)
		must.OK(b, z.Close())
		emit(b, "function="+f.name+"/chain="+f.chain,
			metrics{"init-ms": quantile(f.init, 0.5), "x-hello": quantile(f.init, 0.5) / quantile(all[0].init, 0.5),
				"resident-MB": quantile(f.resident, 0.5), "binary-MB": float64(len(text)) / 1e6, "zip-MB": float64(packed.Len()) / 1e6})
	}
}
