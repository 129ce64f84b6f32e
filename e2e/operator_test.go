package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"remit/e2e/localaws"
	"remit/internal/devnet"
	"remit/internal/guidetest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cwtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
)

// An operator uses the command line on the deployed stack.
type operator struct {
	t *testing.T
	s *stack

	rights []string // variables with the credentials of the operator; none: the administrator's

	mu      sync.Mutex
	printed strings.Builder // everything, of all commands
}

// remit compiles the command once.
var remit = sync.OnceValues(func() (string, error) {
	out := filepath.Join(scratch, "remit")
	cmd := exec.Command("go", "build", "-o", out, "./cmd/remit")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0") // as `make run` builds it
	if printed, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compiling remit: %w\n%s", err, printed)
	}
	return out, nil
})

// A ran is the end of a command: its exit status and its output.
type ran struct {
	code           int
	stdout, stderr string
}

// command returns a command line of remit with the operator's rights.
func (o *operator) command(ctx context.Context, args ...string) *exec.Cmd {
	o.t.Helper()
	program, err := remit()
	if err != nil {
		o.t.Fatal(err)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(o.s.Environment(), "PATH="+os.Getenv("PATH"), "HOME="+scratch, "REMIT_STACK="+localaws.StackName, "SSL_CERT_FILE="+o.s.Bundle,
		"AWS_ENDPOINT_URL="+o.s.calls.url, "AWS_SDK_UA_APP_ID=operator")
	cmd.Env = append(cmd.Env, o.rights...)
	return cmd
}

// run runs remit with the rights of the stack's AWS account, without a terminal.
func (o *operator) run(args ...string) ran {
	o.t.Helper()
	if _, err := remit(); err != nil { // before the command's time begins
		o.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(o.t.Context(), 2*time.Minute) // one that hangs is named
	defer cancel()
	cmd := o.command(ctx, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	r := ran{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		o.t.Fatal(err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	fmt.Fprintf(&o.printed, "$ remit %s\n%s%s\n", strings.Join(args, " "), r.stdout, r.stderr)
	return r
}

// ok runs a command that has to succeed and reads its JSON into v, if that is
// not nil.
func (o *operator) ok(v any, args ...string) ran {
	o.t.Helper()
	if v != nil {
		args = append(args, "--json")
	}
	r := o.run(args...)
	if r.code != 0 {
		o.t.Fatalf("remit %v ended with %d\n%s%s", args, r.code, r.stdout, r.stderr)
	}
	if v != nil {
		if err := json.Unmarshal([]byte(r.stdout), v); err != nil {
			o.t.Fatalf("remit %v printed %s: %v", args, r.stdout, err)
		}
	}
	return r
}

// fails runs a command that has to end with 1 and say something.
func (o *operator) fails(part string, args ...string) ran {
	o.t.Helper()
	r := o.run(args...)
	if r.code != 1 || !strings.Contains(r.stderr, part) {
		o.t.Errorf("remit %v ended with %d and %q, want 1 and %q", args, r.code, r.stderr, part)
	}
	return r
}

// secret returns the private keys that are stored now.
func (o *operator) secret() (keys []string) {
	o.t.Helper()
	secrets := secretsmanager.NewFromConfig(o.s.Administrator())
	list, err := secrets.ListSecrets(o.t.Context(), &secretsmanager.ListSecretsInput{MaxResults: aws.Int32(100)})
	if err != nil {
		o.t.Fatal(err)
	}
	for _, s := range list.SecretList {
		if !strings.HasPrefix(*s.Name, o.s.Outputs["WalletSecrets"]) {
			continue
		}
		got, err := secrets.GetSecretValue(o.t.Context(), &secretsmanager.GetSecretValueInput{SecretId: s.Name})
		if err != nil {
			o.t.Fatal(err)
		}
		var secret struct {
			Key string `json:"private_key"`
		}
		if err := json.Unmarshal([]byte(*got.SecretString), &secret); err != nil {
			o.t.Fatal(err)
		}
		keys = append(keys, strings.TrimPrefix(secret.Key, "0x"))
	}
	return keys
}

type finding struct {
	Check, Saw, Do string
	OK             bool
}

// newOperator is one whose wallets are put back at the end of the test, and
// whose screen never showed a key.
func newOperator(t *testing.T) *operator {
	t.Helper()
	o := &operator{t: t, s: start(t)}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(o.printed.String())
		}
	})
	return o
}

// unseen checks that no key that the secret holds was printed.
func (o *operator) unseen() {
	o.t.Helper()
	for i, key := range o.secret() {
		if printed := strings.ToLower(o.printed.String()); len(key) != 64 || strings.Contains(printed, strings.ToLower(key)) {
			o.t.Errorf("the key of wallet %d was printed", i)
		}
	}
}

// retireEmpty retires the wallets that tests have made, which hold nothing: doctor finds
// fault with one that is active, and remit recover waits for the ether of one that is
// not retired.
func (o *operator) retireEmpty() {
	o.t.Helper()
	var rows []struct{ Address, State string }
	o.ok(&rows, "wallet", "list")
	for _, r := range rows {
		if slices.ContainsFunc(o.s.Chain.Wallets(), func(w devnet.Wallet) bool { return w.Address.String() == r.Address }) || r.State == "retired" {
			continue
		}
		if r.State == "active" {
			o.ok(nil, "wallet", "drain", "--yes", r.Address)
		}
		o.ok(nil, "wallet", "retire", "--yes", r.Address)
	}
}

// calm ends the alarms that ring for what other tests have made fail: ministack looks at
// them again only when somebody puts a metric or an alarm.
func (s *stack) calm(t *testing.T) {
	t.Helper()
	alarms := cloudwatch.NewFromConfig(s.Administrator())
	ringing, err := alarms.DescribeAlarms(t.Context(), &cloudwatch.DescribeAlarmsInput{StateValue: cwtypes.StateValueAlarm})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range ringing.MetricAlarms {
		if _, err := alarms.SetAlarmState(t.Context(), &cloudwatch.SetAlarmStateInput{AlarmName: a.AlarmName, StateValue: cwtypes.StateValueOk, StateReason: aws.String("another test rang it")}); err != nil {
			t.Fatal(err)
		}
	}
}

// doctor returns what remit doctor finds, of which so many have to be bad. Alarms that
// ring are not counted: other tests have functions fail, which is heard for minutes.
func (o *operator) doctor(bad int) (findings []finding) {
	o.t.Helper()
	r := o.run("doctor", "--fresh", "--json")
	if err := json.Unmarshal([]byte(r.stdout), &findings); err != nil {
		o.t.Fatalf("remit doctor ended with %d\n%s%s: %v", r.code, r.stdout, r.stderr, err)
	}
	found, ring := 0, 0
	for _, f := range findings {
		switch {
		case f.OK:
		case strings.HasPrefix(f.Saw, "in alarm: "):
			ring++
		default:
			found++
		}
	}
	if found != bad || (r.code == 0) != (found+ring == 0) {
		o.t.Errorf("remit doctor ended with %d and finds %d bad, not %d: %s", r.code, found, bad, r.stdout)
	}
	return findings
}

// TestFreshDeployment runs the commands that a person runs first on a stack.
func TestFreshDeployment(t *testing.T) {
	o := newOperator(t)
	findings := o.doctor(0)
	if len(findings) < 8 {
		t.Errorf("doctor looked at %d things only: %+v", len(findings), findings)
	}
	if !slices.ContainsFunc(findings, func(f finding) bool { return f.Check == "closed" }) {
		t.Error("doctor does not ask whether the stack is closed")
	}
	for _, f := range findings {
		if f.Saw == "" || f.OK != (f.Do == "") {
			t.Errorf("on a stack that is well: %+v", f)
		}
	}
	t.Log(o.run("doctor", "--fresh").stdout)
	busy := o.fails("the deployment is not well", "doctor", "--fresh", "--rate", "500").stdout
	for _, want := range []string{"wallets: remit wallet create, from ", "parameter CheckReceiptsMemory, from 512 to ", "parameter Size, its Api, from 500 to 1,429", "take in 24 hours each"} {
		if !strings.Contains(busy, want) {
			t.Errorf("of 500 payments a second doctor does not say %q: %s", want, busy)
		}
	}
	var steps []struct {
		Step, Said string
		OK         bool
	}
	r := o.ok(&steps, "smoke", o.s.URL(""), "--limit", "2m")
	t.Log(r.stderr)
	if len(steps) != 7 || strings.Contains(r.stderr, "left out") {
		t.Errorf("smoke made %d steps: %s", len(steps), r.stderr)
	}
	o.fails("answered 401", "smoke", o.s.URL(""), "--key", "remit_test_wrong")
	o.fails("looking for stack nobody", "doctor", "--stack", "nobody")
	o.unseen()
}

// TestWallets adds a wallet and drains it.
func TestWallets(t *testing.T) {
	o := newOperator(t)
	type row struct {
		Address   string  `json:"address"`
		State     string  `json:"state"`
		NextNonce *uint64 `json:"next_nonce"`
		Paused    string  `json:"paused"`
	}
	list := func() map[string]row {
		var rows []row
		o.ok(&rows, "wallet", "list")
		byAddress := map[string]row{}
		for _, r := range rows {
			byAddress[r.Address] = r
		}
		return byAddress
	}
	o.retireEmpty()
	defer o.retireEmpty()
	before, keys := list(), len(o.secret())
	if len(before) < 2 {
		t.Fatalf("the stack has the wallets %+v", before)
	}
	o.fails("say --yes", "wallet", "create")
	if len(o.secret()) != keys {
		t.Error("a wallet was made without consent")
	}
	var made struct{ Address string }
	o.ok(&made, "wallet", "create", "--yes")
	if got := list(); len(got) != len(before)+1 || got[made.Address].State != "active" || len(o.secret()) != keys+1 {
		t.Errorf("after a wallet was made: %+v", got)
	}

	for _, f := range o.doctor(2) { // no tokens, and no ether
		if mine := strings.Contains(f.Check, made.Address[:10]); mine && (f.OK || !strings.Contains(f.Do, made.Address)) {
			t.Errorf("with a wallet that holds nothing: %+v", f)
		}
	}
	o.ok(nil, "wallet", "drain", made.Address, "--yes")
	if got := list()[made.Address].State; got != "draining" {
		t.Errorf("a drained wallet is %s", got)
	}
	o.doctor(0)

	o.ok(nil, "wallet", "balance")
	o.unseen()
}

// TestMerchantsMatters looks after a merchant: keys, a payment, webhooks.
func TestMerchantsMatters(t *testing.T) {
	o := newOperator(t)
	var made struct {
		Key      string `json:"api_key"`
		ID       string `json:"id"`
		Merchant string `json:"merchant_id"`
	}
	o.ok(&made, "keys", "create", "Acme GmbH", "--yes")
	m := merchant{t: t, s: o.s, key: made.Key}
	m.call("GET", "/transactions", nil).want(t, 200)
	type keyRow struct {
		ID      string  `json:"id"`
		Revoked *string `json:"revoked_at"`
	}
	var keys []keyRow
	if r := o.ok(&keys, "keys", "list", made.Merchant); len(keys) != 1 || keys[0].Revoked != nil || strings.Contains(r.stdout, made.Key) {
		t.Errorf("keys of the merchant: %s", r.stdout)
	}

	// A name on which no one listens: the first attempt fails.
	hook := m.call("POST", "/webhooks", map[string]any{"url": "http://127.0.0.1:1/"}).want(t, 201)
	hash := m.call("POST", "/send-payment", map[string]any{"to": recipient, "amount": 31}, "Idempotency-Key", "op-31").want(t, 201).get("tx_hash")
	until(t, "confirming", 90*time.Second, func() bool {
		return m.call("GET", "/transaction/"+hash, nil).want(t, 200).get("status") == "confirmed"
	})
	type dossier struct {
		ID         string
		State      string
		PendingTx  bool             `json:"pending_tx_stored"`
		Attempts   []map[string]any `json:"attempts"`
		Deliveries []struct {
			Status   string
			Attempts []struct{ Error string }
		}
		Chain []string
	}
	var found dossier
	until(t, "a first attempt of the webhook", 30*time.Second, func() bool {
		o.ok(&found, "payment", "show", hash)
		return len(found.Deliveries) == 1 && len(found.Deliveries[0].Attempts) > 0
	})
	if found.State != "CONFIRMED" || len(found.Attempts) != 1 || found.Deliveries[0].Attempts[0].Error == "" || len(found.Chain) != 1 || !strings.Contains(found.Chain[0], "mined in block") {
		t.Errorf("of a confirmed payment: %+v", found)
	}
	var failed []map[string]any
	if r := o.ok(&failed, "webhooks", "failed", made.Merchant, hook.get("id")); strings.TrimSpace(r.stdout) == "null" {
		t.Error("no failures are null in JSON")
	}
	o.ok(&failed, "webhooks", "resend", made.Merchant, hook.get("id"), "--yes")
	o.ok(&keyRow{}, "keys", "revoke", made.Merchant, made.ID, "--yes")
	if o.ok(&keys, "keys", "list", made.Merchant); keys[0].Revoked == nil {
		t.Error("a revoked key is not listed as one")
	}
	if strings.Count(o.printed.String(), made.Key) != 1 {
		t.Error("a key is shown by more than the command that makes it")
	}
	o.unseen()
}

// assume gives the operator a role with policies of docs/operate.md, and returns the
// configuration of the role.
func (o *operator) assume(name string, policies ...string) aws.Config {
	o.t.Helper()
	roles := iam.NewFromConfig(o.s.Administrator())
	_, err := roles.CreateRole(o.t.Context(), &iam.CreateRoleInput{RoleName: &name, AssumeRolePolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[]}`)})
	if err != nil {
		o.t.Fatal(err)
	}
	for _, id := range policies {
		policy := strings.NewReplacer("log-group:STACK-", "log-group:/aws/cloudformation/"+localaws.StackName+"/", // as the local AWS names them
			"REGION", o.s.Region, "ACCOUNT", "000000000000", "RPC_SECRET_ARN", o.s.Outputs["RpcSecretArn"], "STACK", localaws.StackName).
			Replace(guidetest.Read(o.t, root, "docs/operate.md", `{"Version": "2012-10-17", "Id": "`+id+`"`))
		if _, err := roles.PutRolePolicy(o.t.Context(), &iam.PutRolePolicyInput{RoleName: &name, PolicyName: &id, PolicyDocument: &policy}); err != nil {
			o.t.Fatal(err)
		}
	}
	cfg := o.s.as(o.t, name)
	c, err := cfg.Credentials.Retrieve(o.t.Context())
	if err != nil {
		o.t.Fatal(err)
	}
	o.rights = []string{"AWS_ACCESS_KEY_ID=" + c.AccessKeyID, "AWS_SECRET_ACCESS_KEY=" + c.SecretAccessKey, "AWS_SESSION_TOKEN=" + c.SessionToken}
	return cfg
}

// TestOperatorsRights gives two people the rights of docs/operate.md. Who reads looks at
// everything and changes nothing, who operates changes wallets, and neither reads a key:
// the calls of the whole run show the two functions that sign alone.
func TestOperatorsRights(t *testing.T) {
	o := newOperator(t)
	o.s.calls.mu.Lock() // other tests read keys on purpose
	before := o.s.calls.seen
	o.s.calls.seen = map[right]bool{}
	o.s.calls.mu.Unlock()
	defer func() {
		o.s.calls.mu.Lock()
		defer o.s.calls.mu.Unlock()
		maps.Copy(o.s.calls.seen, before)
	}()
	m := newMerchant(t, o.s)
	m.call("POST", "/send-payment", map[string]any{"to": recipient, "amount": 53}, "Idempotency-Key", "rights-of-operators").want(t, 201)
	refusedEveryKey := func(cfg aws.Config) {
		t.Helper()
		for _, w := range o.s.Chain.Wallets() {
			_, err := secretsmanager.NewFromConfig(cfg).GetSecretValue(t.Context(), &secretsmanager.GetSecretValueInput{SecretId: aws.String(o.s.Outputs["WalletSecrets"] + w.Address.String())})
			if !refusal(err) {
				t.Errorf("the key of %s is read: %v", w.Address, err)
			}
		}
	}
	o.s.calls.mu.Lock() // remit recover, of another test, is the command that reads keys
	maps.DeleteFunc(o.s.calls.seen, func(r right, _ bool) bool { return r.function == "operator" })
	o.s.calls.mu.Unlock()
	wallet := o.s.Chain.Wallets()[0].Address.String()
	reader := o.assume("reader", "RemitReader")
	for _, line := range []string{"wallet list", "wallet balance", "keys list " + m.owner, "payment show rights-of-operators --merchant " + m.owner, "audit --no-ether", "export"} {
		if r := o.run(strings.Fields(line)...); r.code != 0 {
			t.Errorf("who reads: remit %s ended with %d: %s%s", line, r.code, r.stdout, r.stderr)
		}
	}
	o.doctor(0)
	for _, line := range []string{"wallet create --yes", "wallet pause --yes " + wallet, "wallet drain --yes " + wallet} {
		o.fails("AccessDenied", strings.Fields(line)...)
	}
	refusedEveryKey(reader)

	var made struct{ Address string }
	operates := o.assume("operates", "RemitReader", "RemitOperator")
	o.ok(&made, "wallet", "create", "--yes")
	o.fails("is not draining", "wallet", "retire", "--yes", made.Address)
	for _, line := range []string{"wallet pause --yes " + wallet, "wallet resume --yes " + wallet, "wallet drain --yes " + made.Address, "wallet retire --yes " + made.Address, "wallet list"} {
		o.ok(nil, strings.Fields(line)...)
	}
	o.doctor(0)
	o.fails("is retired", "wallet", "resume", "--yes", made.Address)
	o.fails("is retired", "wallet", "drain", "--yes", "--undo", made.Address)
	refusedEveryKey(operates)

	o.s.calls.mu.Lock()
	defer o.s.calls.mu.Unlock()
	readers, creates := map[string]bool{}, 0
	for r := range o.s.calls.seen {
		if key := strings.HasPrefix(r.resource, o.s.Outputs["WalletSecrets"]); key && r.action == "secretsmanager:GetSecretValue" {
			readers[o.s.logical(r.function)] = true
		}
		if r.function == "operator" && r.action == "secretsmanager:CreateSecret" {
			creates++
		}
	}
	if creates == 0 {
		t.Error("the calls of operators are not recorded")
	}
	delete(readers, "SendPaymentsFunction")
	if delete(readers, "SendPaymentFunction"); !readers["CheckReceiptsFunction"] && len(readers) > 0 || len(readers) > 1 {
		t.Errorf("keys were read by %v too", readers)
	}
}
