package operator_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"remit/internal/apikey"
	"remit/internal/chain"
	"remit/internal/chains"
	"remit/internal/disburser"
	"remit/internal/memory"
	"remit/internal/operator"
	"remit/internal/settings"
	"remit/internal/stack"
	"remit/internal/store"
	"remit/internal/token"
)

// A rawNode answers JSON-RPC with the result or error that it has for a method,
// or for a method and its last block: half an object of JSON.
type rawNode map[string]string

const oneBatch = "calls of a batch" // as a method: how many the node takes

func block(digit string) string {
	return `"result":{"number":"0x3de","hash":"0x` + strings.Repeat(digit, 64) + `"}`
}

func word(n int) string { return fmt.Sprintf(`"result":"0x%064x"`, n) }

// wellNode is a node of Base at block 1000, with block 700 final.
func wellNode(faults rawNode) rawNode {
	n := rawNode{
		"eth_chainId": `"result":"0x2105"`, "eth_blockNumber": `"result":"0x3e8"`, "eth_getTransactionCount": `"result":"0x0"`,
		"eth_getBalance":                 `"result":"0x0"`,
		"eth_getBlockByNumber finalized": `"result":{"number":"0x2bc"}`, "eth_getBlockByNumber 0x3de": block("1"),
		"eth_call 0xf1c7a58b": word(7), "eth_call 0x275aedd2": word(0),
		"eth_getBlockByNumber 0x0": `"result":{"number":"0x0","hash":"0x` + strings.Repeat("1", 64) + `"}`,
		"eth_feeHistory":           `"result":{"baseFeePerGas":["0x1","0x5f5e100"],"reward":[["0x1"]]}`,
		"eth_maxPriorityFeePerGas": `"result":"0x1"`,
		"eth_call 0x70a08231":      word(5), "eth_call 0x313ce567": word(6),
		"eth_call 0x95d89b41": `"result":"0x` + fmt.Sprintf("%064x%064x%-064s", 32, 4, "55534443") + `"`,
	}
	n["eth_call 0x95d89b41"] = strings.ReplaceAll(n["eth_call 0x95d89b41"], " ", "0")
	maps.Copy(n, faults)
	return n
}

