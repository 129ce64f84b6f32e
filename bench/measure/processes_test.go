package measure_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/disburser/install"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
	"github.com/remit-payouts/remit/internal/sandbox/local/localtest"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// BenchmarkLoad measures `remit local` as a process, under clients that each make one payment after the other over
// HTTP. The chain must hold every payment exactly once.
func BenchmarkLoad(b *testing.B) {
	for _, row := range []struct{ clients, wallets, payments int }{{8, 4, 4000}, {32, 4, 15_000}, {32, 16, 15_000}} {
		loadLocal(b, row.clients, row.wallets, pick(row.payments, 300), 1)
	}
}

// BenchmarkBatches measures batches of 100 like BenchmarkLoad and BenchmarkStore.
func BenchmarkBatches(b *testing.B) {
	loadLocal(b, 32, 4, pick(2000, 30), 100)
	lives(b, pick(400, 10), 100)
}

// loadLocal has clients make n requests of `remit local`, each for so many payments, after 300 of one client alone.
func loadLocal(b *testing.B, clients, wallets, n, size int) {
	remit, single := build(b, nil, "github.com/remit-payouts/remit/cmd/remit"), 300/size
	b.Run(fmt.Sprintf("clients=%d/wallets=%d", clients, wallets), func(b *testing.B) {
		server, m := localtest.Local(b, b.Output(), remit, "--block-time", "1s", "--wallets", fmt.Sprint(wallets), "--no-page")
		hashes := make([]string, single+n)
		pay := func(clients, first, n int) []float64 {
			return load(b, clients, n, time.Hour, func(ctx context.Context, i int) error {
				p, err := askBatch(ctx, m, first+i, size)
				hashes[first+i] = p.TxHash
				return err
			})
		}
		alone := quantile(pay(1, 0, single), 0.5)
		begin := time.Now()
		pay(clients, single, n)
		last := time.Now()
		for _, hash := range hashes {
			p := must.Get(m.Get(b.Context(), hash))(b)
			for ; p.Status == "pending"; p = must.Get(m.Get(b.Context(), hash))(b) {
				time.Sleep(50 * time.Millisecond)
			}
			if p.Status != "confirmed" {
				b.Fatalf("payment %s is %s", hash, p.Status)
			}
		}
		confirmed := time.Since(last)
		var facts devnet.Facts
		must.OK(b, json.Unmarshal(must.Get(m.Call(b.Context(), "GET", "/sandbox", ""))(b).Body, &facts))
		chain := must.Get(ethclient.DialContext(b.Context(), facts.RPCURL))(b)
		found := must.Get(transfers(b.Context(), chain, common.Address(facts.Token.Address)))(b)
		payments := len(hashes) * size
		for i := range payments {
			if i = i%len(hashes) + i/len(hashes)*stride; len(found[i]) != 1 || len(found) != payments {
				b.Fatalf("payment %d is mined %d times, and %d other amounts", i, len(found[i]), len(found)-payments)
			}
		}
		memory := peak(server.Process.Pid)
		server.Kill()
		report(b, metrics{"payments": float64(payments), "payments/s": float64(n*size) / last.Sub(begin).Seconds(),
			"single-p50-ms": alone, "confirmed-s": confirmed.Seconds(), "peak-MB": memory,
			"cpu-ms/payment": millis(server.ProcessState.UserTime()+
				server.ProcessState.SystemTime()) / float64(payments)}) // of the server, not of the clients
	})
}

