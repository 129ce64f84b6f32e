package check_test

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/cli/operator/check"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/deployment/chains"
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/disburser/install"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/dynamotest"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/operatortest"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// functions answer doctor's queries about a stack's functions: by name, and :live or :aliases after it.
type functions map[string]map[string]any

func (f functions) answer(r *http.Request, action, _ string) string {
	path := strings.Split(r.URL.Path, "/")
	switch {
	case action == "ListStackResources":
		return operatortest.Resources("Send remit-Send", "AWS::Lambda::Function remit-Send", "ApiLogGroup logs")
	case len(path) <= 4 || path[2] != "functions":
		return ""
	}
	name := path[3]
	if path[4] == "aliases" {
		name += ":aliases"
	} else if q := r.URL.Query().Get("Qualifier"); q != "" {
		name += ":" + q
	}
	text, _ := json.Marshal(f[name])
	return string(text)
}

// doctor runs remit doctor for a stack on a cloud with these tables, and returns its findings, after "BAD " if bad.
func doctor(t *testing.T, cloud *operatortest.Cloud, tables deployed.Tables, parameters string, only ...string) map[string]string {
	t.Helper()
	server := httptest.NewServer(cloud)
	defer server.Close()
	a := &deployed.Account{Stack: "remit", ID: "arn:aws:cloudformation:us-east-1:1:stack/remit",
		Parameters: map[string]string{"KmsKeyArn": ""},
		Outputs:    map[string]string{"RpcSecretArn": "nodes", "WalletSecrets": "remit/wallets/", "ApiKeysTableName": "keys"},
		AWS:        aws.Config{Region: "us-east-1", BaseEndpoint: &server.URL, Credentials: aws.AnonymousCredentials{}}}
	for _, pair := range strings.Fields(parameters) {
		name, value, _ := strings.Cut(pair, "=")
		a.Parameters[name] = value
	}
	a.About = a.Parameters["About"]
	var out bytes.Buffer
	d := &deployed.Deployment{Target: deployed.Target{Stack: "remit", JSON: true}, Tables: tables, Platform: a,
		Account: a, Mode: "test", Out: &out}
	failed := (&check.Doctor{Only: strings.Join(only, "")}).Run(t.Context(), d)
	var all []finding
	if err := json.Unmarshal(out.Bytes(), &all); err != nil {
		t.Fatal(err, failed)
	}
	found := map[string]string{}
	for _, f := range all {
		found[f.Check] = map[bool]string{false: "BAD "}[f.OK] + f.Saw
	}
	return found
}

func newTables() deployed.Tables {
	tables := memory.NewPayments()
	return deployed.Tables{Payments: tables, AuditLog: tables, Keys: new(memory.APIKeys)}
}

// TestDoctorComparesWhatRuns: doctor compares each part of the live version with the deployed one, and shows no values.
func TestDoctorComparesWhatRuns(t *testing.T) {
	function := func(code string, memory, timeout int, level string, variables map[string]string) map[string]any {
		return map[string]any{"CodeSha256": code, "MemorySize": memory, "Timeout": timeout, "KMSKeyArn": "arn:key",
			"LoggingConfig": map[string]string{"ApplicationLogLevel": level}, "Environment": map[string]any{"Variables": variables}}
	}
	for _, c := range []struct {
		why    string
		change func(live, alias map[string]any, variables map[string]string)
		want   string
	}{
		{"all as deployed", func(_, _ map[string]any, _ map[string]string) {}, "1 functions run as deployed: v1"},
		{"other parameters", func(live, _ map[string]any, v map[string]string) {
			v["MODE"], live["KMSKeyArn"], live["LoggingConfig"] = "live", "", map[string]string{"ApplicationLogLevel": "DEBUG"}
		}, "another KMS key, another MODE, another log level"},
		{"changed by hand", func(live, _ map[string]any, v map[string]string) {
			live["MemorySize"], live["Timeout"], v["TOKEN"] = 128, 3, "hidden"
			delete(v, "ARN")
		}, "another ARN, another TOKEN, another memory, another timeout"},
		{"other code", func(live, _ map[string]any, _ map[string]string) { live["CodeSha256"] = "2" }, "another code"},
		{"a canary", func(_, alias map[string]any, _ map[string]string) {
			alias["RoutingConfig"] = map[string]any{"AdditionalVersionWeights": map[string]float64{"5": 0.1}}
		}, "version 5 beside it for 10% of requests"},
	} {
		variables := map[string]string{"MODE": "test", "ARN": "arn:queue"}
		live, alias := function("1", 512, 29, "INFO", variables), map[string]any{"Name": "live", "FunctionVersion": "4"}
		c.change(live, alias, variables)
		cloud := functions{"remit-Send": function("1", 512, 29, "INFO",
			map[string]string{"MODE": "test", "ARN": "arn:queue"}), "remit-Send:live": live, "remit-Send:aliases": {"Aliases": []any{alias}}}
		want := c.want
		if c.why != "all as deployed" {
			want = "BAD live runs otherwise than deployed:\nAWS::Lambda::Function: " + want
		}
		for _, only := range []string{"", "live versions"} { // the second is of make smoke
			found := doctor(t, &operatortest.Cloud{Answer: cloud.answer}, newTables(), "Mode=test About=v1", only)
			if diff := cmp.Diff(want, found["live versions"]); diff != "" || (len(found) == 1) != (only != "") {
				t.Errorf("%s: %s, with %d checks", c.why, diff, len(found))
			}
		}
	}
}

