package local_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/dynamotest"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
	"github.com/remit-payouts/remit/internal/sandbox/local"
	"github.com/remit-payouts/remit/internal/sandbox/local/localtest"
	remit "github.com/remit-payouts/remit/sdk/go"
)

const payee = "0x2222222222222222222222222222222222222222"

// raw sends bytes on a connection of their own and reads one answer.
func raw(t *testing.T, api *remit.Client, request string) (answer *http.Response, body string) {
	t.Helper()
	conn := must.Get(net.Dial("tcp", strings.TrimPrefix(api.URL, "http://")))(t)
	defer func() { _ = conn.Close() }()
	go func() { _, _ = io.WriteString(conn, request) }() // a refusal may come before all is written
	answer = must.Get(http.ReadResponse(bufio.NewReader(conn), nil))(t)
	if answer.Header.Get("Content-Type") == "text/event-stream" {
		return answer, "" // it has no end
	}
	b := must.Get(io.ReadAll(answer.Body))(t)
	answer.Body = io.NopCloser(bytes.NewReader(b))
	return answer, string(b)
}

// start returns the error of a stack that should not start. The minute ends one that does, not the AWS SDK's tries.
func start(t *testing.T, flags ...string) error {
	t.Helper()
	var command local.Command
	if err := localtest.Parse(&command, flags...); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return command.Run(ctx, io.Discard)
}

// TestAccessLogShowsPathsEscaped: a stranger's path must not steer the terminal, and GETs must not hide payments.
func TestAccessLogShowsPathsEscaped(t *testing.T) {
	api, out := localtest.Stack(t)
	for _, method := range []string{"GET", "DELETE"} {
		raw(t, api, method+" /%1b[2J%c2%9b%00 HTTP/1.1\r\nHost: localhost\r\n\r\n")
	}
	if line := out.Await(t, "%1b"); !strings.Contains(line, `"DELETE","path":"/%1b[2J%c2%9b%00","status":404`) {
		t.Errorf("logged %s", line)
	}
}

// TestAPIOfThisMachineOnly: a page of the web that resolves its name to loopback cannot
// use the API. A stack that listens elsewhere has whatever name its network gives it.
func TestAPIOfThisMachineOnly(t *testing.T) {
	t.Parallel()
	api, _ := localtest.Stack(t, "--no-page", "--host=host.docker.internal")
	_, port, _ := strings.Cut(strings.TrimPrefix(api.URL, "http://"), ":")
	const create = "POST /create-api-key HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Type: " +
		"application/json\r\nContent-Length: 24\r\n\r\n" + `{"merchant_name":"evil"}`
	for host, want := range map[string]int{
		"evil.example:" + port: 403, "evil.example": 403, "127.0.0.1.evil.example": 403, "192.0.2.1:" + port: 403,
		"": 403, "host.docker.internal:" + port: 201, "x.host.docker.internal": 403, "127.0.0.1:" + port: 201,
		"localhost:" + port: 201, "localhost": 201, "[::1]:" + port: 201, "127.0.0.2:9": 201,
	} {
		answer, body := raw(t, api, fmt.Sprintf(create, host))
		if answer.StatusCode != want || want == 403 && !regexp.MustCompile(`host_refused.*--host NAME`).MatchString(body) {
			t.Errorf("Host %q: answered %s %s, want %d", host, answer.Status, body, want)
		}
	}
	open, _ := localtest.Stack(t, "--listen=0.0.0.0:0")
	if answer, body := raw(t, open, fmt.Sprintf(create, "remit.example")); answer.StatusCode != 201 {
		t.Errorf("by a name, where all of the network may ask: answered %s %s", answer.Status, body)
	}
}

