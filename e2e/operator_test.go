package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"github.com/remit-payouts/remit/e2e/localaws"
	"github.com/remit-payouts/remit/internal/proof/guidetest"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
)

// An operator uses the command line on the deployed stack.
type operator struct {
	t *testing.T
	s *stack

	rights []string // variables with the credentials of the operator; none: the administrator's

	mu      sync.Mutex
	printed strings.Builder // everything, of all commands
}

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
	cmd := exec.CommandContext(ctx, must.Get(remit())(o.t), args...)
	cmd.Env = append(o.s.Environment(), "PATH="+os.Getenv("PATH"), "HOME="+scratch, "REMIT_STACK="+localaws.StackName,
		"SSL_CERT_FILE="+o.s.Bundle, "AWS_ENDPOINT_URL="+o.s.calls.url)
	cmd.Env = append(cmd.Env, o.rights...)
	return cmd
}

// run runs remit with the rights of the stack's AWS account, without a terminal.
func (o *operator) run(args ...string) ran {
	o.t.Helper()
	must.Get(remit())(o.t)                                      // before the command's time begins
	ctx, cancel := context.WithTimeout(o.t.Context(), patience) // a command that hangs is named
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

// ok runs a command that has to succeed and reads its JSON into v, if that is not nil.
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
	list := must.Get(secrets.ListSecrets(o.t.Context(), &secretsmanager.ListSecretsInput{MaxResults: aws.Int32(100)}))(o.t)
	for _, s := range list.SecretList {
		if !strings.HasPrefix(*s.Name, o.s.Outputs["WalletSecrets"]) {
			continue
		}
		got := must.Get(secrets.GetSecretValue(o.t.Context(), &secretsmanager.GetSecretValueInput{SecretId: s.Name}))(o.t)
		var secret struct {
			Key string `json:"private_key"`
		}
		must.OK(o.t, json.Unmarshal([]byte(*got.SecretString), &secret))
		keys = append(keys, strings.TrimPrefix(secret.Key, "0x"))
	}
	return keys
}

type finding struct {
	Check, Saw, Do string
	OK             bool
}

// newOperator is one whose wallets are put back at the end of the test, and whose screen never showed a key.
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

// retireEmpty retires the empty wallets that tests have made: doctor reports an empty active
// wallet, and remit recover waits for the ether of every wallet that is not retired.
func (o *operator) retireEmpty() {
	o.t.Helper()
	var rows []struct{ Address, State string }
	o.ok(&rows, "wallet", "list")
	for _, r := range rows {
		if slices.ContainsFunc(o.s.Chain.Wallets(), func(w devnet.Wallet) bool { return w.Address.String() == r.Address }) ||
			r.State == "retired" {
			continue
		}
		if r.State == "active" {
			o.ok(nil, "wallet", "drain", "--yes", r.Address)
		}
		o.ok(nil, "wallet", "retire", "--yes", r.Address)
	}
}