// TestDoctorFindsEachProblem of a stack on AWS on which hardly anything is well.
func TestDoctorFindsEachProblem(t *testing.T) {
	tables, stored := newTables(), settings.Default(operatortest.Rail())
	stored.BatchContract = install.Address()
	must.OK(t, tables.Payments.SetSettings(t.Context(), stored))
	id := func(n byte) wallet.ID { return wallet.ID{ChainID: 84532, Address: token.Address{n}} }
	for n, s := range map[byte]wallet.State{1: wallet.Active, 2: wallet.Active, 3: wallet.Draining, 4: wallet.Retired} {
		must.OK(t, tables.Payments.Register(t.Context(),
			wallet.Registration{ID: id(n), Token: stored.Token.Contract, State: s, Key: "arn:key"}))
	}
	must.OK(t, tables.Payments.Register(t.Context(), wallet.Registration{ID: id(6),
		Token: stored.Token.Contract, State: wallet.Assigned, Key: wallet.InSecret, Merchant: "mer_6"}))
	must.OK(t, errors.Join(tables.Payments.Open(t.Context(), wallet.Wallet{ID: id(2), NextNonce: 9, Paused: "theft"}, stored.Token.Contract),
		tables.Payments.Open(t.Context(), wallet.Wallet{ID: id(3), NextNonce: 8}, stored.Token.Contract)))
	node := httptest.NewServer(operatortest.WellNode(operatortest.Node{"eth_chainId": `"result":"0x14a34"`,
		"eth_getTransactionCount": `"result":"0x9"`, "eth_call 0xdd62ed3e": operatortest.Word(0)}))
	defer node.Close()
	cloud := &operatortest.Cloud{Secrets: map[string]string{"remit/wallets/" + id(5).Address.String(): "key"}}
	cloud.Answer = func(_ *http.Request, action, _ string) string {
		return map[string]string{
			"ListStackResources": operatortest.Resources("AWS::CloudWatch::Alarm remit-B",
				"CheckReceiptsFunctionRole a", "SendPaymentFunctionRole b", "SendPaymentsFunctionRole c", "ReleaseProposalsFunctionRole d"),
			"ListGrants":                `{"Grants":[{"GrantId":"1","Operations":["Sign"],"GranteePrincipal":"arn:aws:iam::1:role/a"}]}`,
			"DescribeTable":             `{"Table":{"TableStatus":"ACTIVE"}}`,
			"DescribeContinuousBackups": `{"ContinuousBackupsDescription":{}}`,
			"DescribeTimeToLive":        `{"TimeToLiveDescription":{}}`,
			"DescribeSecret":            "{}",
			"GetSecretValue": `{"SecretString":"{\"84532\":{\"urls\":[\"` +
				node.URL + `\"]},\"10\":{\"urls\":[\"http://x\"]},` + `\"8\":{\"urls\":[]}}"}`,
		}[action]
	}
	found := doctor(t, cloud, tables, "Environment=prod Mode=test Size=sandbox ReplicaRegion=eu-west-1")
	words := map[string]string{}
	for n := range byte(10) {
		words[fmt.Sprint("wallet ", n)] = id(n).Address.String()
	}
	tabletest.Run(t, words, func(t *testing.T, c tabletest.Case) {
		if got := found[c.Name]; !strings.HasPrefix(got, "BAD") || !strings.Contains(got, c.Want) {
			t.Errorf("%q, want %q", got, c.Want)
		}
	})
	if !strings.Contains(found["keys in KMS"], "arn:aws:iam::1:role/a may sign for the retired wallet "+id(4).Address.String()) {
		t.Errorf("a stranger's grant: %s", found["keys in KMS"])
	}
}