// TestRealMoneyIsClosed: with keys of its own a stack makes no API keys for strangers
// unless it is told to, and on a main network it does not start without limits.
func TestRealMoneyIsClosed(t *testing.T) {
	t.Parallel()
	flagsFor := func(chainID uint64) []string {
		on := must.Get(devnet.Start(t.Context(), devnet.Config{Listen: "127.0.0.1:0", BlockTime: 100 * time.Millisecond,
			Wallets: 1, ChainID: chainID, Now: time.Now, Log: slog.New(slog.DiscardHandler)}))(t)
		t.Cleanup(func() { _ = on.Close() })
		keys := filepath.Join(t.TempDir(), "keys")
		must.OK(t, os.WriteFile(keys, []byte(on.Wallets()[0].PrivateKey()), 0o600))
		return []string{"--listen=127.0.0.1:0", "--rpc=" + on.URL() + "/v2/secret",
			"--token=" + on.Token().Contract.String(), "--wallet-file=" + keys}
	}
	served := func(flags []string) (shown string, made error) {
		out, stop := localtest.Start(t, &local.Command{}, flags...)
		defer stop()
		api := &remit.Client{URL: strings.Fields(out.Await(t, "API"))[1]}
		shown = out.Await(t, "KEY=")
		if answer, err := api.Call(t.Context(), "GET", "/sandbox", ""); err != nil || bytes.Contains(answer.Body, []byte("secret")) {
			t.Errorf("/sandbox shows a provider's key: %s, %v", answer.Body, err)
		}
		_, made = api.CreateMerchant(t.Context(), remit.CreateAPIKeyRequest{MerchantName: "Acme"})
		return shown, made
	}
	test, base := flagsFor(84532), flagsFor(8453)
	limits := []string{"--minimum=1", "--maximum=1000", "--daily-limit=5000"}

	for _, flags := range [][]string{test, append(base, limits...)} {
		shown, made := served(flags)
		if told, ok := errors.AsType[*remit.Refused](made); !ok || told.Code != "key_creation_closed" ||
			!strings.Contains(shown, "keys create") {
			t.Errorf("%v: a stranger's key: %v; shown: %s", flags, made, shown)
		}
	}
	if _, made := served(append([]string{base[1]}, append(test, "--key-creation=public", test[1])...)); made != nil {
		t.Errorf("keys for all, as the flag says, and one node of three of another chain: %v", made)
	}
	for _, row := range []struct {
		flags []string
		want  []string
	}{
		{nil, []string{"--minimum", "--maximum", "--daily-limit"}},
		{limits[1:], []string{"--minimum"}},
		{limits[:2], []string{"--daily-limit"}},
		{append(limits, "--key-creation=public"), []string{"--key-creation operator"}},
	} {
		err := start(t, append(base, row.flags...)...)
		for _, flag := range row.want {
			if err == nil || !strings.Contains(err.Error(), "set "+flag) || strings.Count(err.Error(), "; set ") != len(row.want) {
				t.Errorf("on Base with %v: error %v, want %v", row.flags, err, row.want)
			}
		}
	}
}

// TestWrongFlags: the error names the flag, and the address that is taken or where no database runs. Nothing starts.
func TestWrongFlags(t *testing.T) {
	t.Parallel()
	taken := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer func() { _ = taken.Close() }()
	tabletest.Run(t, map[string]string{"taken": taken.Addr().String()}, func(t *testing.T, c tabletest.Case) {
		flags := append([]string{"--listen=127.0.0.1:0", "--chain-listen=127.0.0.1:0"}, strings.Fields(c.In[0])...)
		if err := start(t, flags...); err == nil || !strings.Contains(err.Error(), c.Want) {
			t.Error(err)
		}
	})
}