func (n rawNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	type ask struct {
		ID     json.RawMessage
		Method string
		Params []json.RawMessage
	}
	answer := func(a ask) string {
		said, ok := n[a.Method]
		for _, p := range a.Params {
			var call struct{ Input, Data string }
			_ = json.Unmarshal(p, &call)
			key := strings.Trim(string(p), `"`)
			if data := call.Input + call.Data; len(data) >= 10 {
				key = data[:10]
			}
			if exact, found := n[a.Method+" "+key]; found {
				said, ok = exact, true
			}
		}
		if !ok {
			said = `"error":{"code":-32601,"message":"no such method"}`
		}
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, a.ID, said)
	}
	var raw json.RawMessage
	_ = json.NewDecoder(r.Body).Decode(&raw)
	w.Header().Set("Content-Type", "application/json")
	var one ask
	if json.Unmarshal(raw, &one) == nil {
		_, _ = fmt.Fprint(w, answer(one))
		return
	}
	var many []ask
	_ = json.Unmarshal(raw, &many)
	if limit := n[oneBatch]; limit != "" && len(many) > len(limit) {
		_, _ = fmt.Fprint(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32014,"message":"batch too large"}}`)
		return
	}
	var answers []string
	for _, a := range many {
		answers = append(answers, answer(a))
	}
	_, _ = fmt.Fprintf(w, "[%s]", strings.Join(answers, ","))
}

// TestDoctorAsksEveryNode: the second of two nodes has the fault, which no other
// check sees.
func TestDoctorAsksEveryNode(t *testing.T) {
	missing := `"error":{"code":-32000,"message":"missing trie node"}`
	for _, c := range []struct {
		why    string
		faults rawNode
		check  string
		want   string // ! for what is said of a finding
	}{
		{"a stack that is well says what it works by", nil, "chain", "Base: finalized, 2s, at most 1 gwei, 16 in flight"},
		{"how far finality is behind", nil, "finality", "300 blocks behind, about 10m0s"},
		{"nodes of one chain have the same blocks", rawNode{"eth_getBlockByNumber 0x3de": block("2")}, "nodes agree", "!different branches"},
		{"and all of them", rawNode{"eth_getBlockByNumber 0x3de": `"result":null`}, "nodes agree", "!lacks blocks"},
		{"what is paid beside gas", nil, "fees", "0.100000001 gwei, and 0.000000007 gwei a payment beside gas"},
		{"which is not known without the oracle of the OP stack", rawNode{"eth_call 0x275aedd2": `"result":"0x"`}, "fees", "!gas price oracle"},
		{"small batches are taken as they are", rawNode{oneBatch: "ten calls!"}, "batches", "takes 6 calls in one request"},
		{"a tag that a node lacks would hang", rawNode{"eth_getBlockByNumber finalized": `"result":null`}, "finality", "!has no finalized block"},
		{"a tag that it refuses too", rawNode{"eth_getBlockByNumber finalized": `"error":{"code":-32602,"message":"invalid block"}`},
			"finality", "!invalid block"},
		{"the state of the final block is needed", rawNode{"eth_getTransactionCount 0x2bc": missing}, "finality",
			"!lacks the state of the final block"},
		{"without fees no payment is made", rawNode{"eth_feeHistory": missing}, "fees", "!reading fees"},
		{"nor above the limit", rawNode{"eth_feeHistory": `"result":{"baseFeePerGas":["0x1","0x77359400"],"reward":[["0x1"]]}`}, "fees",
			"!gas costs 2.000000001 gwei, more than MaxFeeCapGwei"},
		{"a node that answers no batch", rawNode{"eth_getBlockByNumber 0x0": missing}, "batches", "!missing trie node"},
		{"decimals that differ", rawNode{"eth_call 0x313ce567": word(18)}, "token", "!has 18 decimals"},
		{"the contract of batches", rawNode{"eth_getCode": `"result":"0x6001"`}, "batch contract", "!is another one"},
		{"another chain", rawNode{"eth_chainId": `"result":"0x1"`}, "token", "!another chain: 1, ChainId is 8453"},
	} {
		good, bad := httptest.NewServer(wellNode(nil)), httptest.NewServer(wellNode(c.faults))
		own, _ := chains.Of(8453)
		contract, _ := token.ParseAddress(own.USDC)
		config := own.Complete(stack.Config{ChainID: 8453, Token: token.Token{Symbol: "USDC", Decimals: 6, Contract: contract}})
		found := doctor(t, config, good.URL, bad.URL)[c.check]
		want, finding := strings.CutPrefix(c.want, "!")
		if got := fmt.Sprint(found); found.OK == finding || !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %q", c.why, got, c.want)
		}
		good.Close()
		bad.Close()
	}
}

// TestDoctorKnowsProviders, and says what an unknown chain works by.
func TestDoctorKnowsProviders(t *testing.T) {
	config := stack.Config{ChainID: 1337, ConfirmationRule: chain.ConfirmationRule{Tag: "safe"}, BlockTime: time.Second}
	for urls, ok := range map[string]bool{
		"http://127.0.0.1:1/a http://127.0.0.1:2/a":                    true,
		"http://127.0.0.1:1/a http://127.0.0.1:1/b":                    false,
		"http://base.provider.invalid/a http://eth.provider.invalid/b": false,
		"http://base.one.invalid/a http://base.two.invalid/a":          true,
		"http://base.one.co.uk/a http://base.two.co.uk/a":              true,
	} {
		found := doctor(t, config, strings.Fields(urls)...)
		if found["providers"].OK != ok || !strings.Contains(found["chain"].Saw, "1337, which docs/chains.md does not have: safe") {
			t.Errorf("%s: %+v, %+v", urls, found["providers"], found["chain"])
		}
	}
}

// TestAllowanceIsForTheContractAlone: none is given unless each node has the contract's
// code. An allowance is ended all the same.
func TestAllowanceIsForTheContractAlone(t *testing.T) {
	ours := fmt.Sprintf(`"result":"0x%x"`, disburser.Code())
	deployer := fmt.Sprintf(`"result":"0x%x"`, disburser.DeployerCode())
	own := disburser.Address().String()
	at := func(said string) rawNode {
		return rawNode{"eth_getCode " + own: said, "eth_call 0xdd62ed3e": word(5)}
	}
	const approve, deploy = "batch approve --yes --key a 0x1111111111111111111111111111111111111111 --amount ",
		"batch deploy --yes --key a 0x1111111111111111111111111111111111111111"
	const passed = "no key for wallet 0x1111111111111111111111111111111111111111"
	for _, c := range []struct {
		why, line     string
		first, second rawNode
		want          string
	}{
		{"both have it", approve + "5", at(ours), at(ours), passed},
		{"any amount too", approve + "unlimited", at(ours), at(ours), passed},
		{"one has another contract there", approve + "5", at(ours), at(`"result":"0x6001"`), "the contract at " + own + " is another one"},
		{"one does not say", approve + "5", at(ours), at(`"error":{"code":-32000,"message":"missing trie node"}`), "missing trie node"},
		{"one is behind", approve + "5", at(ours), at(`"result":"0x"`), "nodes disagree"},
		{"neither has it", approve + "5", at(`"result":"0x"`), at(`"result":"0x"`),
			"no allowance is given: remit batch deploy makes the contract"},
		{"an allowance is ended whatever is there", approve + "0", at(`"result":"0x6001"`), at(`"result":"0x"`), passed},
		{"an amount that is none", approve + "much", at(ours), at(ours), "no amount of whole tokens"},
		{"it is made once", deploy, at(ours), at(ours), "settings set BatchContract=" + own},
		{"never in place of another", deploy, at(ours), at(`"result":"0x6001"`), "is another one"},
		{"nor without its deployer", deploy, at(`"result":"0x"`), at(`"result":"0x"`), "the deterministic deployer is not on this chain"},
		{"nor with another in its place", deploy, rawNode{"eth_getCode": `"result":"0x6001"`, "eth_getCode " + own: `"result":"0x"`},
			at(`"result":"0x"`), "is another one"},
		{"with it by a wallet", deploy, rawNode{"eth_getCode": deployer, "eth_getCode " + own: `"result":"0x"`},
			rawNode{"eth_getCode": deployer, "eth_getCode " + own: `"result":"0x"`}, passed},
	} {
		one, two := httptest.NewServer(wellNode(c.first)), httptest.NewServer(wellNode(c.second))
		got := command(t, stack.Config{ChainID: 8453, Token: token.Token{Symbol: "USDC", Decimals: 6}}, c.line, one.URL, two.URL)
		if !strings.Contains(got.Out+got.Error, c.want) {
			t.Errorf("%s: %+v, want %q", c.why, got, c.want)
		}
		one.Close()
		two.Close()
	}
}

// TestARateIsComparedOnAWS, with arguments that make sense: anything else is refused before
// it is looked at.
func TestARateIsComparedOnAWS(t *testing.T) {
	for arguments, want := range map[string]string{
		"--rate 500":  "--rate is for a stack on AWS",
		"--rate -1":   "--rate is above 0",
		"--rate NaN":  "--rate is above 0",
		"--amount -1": "--amount not negative",
		"--hours 0":   "--hours above 0",
	} {
		if got := command(t, stack.Config{ChainID: 8453}, "doctor "+strings.Replace(arguments, " ", "=", 1)); got.Out != "" ||
			!strings.Contains(got.Error, want) {
			t.Errorf("%s: %+v, want %q", arguments, got, want)
		}
	}
}

type seen struct {
	Check, Saw, Do string
	OK             bool
}

// A said is the answer to a command.
type said struct{ Out, Error string }

// command gives a command for a stack without wallets.
func command(t *testing.T, config stack.Config, line string, nodes ...string) (ended said) {
	t.Helper()
	tables, stored := memory.NewPayments(), settings.Default()
	stored.BatchContract = disburser.Address()
	if err := tables.SetSettings(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	local := operator.Local{Payments: tables, Keys: new(memory.APIKeys), Keyed: func() []token.Address { return nil }, Nodes: nodes,
		Health: func() []chain.Health { return nil }, Config: config}
	recorder := httptest.NewRecorder()
	args, err := json.Marshal(map[string]any{"Args": strings.Fields(line)})
	if err != nil {
		t.Fatal(err)
	}
	local.Keys = new(memory.APIKeys)
	local.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/", bytes.NewReader(args)))
	if err := json.Unmarshal(recorder.Body.Bytes(), &ended); err != nil {
		t.Fatal(err)
	}
	return ended
}

// doctor examines a stack without wallets and returns its findings by check.
func doctor(t *testing.T, config stack.Config, nodes ...string) map[string]seen {
	t.Helper()
	ended := command(t, config, "doctor --json", nodes...)
	var findings []seen
	if err := json.Unmarshal([]byte(ended.Out), &findings); err != nil {
		t.Fatalf("%v: %+v", err, ended)
	}
	byCheck := map[string]seen{}
	for _, f := range findings {
		byCheck[f.Check] = f
	}
	return byCheck
}

// TestDoctorReadsSettings: settings that hold up payments are a finding.
func TestDoctorReadsSettings(t *testing.T) {
	payments, keys := memory.NewPayments(), new(memory.APIKeys)
	see := func() string {
		local := operator.Local{Payments: payments, Keys: keys, Keyed: func() []token.Address { return nil },
			Health: func() []chain.Health { return nil }}
		recorder := httptest.NewRecorder()
		local.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"Args":["doctor"]}`)))
		_, after, _ := strings.Cut(recorder.Body.String(), "  settings  ")
		line, _, _ := strings.Cut(strings.TrimSpace(after), `\n`)
		return line
	}
	want := func(text string) {
		t.Helper()
		if got := see(); !strings.Contains(got, text) {
			t.Errorf("doctor says %q, want %q", got, text)
		}
	}
	want("payments, version 0: no settings are stored")
	if err := errors.Join(payments.SetSettings(t.Context(), settings.Default()),
		keys.SetKeySettings(t.Context(), settings.DefaultKeys(false))); err != nil {
		t.Fatal(err)
	}
	want("payments at version 1, keys at version 1")
	if err := payments.Bind(t.Context(), store.Coin{ChainID: 5}, time.Now()); err != nil {
		t.Fatal(err)
	}
	want("payments, version 1: the payments of these tables are of another coin: token 0x0000000000000000000000000000000000000000 " +
		"on chain 5, and")
	payments.SpoilSettings(settings.ErrDamaged)
	want("payments, version 1: the stored settings are damaged")
	payments.SpoilSettings(settings.ErrNewer)
	want("need newer code")
}