// TestDoctorFindsARailThatHoldsOthers: payments of every other rail wait for one that may lack payments.
func TestDoctorFindsARailThatHoldsOthers(t *testing.T) {
	tables, now, first := newTables(), time.Now(), operatortest.Rail()
	second := first
	second.Token.Contract, second.Token.Symbol = token.Address{2}, "EURC"
	for _, r := range []settings.Rail{first, second} {
		must.OK(t, tables.Payments.SetSettings(t.Context(), settings.Default(r)))
	}
	is := func(want string) {
		t.Helper()
		found := doctor(t, &operatortest.Cloud{}, tables, "Mode=test", "rails compared")["rails compared"]
		if !strings.HasPrefix(found, want) || strings.Contains(found, "usdc@") {
			t.Errorf("%q, want %q", found, want)
		}
	}
	ran := store.Comparison{Ran: now, Since: now, Abreast: now}
	must.OK(t, tables.Payments.SetCompared(t.Context(), first.Coin(), ran))
	is("BAD " + second.Coin().String() + " may hold the others")
	must.OK(t, store.NoteLost(t.Context(), tables.Payments, second.ChainID, now))
	is("BAD rail " + second.Coin().String() + ": its payments may be missing")
	must.OK(t, tables.Payments.SetCompared(t.Context(), second.Coin(), ran))
	is("none holds the others")
}

// TestDoctorAsksEveryNode: the second of two nodes has the fault, which no other check sees.
func TestDoctorAsksEveryNode(t *testing.T) {
	words := map[string]string{"missing": `"error":{"code":-32000,"message":"missing trie node"}`,
		"another block": operatortest.Block("2"), "eighteen": operatortest.Word(18)}
	own, _ := chains.Of(8453)
	usdc := must.Get(token.ParseAddress(own.USDC))(t)
	config := own.Complete(stack.Config{ChainID: 8453, Token: token.Token{Symbol: "USDC", Decimals: 6, Contract: usdc}})
	tabletest.Run(t, words, func(t *testing.T, c tabletest.Case) {
		faults := operatortest.Node{}
		for answer := range strings.SplitSeq(c.In[0], " & ") {
			method, text, _ := strings.Cut(answer, " = ")
			faults[method] = text
		}
		code := fmt.Sprintf(`"result":"0x%x"`, disburser.Code())
		good := httptest.NewServer(operatortest.WellNode(operatortest.Node{"eth_getCode": code}))
		bad := httptest.NewServer(operatortest.WellNode(faults))
		defer good.Close()
		defer bad.Close()
		found := examine(t, operatortest.Empty(t, config, good.URL, bad.URL))[c.In[1]]
		want, finding := strings.CutPrefix(c.Want, "!")
		if got := fmt.Sprint(found); found.OK == finding || !strings.Contains(got, want) {
			t.Errorf("%s, want %q", got, c.Want)
		}
	})
}

func TestDoctorKnowsProviders(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	defer gone.Close()
	all := examine(t, operatortest.Empty(t, stack.Config{ChainID: 1337}, "http://127.0.0.1:1/a", "http://127.0.0.1:1/b",
		gone.URL))
	found, dead := all["nodes agree"], all["token"]
	if strings.Count(found.Saw, "two nodes are at 127.0.0.1:1,") != 1 ||
		!strings.Contains(found.Saw, gone.URL[len("http://"):]+": reading the head: HTTP 404: ") ||
		strings.Count(dead.Saw, "does not answer: ") != 3 || !strings.HasPrefix(dead.Do, "have the node answer first") {
		t.Errorf("%+v", all)
	}
}

