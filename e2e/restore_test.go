package e2e_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/e2e/localaws"
	"github.com/remit-payouts/remit/internal/proof/guidetest"
	"github.com/remit-payouts/remit/internal/proof/must"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// A drill follows docs/disasters.md on a stack of its own, in one terminal.
type drill struct {
	*testing.T
	s        *stack
	exports  string   // an operator's environment
	state    string   // file with the terminal's variables
	replaces []string // names on the page and those of this stack
}

// variables are those of the page that later blocks use.
const variables = "SINCE Payments ApiKeys Webhooks AT EXISTING"

// newDrill deploys the template as for production.
func newDrill(t *testing.T) *drill {
	t.Helper()
	started, build := another(t, append(localaws.Closed(), "Size=small", "AuthorizerCacheSeconds=0")...)
	d := &drill{T: t, s: started, state: filepath.Join(t.TempDir(), "variables")}
	must.OK(d, started.AddRail(t.Context(), started.Chain, started.Chain.URL()))

	// An operator's PATH. Without a terminal to ask on, consent is --yes.
	program := must.Get(remit())(d)
	bin := t.TempDir()
	must.OK(d, os.WriteFile(filepath.Join(bin, "remit"), []byte(`#!/bin/bash
said=$("`+program+`" "$@" 2>&1) && echo "$said" && exit
[[ $said != *"add --yes"* ]] && echo "$said" && exit 1
exec "`+program+`" "$@" --yes 2>&1
`), 0o700))
	tools := must.Get(filepath.Abs(filepath.Join(root, ".cache")))(d)
	for _, variable := range append(started.Environment(), "SSL_CERT_FILE="+started.Bundle, "AWS_PAGER=",
		"PATH="+strings.Join([]string{bin, tools + "/awscli/bin", os.Getenv("PATH")}, ":")) {
		d.exports += "export '" + variable + "'\n"
	}
	d.replaces = []string{"remit-prod", localaws.StackName, "make build ENV=prod\n", "", ".cache/venv/bin/sam",
		tools + "/venv/bin/sam", "--config-env prod", strings.Join(localaws.Where(build), " "), "$(parameters)",
		"Size=small AuthorizerCacheSeconds=0 " + strings.Join(append(started.Parameters(), localaws.Closed()...), " "),
		"tools/restore.sh", filepath.Dir(tools) + "/tools/restore.sh"}
	return d
}

// run runs lines in the operator's environment.
func (d *drill) run(lines string) string { d.Helper(); return guidetest.Run(d, d.exports+lines) }

// follow runs the block of the page that begins with start, and returns the text that it prints.
func (d *drill) follow(start string, replaces ...string) string {
	d.Helper()
	began := time.Now()
	before := guidetest.Read(d, root, "docs/disasters.md", "export REMIT_STACK=") + "[ ! -e " + d.state + " ] || . " + d.state + "\nset -e\n"
	after := "\nset +e\nfor v in " + variables + "; do declare -p $v 2>/dev/null; done > " + d.state + " || true\n"
	lines := strings.NewReplacer(append(replaces, d.replaces...)...).Replace(before +
		guidetest.Read(d, root, "docs/disasters.md", start) + after)
	printed := d.run(lines)
	d.Logf("%s… took %v and printed:\n%s", start, time.Since(began).Round(time.Second), printed)
	return printed
}

// use follows a block that changes the stack, and looks at it.
func (d *drill) use(start string, replaces ...string) {
	d.Helper()
	d.follow(start, replaces...)
	must.OK(d, d.s.Refresh(d.Context()))
}

// variable returns the value of a variable of the terminal.
func (d *drill) variable(name string) string {
	d.Helper()
	return strings.TrimSpace(d.run(". " + d.state + "\necho $" + name))
}

// doctor returns the findings that are not well, but for paused wallets.
func (d *drill) doctor(arguments string) (bad []string) {
	d.Helper()
	var findings []finding
	printed := d.run("export REMIT_STACK=" + localaws.StackName + "\nremit doctor --json " + arguments + " || true")
	if err := json.NewDecoder(strings.NewReader(printed)).Decode(&findings); err != nil || len(findings) < 8 {
		d.Fatalf("doctor: %v, %s", err, printed)
	}
	for _, f := range findings {
		if !f.OK && !strings.Contains(f.Saw, "is paused") {
			bad = append(bad, f.Check+": "+f.Saw)
		}
	}
	return bad
}

// rollBack makes the restored table of a kind as the table was when the items were read.
// ministack restores a table as it is now, whatever second it is told.
func (d *drill) rollBack(kind string, items []map[string]types.AttributeValue) {
	d.Helper()
	table, db := d.variable(kind), dynamodb.NewFromConfig(d.s.Administrator())
	found := must.Get(db.DescribeTable(d.Context(), &dynamodb.DescribeTableInput{TableName: &table}))(d)
	for _, item := range d.s.items(d.T, table) {
		key := map[string]types.AttributeValue{}
		for _, k := range found.Table.KeySchema {
			key[*k.AttributeName] = item[*k.AttributeName]
		}
		must.Get(db.DeleteItem(d.Context(), &dynamodb.DeleteItemInput{TableName: &table, Key: key}))(d)
	}
	for _, item := range items {
		must.Get(db.PutItem(d.Context(), &dynamodb.PutItemInput{TableName: &table, Item: item}))(d)
	}
}