// TestDoctorListsNarrowedKeys: each key that only reads payments, with the commands that
// replace it. A label is one word of them, whatever it says.
func TestDoctorListsNarrowedKeys(t *testing.T) {
	keys := new(memory.APIKeys)
	local := operator.Local{Payments: memory.NewPayments(), Keys: keys, Keyed: func() []token.Address { return nil },
		Health: func() []chain.Health { return nil }}
	see := func() seen {
		recorder := httptest.NewRecorder()
		local.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"Args":["doctor","--json","--stack","shop"]}`)))
		var ended said
		var all []seen
		if err := errors.Join(json.Unmarshal(recorder.Body.Bytes(), &ended), json.Unmarshal([]byte(ended.Out), &all)); err != nil {
			t.Fatal(err, ended)
		}
		return all[slices.IndexFunc(all, func(f seen) bool { return f.Check == "api keys" })]
	}
	store := func(n byte, grant string, k apikey.Key) {
		k.Hash, k.ID, k.MerchantID = apikey.Hash{n}, fmt.Sprint("key_", n), "mer_1"
		if err := errors.Join(k.Grant.UnmarshalText([]byte(grant)), keys.Create(t.Context(), k)); err != nil {
			t.Fatal(err)
		}
	}
	store(0, ``, apikey.Key{})
	store(1, `{"scopes":["payments:write"],"limits":[{"key":"key_1","amount":7,"count":0}]}`, apikey.Key{})
	if got := see(); !got.OK || got.Saw != "2 keys" {
		t.Errorf("%+v", got)
	}
	store(2, `{"scopes":["payments:write","payments:read"],"limits":[{"key":"key_0","amount":9,"count":0},{"key":"key_2","amount":7,"count":3}],"max_amount":5,"book":true}`, apikey.Key{Label: "$(till) 'three'"})
	store(3, `{"scopes":["payments:read","keys"],"limits":[{"key":"key_3","amount":0,"count":4}]}`,
		apikey.Key{ExpiresAt: time.Now().Add(time.Hour + time.Minute)})
	store(4, `{"scopes":["keys"],"max_amount":6}`, apikey.Key{})
	store(5, `{"scopes":["webhooks","keys"],"book":true}`, apikey.Key{RevokedAt: time.Now()})
	got := see()
	want := `3 keys only read payments:
     key_2 of mer_1, label "$(till) 'three'", has limits of other keys: remit keys issue mer_1 --stack shop --label '$(till) '\''three'\''' --scopes payments:write,payments:read --max-amount 5 --daily-amount 7 --daily-count 3 --recipients book && remit keys revoke mer_1 key_2 --stack shop
     key_3 of mer_1, label "", has limits beside the scope keys: remit keys issue mer_1 --stack shop --scopes payments:read --daily-count 4 --expires-in 1h && remit keys revoke mer_1 key_3 --stack shop
     key_4 of mer_1, label "", has limits beside the scope keys: remit keys issue mer_1 --stack shop --scopes keys && remit keys revoke mer_1 key_4 --stack shop`
	if diff := cmp.Diff(want, regexp.MustCompile("1h0m[0-9]+s").ReplaceAllString(got.Saw, "1h")); got.OK || diff != "" {
		t.Error(diff)
	}
}