func TestDoctorFindsABadURL(t *testing.T) {
	found := examine(t, operatortest.Empty(t, stack.Config{ChainID: 1337}, "http://127.0.0.1:1", "k3y"))["nodes agree"]
	if found.OK || !strings.Contains(found.Saw, "urls[1] of chain 1337") || strings.Contains(found.Saw, "k3y") {
		t.Errorf("%+v", found)
	}
}

type finding struct {
	Check, Saw, Do string
	OK             bool
}

// examine examines a stack in this process and returns its findings by check.
func examine(t *testing.T, stack *deployed.Local, args ...string) map[string]finding {
	t.Helper()
	out, failed := operatortest.Local(t.Context(), stack, append([]string{"doctor", "--json"}, args...)...)
	var findings []finding
	if err := json.Unmarshal([]byte(out), &findings); err != nil {
		t.Fatalf("%v: %s, %v", err, out, failed)
	}
	byCheck := map[string]finding{}
	for _, f := range findings {
		byCheck[f.Check] = f
	}
	return byCheck
}

// fly runs remit preflight in the environment of the test and returns its findings by check, each after its word.
func fly(t *testing.T, parameters string) map[string]string {
	t.Helper()
	var out bytes.Buffer
	err := (&check.Preflight{Stack: "remit", Template: "../../../../template.yaml",
		Parameters: strings.Fields(parameters)}).Run(t.Context(), &out)
	found, last := map[string]string{}, ""
	for line := range strings.Lines(out.String()) {
		if more, is := strings.CutPrefix(line, "     "); is {
			found[last] += more
		} else if len(line) > 33 && !strings.HasPrefix(line, "deploying") {
			last = strings.TrimSpace(line[5:33])
			found[last] = strings.TrimSpace(line[:4]) + " " + line[34:]
		}
	}
	if bad := strings.Contains(out.String(), "\nBAD "); errors.Is(err, check.ErrNotReady) != bad || !bad && err != nil {
		t.Errorf("preflight ended with %v and\n%s", err, &out)
	}
	return found
}

// over has the environment of the test name a cloud.
func over(t *testing.T, cloud *operatortest.Cloud) {
	t.Helper()
	server := httptest.NewServer(cloud)
	t.Cleanup(server.Close)
	for name, value := range map[string]string{"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "remit",
		"AWS_SECRET_ACCESS_KEY": "remit", "AWS_ENDPOINT_URL": server.URL} {
		t.Setenv(name, value)
	}
}

const (
	alarms = "arn:aws:sns:us-east-1:123456789012:alarms"
	key    = "arn:aws:kms:us-east-1:123456789012:key/1"
)

// TestPreflight: each state of an account that would fail a deployment is found, with its fix.
func TestPreflight(t *testing.T) {
	words := map[string]string{"alarms": alarms, "key": key, "a table": operatortest.Resources("AWS::DynamoDB::Table orders")}
	parameters := map[string]string{"LogLevel": "INFO", "Old": "x", "LogRetentionDays": "400", "CheckReceiptsMemory": "7", "Size": "small"}
	tabletest.Run(t, words, func(t *testing.T, c tabletest.Case) {
		over(t, &operatortest.Cloud{Status: c.In[0], Parameters: parameters, Answer: func(_ *http.Request, action, _ string) string {
			if of, text, _ := strings.Cut(c.In[2], " "); of == action {
				return text
			}
			return map[string]string{"Query": "{}", "GetItem": "{}"}[action]
		}})
		found := fly(t, c.In[1])
		if !strings.Contains(found[c.In[3]], c.Want) {
			t.Errorf("%s: %q, want %q", c.In[3], found[c.In[3]], c.Want)
		}
		delete(found, c.In[3])
		for name, text := range found {
			if strings.HasPrefix(text, "BAD") {
				t.Errorf("%s: %s", name, text)
			}
		}
	})
}