// doctor returns the findings of remit doctor, with the expected number of bad ones.
func (o *operator) doctor(bad int) (findings []finding) {
	o.t.Helper()
	r := o.run("doctor", "--json")
	if err := json.Unmarshal([]byte(r.stdout), &findings); err != nil {
		o.t.Fatalf("remit doctor ended with %d\n%s%s: %v", r.code, r.stdout, r.stderr, err)
	}
	found := 0
	for _, f := range findings {
		if !f.OK {
			found++
		}
	}
	if found != bad || (r.code == 0) != (found == 0) {
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
	for _, f := range findings {
		if f.Saw == "" || f.OK != (f.Do == "") {
			t.Errorf("on a stack that is well: %+v", f)
		}
	}
	if !slices.ContainsFunc(findings, func(f finding) bool { return f.Check == "real money" }) {
		t.Error("doctor does not ask whether real money may move")
	}
	t.Log(o.run("doctor").stdout)
	r := o.ok(nil, "smoke", o.s.URL(""), "--limit", "2m")
	if strings.Count(r.stdout, " s  ") != 7 || strings.Contains(r.stdout, "left out") {
		t.Errorf("smoke made other steps than seven: %s", r.stdout)
	}
	o.fails("refused with 401", "smoke", o.s.URL(""), "--key", "remit_test_wrong")
	o.fails("looking for stack nobody", "doctor", "--stack", "nobody")
	o.unseen()
}

// assume gives the operator a role with policies of the stack, and returns the configuration of the role.
func (o *operator) assume(name string, policies ...string) aws.Config {
	o.t.Helper()
	roles := iam.NewFromConfig(o.s.Administrator())
	must.Get(roles.CreateRole(o.t.Context(), &iam.CreateRoleInput{RoleName: &name,
		AssumeRolePolicyDocument: aws.String(`{"Version":"2012-10-17","Statement":[]}`)}))(o.t)
	o.rights = nil
	for _, id := range policies {
		must.Get(roles.AttachRolePolicy(o.t.Context(),
			&iam.AttachRolePolicyInput{RoleName: &name, PolicyArn: aws.String(o.s.Resources[id])}))(o.t)
	}
	cfg := o.s.as(o.t, name)
	c := must.Get(cfg.Credentials.Retrieve(o.t.Context()))(o.t)
	o.rights = []string{"AWS_ACCESS_KEY_ID=" + c.AccessKeyID, "AWS_SECRET_ACCESS_KEY=" + c.SecretAccessKey,
		"AWS_SESSION_TOKEN=" + c.SessionToken}
	return cfg
}

// operatorsAttempts are acts of operators, and the roles that may do each.
func (o *operator) operatorsAttempts() []attempt {
	s := o.s
	payments, keys, group := aws.String(s.Outputs["PaymentsTableName"]), aws.String(s.Outputs["ApiKeysTableName"]),
		aws.String(s.Outputs["AuditLogGroupName"])
	wallets := fmt.Sprintf("wallets#%d", s.Chain.ID())
	words := []logtypes.InputLogEvent{{Message: aws.String("a try"), Timestamp: aws.Int64(time.Now().UnixMilli())}}
	return []attempt{
		{"storing a payment", "Operator", put(payments, "pk", "payment#pay_x")},
		{"storing a payment in a transaction", "Operator", putTogether(payments, "pk", "payment#pay_x")},
		{"writing to another stack's table", "", put(aws.String(*payments+"-other"), "pk", "payment#pay_x")},
		{"registering a wallet", "Operator Keys", put(payments, "pk", wallets)},
		{"handing out a key", "Operator", put(keys, "key_hash", "x")},
		{"copying the audit log", "Operator Settings Keys", by(cloudwatchlogs.NewFromConfig,
			(*cloudwatchlogs.Client).PutLogEvents, &cloudwatchlogs.PutLogEventsInput{LogGroupName: group,
				LogStreamName: aws.String("operators"), LogEvents: words})},
		{"logging elsewhere", "", by(cloudwatchlogs.NewFromConfig, (*cloudwatchlogs.Client).PutLogEvents,
			&cloudwatchlogs.PutLogEventsInput{LogGroupName: aws.String(s.Resources["SettlementLogGroup"]),
				LogStreamName: aws.String("operators"), LogEvents: words})},
		{"reading the copy", "Reader Operator Settings Keys", by(cloudwatchlogs.NewFromConfig,
			(*cloudwatchlogs.Client).FilterLogEvents, &cloudwatchlogs.FilterLogEventsInput{LogGroupName: group})},
		{"deleting the copy", "", by(cloudwatchlogs.NewFromConfig, (*cloudwatchlogs.Client).DeleteLogStream,
			&cloudwatchlogs.DeleteLogStreamInput{LogGroupName: group, LogStreamName: aws.String("operators")})},
		{"shortening the copy", "", by(cloudwatchlogs.NewFromConfig, (*cloudwatchlogs.Client).PutRetentionPolicy,
			&cloudwatchlogs.PutRetentionPolicyInput{LogGroupName: group, RetentionInDays: aws.Int32(1)})},
		{"moving a release", "", by(lambda.NewFromConfig, (*lambda.Client).UpdateAlias,
			&lambda.UpdateAliasInput{FunctionName: aws.String(s.Resources["SendPaymentFunction"]),
				Name: aws.String("none"), FunctionVersion: aws.String("1")})},
		{"making a wallet's secret", "Keys",
			by(secretsmanager.NewFromConfig, (*secretsmanager.Client).CreateSecret,
				&secretsmanager.CreateSecretInput{Name: aws.String(s.Outputs["WalletSecrets"] + s.Chain.Wallets()[0].Address.String()),
					SecretString: aws.String("{}")})}, // which is there
		{"reading a wallet's secret", "", by(secretsmanager.NewFromConfig, (*secretsmanager.Client).GetSecretValue,
			&secretsmanager.GetSecretValueInput{SecretId: aws.String(s.Outputs["WalletSecrets"] +
				s.Chain.Wallets()[0].Address.String())})},
	}
}

// TestOperatorsRights gives people the stack's policies: each role does its own work and nobody else's. None reads a
// key: the commands work without that right.
func TestOperatorsRights(t *testing.T) {
	o := newOperator(t)
	m := newMerchant(t, o.s)
	m.call("POST", "/send-payment", map[string]any{"to": recipient, "amount": 53}, "Idempotency-Key", "rights-of-operators").want(t, 201)
	wallet, made := o.s.Chain.Wallets()[0].Address.String(), struct{ Address string }{}
	o.ok(&made, "wallet", "create", "--yes")
	const rules, audits = "Settings", "Operator Settings Keys"
	attempts := append(o.operatorsAttempts(), o.s.tampering(map[string]string{
		"put audit": audits, "put in a transaction audit": audits,
		"put denied": rules, "put in a transaction denied": rules, "delete denied": rules,
		"put rails": rules, "put in a transaction rails": rules, "delete rails": rules,
	})...)
	for _, who := range []struct {
		role string
		may  []string
	}{
		{"Reader", []string{"wallet list", "keys list " + m.owner, "payment show rights-of-operators --merchant " +
			m.owner, "audit", "export", "deny list", "settings show", "audit-log"}},
		{"Operator", []string{"wallet pause --yes " + wallet, "wallet resume --yes " + wallet,
			"wallet drain --yes " + made.Address, "wallet retire --yes " + made.Address, "keys create Rights --yes"}},
		{"Settings", []string{"settings set MerchantCap=40 --yes --reason x", "settings set MerchantCap=50 --yes --reason x",
			"deny add 0x00000000000000000000000000000000aa00aa00 --yes --reason x", "deny remove 0x00000000000000000000000000000000aa00aa00 --yes"}},
		{"Keys", []string{"wallet create --yes"}},
	} {
		cfg := o.assume("rights-of-"+who.role, slices.Compact([]string{"RemitReader", "Remit" + who.role})...)
		tried(t, cfg, who.role, attempts)
		for _, line := range who.may {
			if r := o.run(strings.Fields(line)...); r.code != 0 {
				t.Errorf("%s: remit %s ended with %d: %s%s", who.role, line, r.code, r.stdout, r.stderr)
			}
		}
	}
	o.rights = nil
	o.fails("is retired", "wallet", "resume", "--yes", made.Address)
	o.retireEmpty()
	o.assume("rights-of-doctors", "RemitReader")
	o.doctor(0)
}

// TestOperatorsPages runs the remit commands of docs/deploy.md, docs/operate.md and docs/disasters.md line by line as
// they are printed, with the ids of a payment in the place of the pages' 0x… and pay_…. A command that asks for
// consent is repeated with --yes, since a test has no terminal.
func TestOperatorsPages(t *testing.T) {
	o := newOperator(t)
	m := newMerchant(t, o.s)
	hook := m.call("POST", "/webhooks", map[string]any{"url": "http://127.0.0.1:1/"}).want(t, 201)
	hash := m.call("POST", "/send-payment", map[string]any{"to": recipient, "amount": 47, "reference": "\x1b[2J\u009b\n"},
		"Idempotency-Key", "inv-2041").want(t, 201).get("tx_hash")
	var paid struct {
		ID, State string
		Wallet    string `json:"paid_by"`
	}
	until(t, "confirming", func() bool {
		o.ok(&paid, "payment", "show", hash)
		return paid.State == "CONFIRMED"
	})
	var spent struct{ Address string } // the wallet that the pages drain and retire
	o.retireEmpty()
	defer o.retireEmpty() // wallets that the pages make
	ids := strings.NewReplacer(".cache/bin/remit", "remit", "--stack remit-dev", "", "--stack remit-prod", "",
		"0x<hash>", hash, "0xfrom…", paid.Wallet, "0xto…", recipient, "0xwallet…", paid.Wallet,
		"0x…", paid.Wallet, "pay_…", paid.ID, "mer_…", m.owner, "we_…", hook.get("id"))
	for _, c := range tabletest.Read(t, nil) {
		page, start := c.In[0], c.Name
		printed := ""
		text := guidetest.Read(t, root, page, start)
		if strings.HasPrefix(text, "remit wallet drain") { // there is nothing to sweep: cmd/remit does
			o.ok(&spent, "wallet", "create", "--yes")
			text = strings.ReplaceAll(regexp.MustCompile("remit wallet sweep.*\n").ReplaceAllString(text, ""), "0x…", spent.Address)
		}
		for line := range strings.Lines(ids.Replace(text)) {
			var words []string
			for _, word := range regexp.MustCompile(`"[^"]*"|\S+`).FindAllString(line, -1) {
				words = append(words, strings.Trim(word, `"`))
			}
			if words[0] != "remit" {
				t.Fatalf("%s: this test cannot run %s", page, line)
			}
			r := o.run(words[1:]...)
			if strings.Contains(r.stderr, "add --yes") {
				printed += r.stdout + r.stderr
				r = o.run(append(words[1:], "--yes")...)
			}
			if r.code != 0 {
				t.Errorf("%s: %s ended with %d: %s", page, line, r.code, r.stderr)
			}
			printed += r.stdout
		}
		if !strings.Contains(printed, c.Want) {
			t.Errorf("%s: the lines from %q print no %q:\n%s", page, start, c.Want, printed)
		}
		if start == "remit wallet funding" {
			o.ok(nil, "wallet", "funding", "--undo", "--yes", paid.Wallet)
		}
	}
	if strings.ContainsAny(o.printed.String(), "\x1b\u009b") {
		t.Error("a merchant's words steer the terminal")
	}
	o.unseen()
}