// BenchmarkColdstart measures the init of every function as a process, from its birth until it asks the Lambda Runtime
// API for its first event, and its size, beside those of a function that does nothing. Each has the variables of
// template.yaml; "bench" stands for a name that AWS gives.
func BenchmarkColdstart(b *testing.B) {
	type function struct {
		name, path, chain string
		init              []float64 // milliseconds
	}
	var flags, env []string // for Lambda, from the Makefile
	for _, m := range regexp.MustCompile(`[ {]([A-Z_]+): !`).FindAllSubmatch(must.Get(os.ReadFile(root+"/template.yaml"))(b), -1) {
		env = append(env, string(m[1])+"=bench")
	}
	env = append(env, "MODE=test", "ENVIRONMENT=dev", "ALARM_TOPIC_ARN=", "BATCH_PLACES=0", "RECIPIENT_HOLD_SECONDS=86400")
	if len(env) < 20 {
		b.Errorf("template.yaml sets %q: has its form changed?", env)
	}
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
	lambda := strings.Fields("AWS_REGION=us-east-1 AWS_LAMBDA_FUNCTION_MEMORY_SIZE=128 AWS_ACCESS_KEY_ID=bench " +
		"AWS_SECRET_ACCESS_KEY=bench AWS_LAMBDA_LOG_FORMAT=JSON " +
		"_HANDLER=bootstrap AWS_LAMBDA_RUNTIME_API=" + strings.TrimPrefix(api.URL, "http://"))
	// In turns, so that the machine's other work slows all alike. The first round reads the files and does not count.
	for round := range 1 + pick(15, 3) {
		for _, f := range all {
			cmd, said := exec.Command(f.path), &bytes.Buffer{}
			cmd.Env = slices.Concat(lambda, env)
			cmd.Stderr, cmd.Stdout = said, said
			born := time.Now()
			must.OK(b, cmd.Start())
			select {
			case at := <-asked:
				_ = cmd.Process.Kill()
				_ = cmd.Wait() // killed
				if round > 0 {
					f.init = append(f.init, millis(at.Sub(born)))
				}
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
		z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
			return flate.NewWriter(w, flate.DefaultCompression)
		}) // as SAM
		must.Get(must.Get(z.Create("bootstrap"))(b).Write(text))(b)
		must.OK(b, z.Close())
		emit(b, "function="+f.name+"/chain="+f.chain,
			metrics{"init-ms": quantile(f.init, 0.5), "x-hello": quantile(f.init, 0.5) / quantile(all[0].init, 0.5),
				"binary-MB": float64(len(text)) / 1e6, "zip-MB": float64(packed.Len()) / 1e6})
	}
}

// BenchmarkPost measures POST /send-payment under clients that each make one payment after the other.
func BenchmarkPost(b *testing.B) {
	c, length := startChain(b, 16), time.Duration(pick(1500, 500))*time.Millisecond
	for _, d := range []distance{far, near} {
		roundTrips := 2*d.rpc + 3*d.store // of one payment, in sequence: estimate, put, reservation, commit, broadcast
		for _, clients := range pick([]int{1, 4, 16, 64, 128}, []int{1, 64}) {
			name := fmt.Sprintf("%v/clients=%d/payer=", d, clients)
			for _, wallets := range pick([]int{1, 4, 16}, []int{4}) {
				b.Run(fmt.Sprintf("%s%d-wallets", name, wallets), func(b *testing.B) {
					paying := c.Wallets()[:wallets]
					r := newRig(b, c, paying, memory.NewPayments(), d, nil)
					before := mined(b, c, paying)
					payMany(b, r, 1, 1)
					r.take()
					latency := load(b, clients, math.MaxInt, length, r.pay)
					b.ReportMetric(float64(r.take()["request"])/float64(len(latency)), "requests/payment")
					if roundTrips > 0 {
						b.ReportMetric(quantile(latency, 0.5)/millis(roundTrips), "p50/roundtrips")
					}
					if want := before + 1 + len(latency); await(b, c, paying, want) != want {
						b.Fatalf("a nonce hole, or a second transfer: want %d transactions", want)
					}
				})
			}
		}
	}
}