// refused checks that a payment is not made now, as while wallets are paused.
func (d *drill) refused(m merchant, key string) {
	d.Helper()
	a, err := m.api().Call(d.Context(), "POST", "/send-payment", fmt.Sprintf(`{"to":%q,"amount":5}`, recipient), "Idempotency-Key", key)
	if must.OK(d, err); a.Status != 503 {
		d.Errorf("a payment while every wallet is paused: %d %s", a.Status, a.Body)
	}
}

// TestRestorePage follows docs/disasters.md from its top to its end: back to a point in
// time, a lost table, a stack that was deleted, a lost region.
func TestRestorePage(t *testing.T) {
	t.Parallel()
	const bucket = "remit-exports" // of the page
	d := newDrill(t)
	var made struct {
		Key      string `json:"api_key"`
		Merchant string `json:"merchant_id"`
	}
	(&operator{t: t, s: d.s}).ok(&made, "keys", "create", "Acme GmbH", "--yes")
	m := merchant{t: t, s: d.s, key: made.Key, owner: made.Merchant}
	ended := rotated(t, m, m.id(), time.Hour)
	before := m.paid("before", 5)
	hook := m.call("POST", "/webhooks", map[string]any{"url": "https://nobody.example:8443/"}).want(t, 201)
	d.s.sealed(t, hook.get("secret"))
	signs := func(want int) {
		t.Helper()
		m.call("POST", "/webhooks/"+hook.get("id")+"/test", nil).want(t, want)
	}
	signs(200)
	payments, keys := d.s.items(t, d.s.Outputs["PaymentsTableName"]), d.s.items(t, d.s.Outputs["ApiKeysTableName"])
	lost := m.paid("lost", 5) // later writes are after the point in time
	m.call("POST", "/api-keys/"+ended.id()+"/revoke", nil).want(t, 200)
	since := time.Now().UTC().Format(time.RFC3339)

	d.follow("remit wallet pause --all --reason \"restore\"\n")
	d.refused(m, "new")
	d.follow("SINCE=", "2026-11-22T09:30:00Z", since)
	d.rollBack("Payments", payments)
	if bad := strings.Join(d.doctor("--table payments="+d.variable("Payments")), "\n"); !strings.Contains(bad,
		"cannot be restored to a point in time") ||
		!strings.Contains(bad, "does not expire items by ttl") || !strings.Contains(bad, "can be deleted by mistake") {
		t.Errorf("a table that was just restored: %s", bad)
	}
	d.follow("keep ")
	if report := d.follow("remit recover --table"); !strings.Contains(report, "\npayments put back: 1, 0.000005 ") {
		t.Errorf("the account of the recovery: %s", report)
	}
	d.use("use ExistingPaymentsTable")
	m.call("GET", "/transaction/"+before, nil).want(t, 200)
	m.call("GET", "/transaction/"+lost, nil).want(t, 404) // the functions use the restored table
	d.refused(m, "new")
	if again := m.paid("lost", 5); again != lost {
		t.Errorf("a payment that the table had lost is paid again: %s, not %s", again, lost)
	}

	d.follow("restore ApiKeys")
	d.rollBack("ApiKeys", keys)
	d.use("remit keys revoke-all --ended-in")
	ended.call("GET", "/transactions", nil).want(t, 401)
	m.call("GET", "/transactions", nil).want(t, 200)
	d.use("restore Webhooks")
	d.refused(m, "not-confirmed")
	d.follow("remit settings set --confirm\nremit wallet resume")
	if bad := d.doctor(""); len(bad) > 0 {
		t.Errorf("after every table was restored: %v", bad)
	}
	after := m.paid("after", 5)

	// AWS makes a copy of a table with backups when it is deleted; ministack does not.
	db, name := dynamodb.NewFromConfig(d.s.Administrator()), d.s.Outputs["PaymentsTableName"]
	must.Get(db.CreateBackup(t.Context(), &dynamodb.CreateBackupInput{TableName: &name, BackupName: aws.String("system")}))(d)
	if _, err := db.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: &name}); err == nil {
		t.Error("the restored table of a stack for production is not protected")
	}
	unprotected := &dynamodb.UpdateTableInput{TableName: &name, DeletionProtectionEnabled: aws.Bool(false)}
	must.Get(db.UpdateTable(t.Context(), unprotected))(d)
	must.Get(db.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: &name}))(d)
	d.follow("restore Payments\n")
	d.follow("keep ")
	d.use("use ExistingPaymentsTable")
	d.refused(m, "new")
	d.follow("remit settings set --confirm\nremit wallet resume")
	m.call("GET", "/transaction/"+after, nil).want(t, 200)
	m.paid("after-the-loss", 5)

	until(t, "a run of the schedule", func() bool { // the metric that SettlementStoppedAlarm misses
		return strings.Contains(strings.Join(d.s.logged(t, "CheckReceipts"), "\n"), `"ScheduledRuns":1`)
	})
	d.run("aws s3 mb --region us-west-2 s3://" + bucket)
	d.use("use ReplicaRegion")
	if bad := d.doctor(""); len(bad) > 0 {
		t.Errorf("with replicas: %v", bad)
	}
	outputs := d.s.Outputs
	must.OK(d, d.s.Run(t.Context(), "sam", "delete", "--stack-name", localaws.StackName, "--no-prompts"))
	found := d.follow("aws dynamodb list-tables")
	replaces := []string{}
	for name, output := range map[string]string{
		"remit-prod-ApiKeysTable-1": "ApiKeysTableName", "remit-prod-PaymentsTable-1": "PaymentsTableName",
		"remit-prod-WebhooksTable-1":                            "WebhooksTableName",
		"arn:aws:secretsmanager:us-east-1:1:secret:RpcSecret-1": "RpcSecretArn",
	} {
		if !strings.Contains(found, outputs[output]) {
			t.Errorf("%s was not found", outputs[output])
		}
		replaces = append(replaces, name, outputs[output])
	}
	d.use("EXISTING=", replaces...)
	d.follow("allow_old_webhook_keys") // a role that is made again has its old name here, and so its rights on the key
	signs(200)
	if bad := d.doctor(""); len(bad) > 0 {
		t.Errorf("after the stack was made again: %v", bad)
	}
	m.call("GET", "/transaction/"+after, nil).want(t, 200)
	ended.call("GET", "/transactions", nil).want(t, 401)
	if again := m.call("POST", "/send-payment", map[string]any{"to": recipient, "amount": 5}, "Idempotency-Key", "after").want(t,
		201); again.get("tx_hash") != after {
		t.Errorf("a key that was paid is paid again: %s, not %s", again.get("tx_hash"), after)
	}
	m.paid("by-the-new-stack", 5)

	unused := rotated(t, m, m.id(), time.Hour) // API Gateway remembers a used key
	for _, kind := range []string{"ApiKeys", "Payments", "Webhooks"} {
		d.export(bucket, kind)
	}
	later := m.paid("since-the-export", 5)
	// The region is lost: here its stack is deleted.
	must.OK(d, d.s.Run(t.Context(), "sam", "delete", "--stack-name", localaws.StackName, "--no-prompts"))
	d.s.Region = "us-west-2"
	d.exports += "export AWS_REGION=us-west-2 AWS_DEFAULT_REGION=us-west-2\n"
	d.replaces = append(d.replaces, "AWS_REGION=us-east-1 AWS_DEFAULT_REGION=us-east-1", "AWS_REGION=us-west-2 AWS_DEFAULT_REGION=us-west-2")
	d.follow("export AWS_REGION=us-west-2")
	// ministack cannot end a replication; a replica can be read as it is.
	d.use("make build ENV=prod\n.cache/venv/bin/sam deploy --config-env prod --region")
	m.call("GET", "/transaction/"+after, nil).want(t, 200)
	m.call("GET", "/transaction/"+later, nil).want(t, 404)
	d.refused(m, "new")
	d.follow("remit settings set --confirm\nremit wallet resume")
	if bad := d.doctor(""); len(bad) > 0 {
		t.Errorf("in the other region: %v", bad)
	}
	if again := m.paid("since-the-export", 5); again != later {
		t.Errorf("a payment that the export lacks is paid again: %s, not %s", again, later)
	}
	m.paid("in-the-other-region", 5)

	issued := d.follow("remit keys revoke-all\n", "mer_…", m.owner)
	unused.call("GET", "/transactions", nil).want(t, 401)
	m.key = regexp.MustCompile(`(?m)^remit_(test|live)_\w+$`).FindString(issued)
	m.call("GET", "/transaction/"+after, nil).want(t, 200)
}

// export writes a table to the bucket as DynamoDB does. ministack takes the request and writes nothing.
func (d *drill) export(bucket, kind string) {
	d.Helper()
	var table struct{ Items []json.RawMessage }
	must.OK(d, json.Unmarshal([]byte(d.run("aws dynamodb scan --output json --table-name "+d.s.Outputs[kind+"TableName"])), &table))
	var data bytes.Buffer
	zip := gzip.NewWriter(&data)
	for _, item := range table.Items {
		var line bytes.Buffer
		must.OK(d, json.Compact(&line, item))
		fmt.Fprintf(zip, "{\"Item\":%s}\n", &line)
	}
	must.OK(d, zip.Close())
	file := filepath.Join(d.TempDir(), "data")
	must.OK(d, os.WriteFile(file, data.Bytes(), 0o600))
	to := " s3://" + bucket + "/" + kind + "/AWSDynamoDB/01/"
	d.run("aws s3 cp --region us-west-2 " +
		file + to + "data/0.json.gz && echo {} | aws s3 cp --region us-west-2 -" + to + "manifest-summary.json")
}