// TestServesEveryRoute: a row of httpapi.Routes that the router leaves out is answered 404 without a code, or 405 where
// its path has another method. Every answer has a Date, by which clients give up (Remit-Not-After).
func TestServesEveryRoute(t *testing.T) {
	t.Parallel()
	api, _ := localtest.Stack(t)
	for _, route := range httpapi.Routes {
		answer, err := api.Call(t.Context(), route.Method, route.Path, "")
		if err != nil || answer.Status == 405 || answer.Header.Get("Date") == "" || string(answer.Body) == `{"detail":"Not Found","code":"not_found"}` {
			t.Errorf("%s %s is answered %d %s %v", route.Method, route.Path, answer.Status, answer.Body, err)
		}
	}
	for _, flag := range []string{"--no-page", "--listen=0.0.0.0:0"} {
		api, _ := localtest.Stack(t, flag)
		answer, body := raw(t, api, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if answer.StatusCode != 303 || answer.Header.Get("Location") != "/docs" {
			t.Errorf("%s: / is answered %s %s", flag, answer.Status, body)
		}
		if answer, body = raw(t, api, "GET /page/facts HTTP/1.1\r\nHost: localhost\r\n\r\n"); answer.StatusCode != 404 {
			t.Errorf("%s: a part of the page is answered %s %s", flag, answer.Status, body)
		}
	}
}

// TestWelcome: README shows the lines that pay somebody as the stack prints them; TestREADME of merchant runs them.
func TestWelcome(t *testing.T) {
	readme := must.Get(os.ReadFile("../../../README.md"))(t)
	out, _ := localtest.Start(t, &local.Command{}, "--listen=127.0.0.1:0", "--chain-listen=127.0.0.1:0")
	url := strings.Fields(out.Await(t, "API"))[1]
	out.Await(t, "REMIT_URL="+url)
	for _, name := range []string{"KEY=", "/send-payment", " -d ", "sleep 4"} {
		shown := strings.ReplaceAll(strings.TrimSpace(out.Await(t, name)), url, "http://127.0.0.1:8080")
		if !regexp.MustCompile(`(?m)^ *` + regexp.QuoteMeta(shown) + `$`).Match(readme) {
			t.Errorf("README.md does not show %s", shown)
		}
	}
}

// TestReadyKey: the key that README prints pays in a sandbox that forgets it, and in no other stack.
func TestReadyKey(t *testing.T) {
	dynamotest.Clear(t)
	for flag, want := range map[string]int{
		"--key-creation=public": 201, "--key-creation=operator": 401, "--dynamodb=" + dynamotest.Start(t): 401,
	} {
		out, stop := localtest.Start(t, &local.Command{}, flag, "--listen=127.0.0.1:0", "--chain-listen=127.0.0.1:0")
		api := &remit.Client{URL: strings.Fields(out.Await(t, "API"))[1], Key: local.ReadyKey}
		answer, err := api.Call(t.Context(), "POST", "/send-payment", `{"to":"0x2222222222222222222222222222222222222222","amount":1}`)
		if err != nil || answer.Status != want {
			t.Errorf("%s: answered %d %s %v, want %d", flag, answer.Status, answer.Body, err, want)
		}
		if shown := strings.Contains(out.Await(t, "export KEY="), local.ReadyKey); shown != (want == 201) {
			t.Errorf("%s: the welcome prints the key: %v", flag, shown)
		}
		stop()
		if end := out.Await(t, "Stopped; "); strings.Contains(end, "are gone") == strings.HasPrefix(flag, "--dynamodb") {
			t.Errorf("%s: Ctrl-C ends it with %q", flag, end)
		}
	}
}

// TestTablesAreAheadOfTheChain: a stack whose tables were kept and whose embedded chain is
// new would take every payment and pay none.
func TestTablesAreAheadOfTheChain(t *testing.T) {
	dynamotest.Clear(t)
	dynamodb := dynamotest.Start(t)
	pay := func(t *testing.T, flags ...string) {
		api, _ := localtest.Stack(t, append(flags, "--dynamodb", dynamodb)...)
		must.Get(api.Attempt(t.Context(), "", remit.Order{To: payee, Amount: "1"}))(t)
	}
	t.Run("first", func(t *testing.T) { pay(t) })
	err := start(t, "--listen=127.0.0.1:0", "--chain-listen=127.0.0.1:0", "--dynamodb="+dynamodb)
	if err == nil || !strings.Contains(err.Error(), "add --fresh") {
		t.Errorf("started again: %v", err)
	}
	t.Run("fresh", func(t *testing.T) { pay(t, "--fresh") })
}

// TestSettingsChangedByHandAreKept: flags replace only settings that flags chose.
func TestSettingsChangedByHandAreKept(t *testing.T) {
	dynamotest.Clear(t)
	dynamodb := dynamotest.Start(t)
	tables := dynamo.NewPayments(dynamotest.Client(t), "remit-payments")
	maximum := func() settings.Settings {
		rules, err := tables.Rules(t.Context())
		must.OK(t, errors.Join(err, rules.Rails[0].Unusable))
		return rules.Rails[0].Settings
	}
	for _, flags := range [][]string{{"--maximum=100", "--fresh"}, {"--maximum=50"}} {
		t.Run(flags[0], func(t *testing.T) { localtest.Stack(t, append(flags, "--dynamodb", dynamodb)...) })
		if got := maximum().Maximum.String(); "--maximum="+got != flags[0] {
			t.Errorf("%v: stored %s", flags, got)
		}
	}
	byHand := maximum()
	byHand.Maximum, byHand.Who = token.Units(7), "ada"
	must.OK(t, tables.SetSettings(t.Context(), byHand))
	t.Run("by hand", func(t *testing.T) { localtest.Stack(t, "--dynamodb", dynamodb, "--maximum=100") })
	if got := maximum(); got.Maximum != token.Units(7) || got.Version != byHand.Version+1 {
		t.Errorf("version %d has the maximum %s: a flag undid a change by hand", got.Version, got.Maximum)
	}
}

// TestGasInTheToken: on the chain whose gas is the token, a payment is final as soon as it is mined, and a wallet pays
// amounts and fees from one balance.
func TestGasInTheToken(t *testing.T) {
	t.Parallel()
	api, _ := localtest.Stack(t, "--chain=arc", "--wallets=1")
	const to = "0xA100000000000000000000000000000000000000"
	p := must.Get(api.Pay(t.Context(), "one", remit.Order{To: to, Amount: "5"}))(t)
	entry := remit.Entry{To: to, Amount: "5"}
	batch := must.Get(api.PayMany(t.Context(), "two", remit.Batch{Payments: []remit.Entry{entry, entry}}))(t)
	for _, hash := range []string{p.TxHash, batch.TxHash} {
		if p := must.Get(api.Wait(t.Context(), hash))(t); p.Status != remit.PaymentStatusConfirmed || p.NetworkFeeUnit != p.Token {
			t.Errorf("%+v", p)
		}
	}
	if has := must.Get(api.Balance(t.Context(), to))(t); has.Balance != "15" {
		t.Errorf("the recipient has %s", has.Balance)
	}
	if facts := must.Get(api.Call(t.Context(), "GET", "/page/facts", ""))(t); !strings.Contains(string(facts.Body), `"gas":"USDC"`) {
		t.Errorf("the page is of %s", facts.Body)
	}
}

// TestThePageIsForThisMachineOnly: a page of the web cannot press the buttons or read what the page shows, by its own
// name for loopback or from its own origin. A client without server-sent events gets the page like any other.
func TestThePageIsForThisMachineOnly(t *testing.T) {
	api, _ := localtest.Stack(t)
	own := strings.TrimPrefix(api.URL, "http://")
	_, port, _ := strings.Cut(own, ":")
	words := map[string]string{"own": own, "port": port, "json": "Content-Type: application/json\r\n",
		"payment": `{"do":"pay","to":"0x2222222222222222222222222222222222222222","amount":"1","key":"k"}`}
	tabletest.Run(t, words, func(t *testing.T, c tabletest.Case) {
		line, host, header, text := c.In[0], c.In[1], c.In[2], c.In[3]
		answer, body := raw(t, api, fmt.Sprintf("%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: %d\r\n%s\r\n%s", line,
			host, len(text), header, text))
		policy := answer.Header.Get("Content-Security-Policy")
		if fmt.Sprint(answer.StatusCode) != c.Want || answer.Header.Get("Access-Control-Allow-Origin") != "" ||
			!strings.HasPrefix(policy, "default-src 'none'; script-src 'self'; style-src 'self';") ||
			answer.StatusCode != 200 && !strings.Contains(body, `"code":"page_refused"`) {
			t.Errorf("answered %s %v %s", answer.Status, answer.Header, body)
		}
	})
}

// TestRailsOfKeptTables: the first rail is the default for ever, and no rail of the tables is left out.
func TestRailsOfKeptTables(t *testing.T) {
	dynamotest.Clear(t)
	dynamodb := "--dynamodb=" + dynamotest.Start(t)
	for _, flags := range [][]string{{"--rail=eurc,usdc", "--fresh"}, {"--rail=usdc,eurc"}} {
		t.Run(flags[0], func(t *testing.T) {
			api, _ := localtest.Stack(t, append(flags, dynamodb)...)
			var facts devnet.Facts
			must.OK(t, json.Unmarshal(must.Get(api.Call(t.Context(), "GET", "/sandbox", ""))(t).Body, &facts))
			if facts.Token.Symbol != "EURC" || facts.Assets[1].Token.Symbol != "USDC" ||
				facts.Assets[1].ChainID == facts.ChainID || facts.Assets[1].RPCURL == facts.RPCURL {
				t.Errorf("the assets are %+v", facts.Assets)
			}
		})
	}
	err := start(t, "--listen=127.0.0.1:0", "--chain-listen=127.0.0.1:0", "--rail=usdc", dynamodb)
	if err == nil || !strings.Contains(err.Error(), "start it as well") {
		t.Errorf("without the tables' first rail: %v", err)
	}
}