// load has clients make n payments, or as many as they begin within limit, each
// one payment after the other. It returns the milliseconds of each payment. None may fail.
func load(b *testing.B, clients, n int, limit time.Duration, pay func(ctx context.Context, n int) error) (latency []float64) {
	b.Helper()
	var mu sync.Mutex
	used, begin := processor(b), time.Now()
	until, cancel := context.WithTimeout(b.Context(), limit)
	defer cancel()
	must.OK(b, each(until, clients, n, func(_ context.Context, i int) error {
		at := time.Now()
		if err := pay(b.Context(), i); err != nil {
			return fmt.Errorf("payment %d was lost: %w", i, err)
		}
		took := millis(time.Since(at))
		mu.Lock()
		defer mu.Unlock()
		latency = append(latency, took)
		return nil
	}))
	took := time.Since(begin)
	report(b, metrics{"payments/s": float64(len(latency)) / took.Seconds(),
		"cpu-ms/payment": millis(processor(b)-used) / float64(len(latency)),
		"p50-ms":         quantile(latency, 0.5), "p99-ms": quantile(latency, 0.99)})
	return latency
}

// processor returns the processor time of this process so far.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	must.OK(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// mined returns how many transactions of the wallets are mined.
func mined(b *testing.B, c *devnet.Chain, wallets []devnet.Wallet) (n int) {
	b.Helper()
	for _, w := range wallets {
		n += int(must.Get(c.Account(b.Context(), w.Address))(b).Mined)
	}
	return n
}

// await waits until so many transactions of the wallets are mined and final, and
// returns how many are mined. A rig takes a wallet on only when all are final.
func await(b *testing.B, c *devnet.Chain, wallets []devnet.Wallet, want int) int {
	b.Helper()
	for range 240 { // a minute of blocks
		if got := mined(b, c, wallets); got >= want {
			for head := c.Head().Number; c.Head().Number < head+confirmed.Depth; {
				time.Sleep(blockTime / 10)
			}
			return got
		}
		time.Sleep(blockTime)
	}
	b.Fatalf("%d of %d transactions were mined", mined(b, c, wallets), want)
	return 0
}

// BenchmarkWallets compares the processor time of a round that settles 2,000 payments on 256 wallets with that on 16.
func BenchmarkWallets(b *testing.B) {
	used := map[int][]float64{}
	for range pick(5, 1) { // in turns, so that other work of the machine slows both alike
		for _, wallets := range []int{16, 256} {
			c, store, hooks := startChain(b, wallets), memory.NewPayments(), memory.NewWebhooks()
			c.Freeze(true)
			subscribe(b, hooks, "https://merchant.example/hooks")
			r := newRig(b, c, c.Wallets(), store, near, &webhook.Publisher{Store: hooks, Queue: queue{}})
			payMany(b, r, 128, 2000)
			settle(b, r, 0)           // the first round of a wallet reads its balance
			time.Sleep(2 * blockTime) // a payment that was just sent is not sent again
			mine(b, c, store, 2000)
			runtime.GC()
			begin := processor(b)
			settle(b, r, 2000)
			used[wallets] = append(used[wallets], millis(processor(b)-begin))
		}
	}
	few := quantile(used[16], 0.5)
	for wallets, ms := range used {
		emit(b, fmt.Sprint("wallets=", wallets), metrics{"cpu-ms": quantile(ms, 0.5), "x-16-wallets": quantile(ms, 0.5) / few})
	}
}

// settle makes one round over all wallets, which must end so many payments.
func settle(b *testing.B, r *rig, want int) {
	b.Helper()
	report, err := r.settler.Round(b.Context(), "bench", true)
	if err != nil || report.Confirmed != want {
		b.Fatalf("%d of %d mined payments were settled: %v", report.Confirmed, want, err)
	}
}

// mine mines the first n pending transactions, lowest nonces first, and makes them final.
func mine(b *testing.B, c *devnet.Chain, store *memory.Payments, n int) {
	b.Helper()
	var all []wallet.PendingTx
	for _, w := range c.Wallets() {
		txs, _, err := store.PendingTxs(b.Context(), wallet.ID{ChainID: c.ID(), Address: w.Address}, 0)
		must.OK(b, err)
		all = append(all, txs...)
	}
	slices.SortStableFunc(all, func(x, y wallet.PendingTx) int { return int(x.Nonce) - int(y.Nonce) })
	for block := range slices.Chunk(all[:n], 2500) { // below the gas limit of a block
		var raw [][]byte
		for _, tx := range block {
			raw = append(raw, tx.Raw)
		}
		must.OK(b, c.MineExactly(raw...))
	}
	must.OK(b, c.MineExactly())
}

