package measure_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
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

	"github.com/remit-payouts/remit/internal/proof/must"
)

// BenchmarkColdstart measures the init of every function as a process, from its
// birth until it asks the Lambda Runtime API for its first event, and its size,
// beside those of a function that does nothing.
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
