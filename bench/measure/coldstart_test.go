package measure_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"remit/bench/lab"
	"remit/internal/boot/boottest"
	"remit/internal/devnet"
	"remit/internal/dynamo/dynamotest"
)

// hello is the function that the others are compared with.
const hello = "hello"

// A function is one function of template.yaml, or hello, and its starts.
type function struct {
	name, path  string
	event       []byte
	chain       string    // "yes" if it links a client of the chain
	binary, zip float64   // MB
	init, first []float64 // milliseconds
	resident    []float64 // MB
}

// BenchmarkColdstart measures the start of every function as a process, from its
// birth to its first answer, and its size.
func BenchmarkColdstart(b *testing.B) {
	env := services(b)
	all := functions(b)
	rounds := pick(15, 3)
	// In turns, so that other work of the machine slows all alike. The first round
	// brings the files into memory and does not count.
	for round := range rounds + 1 {
		for _, f := range all {
			f.start(b, env, round > 0)
		}
	}
	base := lab.Quantile(all[0].init, 0.5)
	for _, f := range all {
		lab.Emit(b, "function="+f.name+"/chain="+f.chain, map[string]float64{
			"init-ms": lab.Quantile(f.init, 0.5), "x-hello": lab.Quantile(f.init, 0.5) / base, "first-ms": lab.Quantile(f.first, 0.5),
			"resident-MB": lab.Quantile(f.resident, 0.5), "binary-MB": f.binary, "zip-MB": f.zip,
		})
	}
}

// functions compiles all functions as for Lambda, hello first, and weighs them.
func functions(b *testing.B) (all []*function) {
	b.Helper()
	names, err := boottest.Names(lab.Root)
	if err == nil {
		err = boottest.Build(b.Context(), lab.Root, filepath.Join(lab.Root, ".cache", "bench", "functions"))
	}
	if err != nil {
		b.Fatal(err)
	}
	flags, err := boottest.Environment(lab.Root)
	if err != nil {
		b.Fatal(err)
	}
	for _, name := range append([]string{hello}, names...) {
		f := &function{name: name, path: filepath.Join(lab.Root, ".cache", "bench", "functions", name, "bootstrap"), chain: "no"}
		if name == hello {
			f.event = []byte(`{"httpMethod":"GET"}`)
			command(b, flags, "go", "build", "-o", f.path, "remit/bench/hello")
		} else {
			if f.event, err = os.ReadFile(filepath.Join(lab.Root, "events", name+".json")); err != nil {
				b.Fatal(err)
			}
			if strings.Contains(command(b, flags, "go", "list", "-deps", "remit/functions/"+name), "remit/internal/ethrpc") {
				f.chain = "yes"
			}
		}
		text, err := os.ReadFile(f.path)
		if err != nil {
			b.Fatal(err)
		}
		var packed bytes.Buffer
		z := zip.NewWriter(&packed)
		z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.DefaultCompression) }) // as SAM
		w, err := z.Create("bootstrap")
		if err == nil {
			_, err = w.Write(text)
		}
		if err != nil || z.Close() != nil {
			b.Fatalf("packing %s: %v", name, err)
		}
		f.binary, f.zip = float64(len(text))/1e6, float64(packed.Len())/1e6
		all = append(all, f)
	}
	return all
}

func command(b *testing.B, env []string, name string, args ...string) string {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), name, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// start runs the function once. A payment that it makes has a key of its own.
func (f *function) start(b *testing.B, env map[string]string, counts bool) {
	b.Helper()
	begin := time.Now()
	running, err := boottest.Start(b.Context(), boottest.Config{Bootstrap: f.path, Env: env})
	if err != nil {
		b.Fatal(err)
	}
	defer running.Stop()
	answer, err := running.Invoke(b.Context(), []byte(strings.ReplaceAll(string(f.event), "inv-2041", fmt.Sprint("inv-", begin.UnixNano()))))
	if err != nil || answer.Failed {
		b.Fatalf("%s: %v %s", f.name, err, answer.Payload)
	}
	if !counts {
		return
	}
	f.init = append(f.init, lab.Millis(running.Init()))
	f.first = append(f.first, lab.Millis(time.Since(begin)))
	f.resident = append(f.resident, lab.Memory(running.PID(), "VmRSS"))
}

// services starts what functions find around them, DynamoDB Local, a chain, and
// secrets and queues that answer at once, and returns the environment that
// template.yaml gives to all functions together.
func services(b *testing.B) map[string]string {
	b.Helper()
	_, tables := database(b)
	c := startChain(b, 4)
	stub := httptest.NewServer(fakeAWS(c))
	b.Cleanup(stub.Close)
	coin := c.Token()
	return map[string]string{
		"AWS_ENDPOINT_URL": stub.URL, "AWS_ENDPOINT_URL_DYNAMODB": dynamotest.Start(b),
		"STACK": "bench", "MODE": "test", "NETWORK": "bench", "KEY_CREATION": "public", "WEBHOOK_LOOPBACK": "allowed",
		"API_KEYS_TABLE": tables.APIKeys, "PAYMENTS_TABLE": tables.Payments, "WEBHOOKS_TABLE": tables.Webhooks,
		"WALLET_SECRET": "wallets", "RPC_SECRET": "rpc", "SETTLE_QUEUE_URL": stub.URL + "/settle", "WEBHOOK_QUEUE_URL": stub.URL + "/webhooks",
		"CHAIN_ID": fmt.Sprint(c.ID()), "TOKEN_ADDRESS": coin.Contract.String(), "TOKEN_SYMBOL": coin.Symbol, "TOKEN_DECIMALS": fmt.Sprint(coin.Decimals),
		"CONFIRMATION_RULE": "2", "BLOCK_TIME": blockTime.String(), "NONCE_WINDOW": "64",
		"AMOUNT_MINIMUM": "1", "AMOUNT_MAXIMUM": "0", "DAILY_LIMIT": "0", "MAX_FEE_CAP_GWEI": "500",
	}
}

// fakeAWS answers as Secrets Manager and SQS do, as far as the functions use them.
func fakeAWS(c *devnet.Chain) http.HandlerFunc {
	wallets := []map[string]string{}
	for _, w := range c.Wallets() {
		wallets = append(wallets, map[string]string{"private_key": w.PrivateKey()})
	}
	secrets := map[string]any{"wallets": map[string]any{"wallets": wallets}, "rpc": map[string]any{"urls": []string{c.URL()}}}
	return func(w http.ResponseWriter, r *http.Request) {
		var in struct{ SecretId, MessageBody string }
		if json.NewDecoder(r.Body).Decode(&in) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		var out map[string]any
		if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".GetSecretValue") {
			value, _ := json.Marshal(secrets[in.SecretId])
			out = map[string]any{"Name": in.SecretId, "SecretString": string(value), "VersionId": "00000000-0000-0000-0000-000000000001"}
		} else {
			sum := md5.Sum([]byte(in.MessageBody)) // the SDK compares it
			out = map[string]any{"MessageId": "1", "MD5OfMessageBody": hex.EncodeToString(sum[:])}
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		_ = json.NewEncoder(w).Encode(out)
	}
}
