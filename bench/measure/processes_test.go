package measure_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/remit-payouts/remit/internal/proof/must"
	sdk "github.com/remit-payouts/remit/sdk/go"
)

// BenchmarkLoad measures `remit local` as a process, under clients that each make
// one payment after the other over HTTP. The chain must hold every payment exactly
// once.
func BenchmarkLoad(b *testing.B) {
	remit := build(b, nil, "github.com/remit-payouts/remit/cmd/remit")
	for _, row := range []struct{ clients, wallets, payments int }{{8, 4, 4000}, {32, 4, 15_000}, {32, 16, 15_000}} {
		loadLocal(b, remit, row.clients, row.wallets, pick(row.payments, 300), 1)
	}
}

// BenchmarkBatches measures batches of 100 like BenchmarkLoad and BenchmarkStore.
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

// BenchmarkAnvil measures `remit local` on an anvil: the latency of one client, and how many
// payments 32 clients make a second. With -baseline, three turns of both, and the ratios of
// their medians.
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