// TestPreflightTriesNodes of each rail, in the mode to deploy. A problem stops no deployment.
func TestPreflightTriesNodes(t *testing.T) {
	node := httptest.NewServer(operatortest.WellNode(nil))
	defer node.Close()
	a := operatortest.NewAccount(t)
	secret := fmt.Sprintf(`{"8453":{"urls":[%q]}}`, node.URL)
	a.Answer = func(_ *http.Request, action, _ string) string {
		return map[string]string{"GetSecretValue": fmt.Sprintf(`{"SecretString":%q}`, secret)}[action]
	}
	stored := must.Get(must.Get(chains.Named("base"))(t).First(nil))(t)
	for _, c := range [][3]string{{"live", "", "WARN "}, {"live", "answering", "ok "}, {"test", "", "ok "}} {
		stored.Quorum, stored.At = c[1], time.Unix(1, 0)
		must.OK(t, dynamo.NewPayments(dynamotest.Client(t), "operator-payments").SetSettings(t.Context(), stored))
		stored.Version++
		if found := fly(t, "AlarmTopicArn="+alarms+" Mode="+c[0])["nodes agree"]; !strings.HasPrefix(found, c[2]) {
			t.Errorf("%s: %q", c, found)
		}
	}
	secret = "{"
	if found := fly(t, "")["rails"]; !strings.Contains(found, "repair the JSON of the secret") {
		t.Errorf("a broken secret: %q", found)
	}
}

// TestPreflightReadsTables: a missing table, and settings that the new code cannot obey, stop a deployment.
func TestPreflightReadsTables(t *testing.T) {
	a := operatortest.NewAccount(t)
	payments := dynamo.NewPayments(dynamotest.Client(t), "operator-payments")
	const again = " ExistingPaymentsTable=operator-payments ExistingApiKeysTable=operator-keys"
	want := func(why, parameters, want string) {
		t.Helper()
		if found := fly(t, parameters)["settings"]; !strings.HasPrefix(found, want) {
			t.Errorf("%s: %q, want %q", why, found, want)
		}
	}
	want("none are stored", "", "ok a new stack has none")
	want("a table that is not there", "ExistingPaymentsTable=nowhere", "BAD reading the rails")
	a.Status = "none"
	want("a first deployment", "", "ok a new stack has none")
	want("a stack that is made again", again, "ok a new stack has none")
	a.Status = ""
	first := settings.Default(operatortest.Rail())
	first.At = time.Unix(1, 0)
	must.OK(t, payments.SetSettings(t.Context(), first))
	want("stored", "", "ok usdc@base-sepolia at version 1")
	first.Version, first.Needs = 1, settings.Code+1
	must.OK(t, payments.SetSettings(t.Context(), first))
	want("settings of newer code", "", "BAD usdc@base-sepolia, version 2: the stored settings need newer code")
	text := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
	must.Get(dynamotest.Client(t).UpdateItem(t.Context(), &dynamodb.UpdateItemInput{TableName: aws.String("operator-payments"),
		Key: map[string]types.AttributeValue{"pk": text("rails"), "sk": text("01")}, UpdateExpression: aws.String("SET needs = :v"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":v": text("x")}}))(t)
	want("damaged ones", "", "BAD usdc@base-sepolia, version 2: the stored settings are damaged")
}

// TestLongName: CloudFormation would shorten the names of functions and roles.
func TestLongName(t *testing.T) {
	over(t, &operatortest.Cloud{Status: "none", Answer: func(_ *http.Request, action, _ string) string {
		return map[string]string{"Query": "{}", "GetItem": "{}"}[action]
	}})
	for n, refused := range map[int]bool{check.LongestName: false, check.LongestName + 1: true} {
		var out bytes.Buffer
		err := (&check.Preflight{Stack: strings.Repeat("r", n), Template: "../../../../template.yaml"}).Run(t.Context(), &out)
		if errors.Is(err, check.ErrNotReady) != refused || strings.Contains(out.String(), "cut the names") != refused {
			t.Errorf("a name of %d characters: %v\n%s", n, err, &out)
		}
	}
}
