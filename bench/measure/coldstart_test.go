package measure_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"io"
	"os"
	"os/exec"
	"remit/internal/boot/boottest"
	"testing"
)

// BenchmarkColdstart measures the init of every function as a process, from its
// birth until it asks for its first event, and its size, beside those of a
// function that does nothing.
func BenchmarkColdstart(b *testing.B) {
	type function struct {
		name, path, chain string
		init, resident    []float64 // milliseconds and MB
	}
	flags := must(boottest.Environment(root))(b)
	all := []*function{{name: "hello", path: build(b, flags, "remit/bench/hello"), chain: "no"}}
	for _, name := range must(boottest.Names(root))(b) {
		f := &function{name: name, path: build(b, flags, "remit/functions/"+name), chain: "no"}
		if links := must(exec.Command("go", "list", "-tags=lambda.norpc", "-deps", "remit/functions/"+name).Output())(b); bytes.Contains(links, []byte("remit/internal/ethrpc")) {
			f.chain = "yes"
		}
		all = append(all, f)
	}
	env := map[string]string{ // of template.yaml, for all functions together
		"STACK": "bench", "MODE": "test", "NETWORK": "bench", "KEY_CREATION": "public", "WEBHOOK_LOOPBACK": "allowed", "API_KEYS_TABLE": "keys", "PAYMENTS_TABLE": "payments",
		"WEBHOOKS_TABLE": "webhooks", "WALLET_SECRET": "wallets", "RPC_SECRET": "rpc", "SETTLE_QUEUE_URL": "http://127.0.0.1:1/settle", "WEBHOOK_QUEUE_URL": "http://127.0.0.1:1/webhooks",
		"CHAIN_ID": "1337", "TOKEN_ADDRESS": payee, "TOKEN_SYMBOL": "USDC", "TOKEN_DECIMALS": "6", "CONFIRMATION_RULE": "2", "BLOCK_TIME": "2s", "NONCE_WINDOW": "64",
		"AMOUNT_MINIMUM": "1", "AMOUNT_MAXIMUM": "0", "DAILY_LIMIT": "0", "MAX_FEE_CAP_GWEI": "500",
	}
	// In turns, so that other work of the machine slows all alike. The first round
	// brings the files into memory and does not count.
	for round := range 1 + pick(15, 3) {
		for _, f := range all {
			running := must(boottest.Start(b.Context(), boottest.Config{Bootstrap: f.path, Env: env}))(b)
			if round > 0 {
				f.init, f.resident = append(f.init, millis(running.Init())), append(f.resident, resident(running.PID(), "VmRSS"))
			}
			running.Stop()
		}
	}
	for _, f := range all {
		text := must(os.ReadFile(f.path))(b)
		var packed bytes.Buffer
		z := zip.NewWriter(&packed)
		z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.DefaultCompression) }) // as SAM
		must(must(z.Create("bootstrap"))(b).Write(text))(b)
		check(b, z.Close())
		emit(b, "function="+f.name+"/chain="+f.chain, metrics{"init-ms": quantile(f.init, 0.5), "x-hello": quantile(f.init, 0.5) / quantile(all[0].init, 0.5),
			"resident-MB": quantile(f.resident, 0.5), "binary-MB": float64(len(text)) / 1e6, "zip-MB": float64(packed.Len()) / 1e6})
	}
}