// BenchmarkGas reads a payment's gas from receipts, alone and in batches, to recipients that hold the token and to
// others. The token is the test token behind a proxy like USDC's, and every payment has its id in the call data.
func BenchmarkGas(b *testing.B) {
	c := must.Get(devnet.Start(b.Context(), devnet.Config{Listen: "127.0.0.1:0", Wallets: 1, Seed: "gas", Now: time.Now}))(b)
	b.Cleanup(func() { _ = c.Close() })
	node := must.Get(ethclient.DialContext(b.Context(), c.URL()))(b)
	defer node.Close()
	signer, wallet := types.LatestSignerForChainID(new(big.Int).SetUint64(c.ID())), c.Wallets()[0]
	send := func(key [32]byte, to *common.Address, data []byte) *types.Receipt {
		b.Helper()
		private := must.Get(crypto.ToECDSA(key[:]))(b)
		nonce := must.Get(node.NonceAt(b.Context(), crypto.PubkeyToAddress(private.PublicKey), nil))(b)
		tx := must.Get(types.SignNewTx(private, signer, &types.DynamicFeeTx{ChainID: signer.ChainID(), Nonce: nonce,
			GasTipCap: big.NewInt(1e9), GasFeeCap: big.NewInt(1e12), Gas: 15_000_000, To: to, Data: data}))(b)
		must.OK(b, c.MineExactly(must.Get(tx.MarshalBinary())(b)))
		receipt := must.Get(node.TransactionReceipt(b.Context(), tx.Hash()))(b)
		if receipt.Status != types.ReceiptStatusSuccessful {
			b.Fatalf("%x reverted", data)
		}
		return receipt
	}
	var proxy, behind struct {
		ABI      abi.ABI
		Bytecode hexutil.Bytes
	}
	for name, into := range map[string]any{"TestProxy.json": &proxy, "TestToken.json": &behind} {
		must.OK(b, json.Unmarshal(must.Get(os.ReadFile(filepath.Join(root, "internal", "sandbox", "devnet", "contracts", name)))(b), into))
	}
	owner := [32]byte(crypto.Keccak256([]byte("gas/owner"))) // as package devnet derives it
	args := must.Get(proxy.ABI.Pack("", common.Address(c.Token().Contract)))(b)
	coin := send(owner, nil, append(proxy.Bytecode, args...)).ContractAddress
	send(owner, &coin, must.Get(behind.ABI.Pack("mint", common.Address(wallet.Address), big.NewInt(1e15)))(b))
	contract, id := common.Address(install.Address()), payment.KeyID("mer_1", "test", "a").Memo()
	send(wallet.Key, &coin, install.Approval(install.Address(), token.MaxAmount()))
	for _, size := range []int{1, 10, 100} {
		var entries []disburser.Entry
		for i := range size {
			to := token.Address(crypto.Keccak256(fmt.Append(nil, size, i))[:20])
			entries = append(entries, disburser.Entry{To: to, Amount: token.Units(1_000_000 + 49_990_007*uint64(i%100))}) // 1 to 5,000 whole tokens
		}
		to, data := &contract, disburser.Calldata(token.Address(coin), entries, id)
		if size == 1 { // as Remit pays one
			to, data = &coin, append(chain.TransferData(entries[0].To, entries[0].Amount), id...)
		}
		for _, recipients := range []string{"new", "holders"} { // the first payment makes the holders
			used := send(wallet.Key, to, data).GasUsed
			emit(b, fmt.Sprintf("payments=%d/recipients=%s", size, recipients), metrics{"gas/payment": float64(used) / float64(size)})
		}
	}
}
