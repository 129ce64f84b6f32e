// Package policy has the IAM policies of a stack's operators, with the names of its own
// resources.
package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/kms/walletkey"
	"github.com/remit-payouts/remit/internal/cli/operator/auditcopy"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
)

// Command is `remit policies`.
type Command struct {
	deployed.Target
	Role string `arg:"" optional:"" help:"Print only the policy of this role."`
}

// Run prints the policies of the roles of docs/operate.md, which name the stack's own
// resources. Every role also needs RemitReader.
func (c *Command) Run(ctx context.Context, d *deployed.Deployment, out io.Writer) error {
	if d.Account == nil {
		return errors.New("a stack of remit local has no roles; run this with the --stack of a stack on AWS")
	}
	list, err := d.Account.Resources(ctx)
	if err != nil {
		return err
	}
	all, err := Of(d.Account, list, dynamo.WalletPartition(d.ChainID))
	if err != nil {
		return err
	}
	shown := any(all)
	if c.Role != "" {
		one, known := all[c.Role]
		if !known {
			return fmt.Errorf("there is no role %s; choose one of %s", c.Role, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
		}
		shown = one
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(shown)
}

// A Policy is a document of IAM.
type Policy struct {
	Version   string
	ID        string `json:"Id"`
	Statement []statement
}

type statement struct {
	Effect    string
	Action    names
	Resource  names
	Condition conditions `json:",omitempty"`
}

// conditions are values by operators and keys.
type conditions map[string]map[string]names

// names are written as a list, or as a word if there is one.
type names []string

func (n names) MarshalJSON() ([]byte, error) {
	if len(n) == 1 {
		return json.Marshal(n[0])
	}
	return json.Marshal([]string(n))
}

// leading are the keys of the partitions that a request writes.
const leading = "dynamodb:LeadingKeys"

// only is the condition that every partition is one of patterns. A request without a
// partition does not meet it.
func only(patterns ...string) conditions {
	return conditions{"ForAllValues:StringLike": {leading: patterns}, "Null": {leading: {"false"}}}
}

// resources are the stack's, as policies name them.
type resources struct {
	payments, keys, jobs             string
	tables, indexes                  []string
	functions, groups, signers, logs []string
	rpc, secrets, secretsAnywhere    string // the wallets' secrets, and their replicas
	auditEntries, walletKeys         string
}

// named finds the stack's by its outputs and its list.
func named(a *deployed.Account, list []deployed.Resource) (r resources, err error) {
	var errs []error
	at := func(service, resource string) string {
		arn, err := a.ARN(service, resource)
		errs = append(errs, err)
		return arn
	}
	output := func(name string) string {
		value, err := a.Output(name)
		errs = append(errs, err)
		return value
	}
	table := func(name string) string { return at("dynamodb", "table/"+output(name)) }
	r.payments, r.keys = table("PaymentsTableName"), table("ApiKeysTableName")
	r.tables = []string{r.keys, r.payments, table("WebhooksTableName")}
	for _, t := range r.tables {
		r.indexes = append(r.indexes, t+"/index/*")
	}
	r.jobs = at("sqs", path.Base(output("WebhookQueueUrl")))
	r.rpc, r.secrets = output("RpcSecretArn"), at("secretsmanager", "secret:"+output("WalletSecrets")+"*")
	r.secretsAnywhere = strings.Replace(r.secrets, ":"+a.AWS.Region+":", ":*:", 1)
	group := at("logs", "log-group:"+output("AuditLogGroupName"))
	r.auditEntries, r.walletKeys = group+":log-stream:"+auditcopy.Stream, at("kms", "key/*")
	application := ""
	for _, s := range list {
		switch s.Kind {
		case "AWS::Lambda::Function":
			r.functions = append(r.functions, at("lambda", "function:"+s.Name+"*")) // its versions and alias too
		case "AWS::Logs::LogGroup":
			r.logs = append(r.logs, at("logs", "log-group:"+s.Name+":*"))
		case "AWS::CodeDeploy::Application":
			application = s.Name
		}
	}
	for _, s := range list {
		if s.Kind == "AWS::CodeDeploy::DeploymentGroup" {
			r.groups = append(r.groups, at("codedeploy", "deploymentgroup:"+application+"/"+s.Name))
		}
	}
	r.signers, err = a.Signers(list)
	return r, errors.Join(append(errs, err)...)
}

// Of returns the policy of every role. Policies only allow and never deny, so that a person
// may have several; none may change entries of the audit log.
func Of(a *deployed.Account, list []deployed.Resource, wallets string) (map[string]Policy, error) {
	r, err := named(a, list)
	if err != nil {
		return nil, err
	}
	allow := func(when conditions, on []string, actions ...string) statement {
		return statement{"Allow", actions, on, when}
	}
	all, payments, rules := []string{"*"}, []string{r.payments}, dynamo.SettingsPartitions()
	ours := conditions{"StringEquals": {"aws:ResourceTag/" + walletkey.Tag: {a.Stack}}}
	logged := []statement{
		allow(only(dynamo.AuditPartition), payments, "dynamodb:PutItem"),
		allow(nil, []string{r.auditEntries}, "logs:PutLogEvents"),
	}
	write := func(more ...statement) []statement { return append(slices.Clone(logged), more...) }
	roles := map[string][]statement{
		"RemitReader": {
			allow(nil, all, "cloudformation:DescribeStacks", "cloudformation:GetTemplate", "cloudformation:ListStackResources",
				"cloudwatch:DescribeAlarms", "secretsmanager:ListSecrets"),
			allow(nil, r.functions, "lambda:GetFunctionConfiguration", "lambda:ListAliases"),
			allow(nil, append(r.tables, r.indexes...), "dynamodb:BatchGetItem", "dynamodb:DescribeContinuousBackups", "dynamodb:DescribeTable",
				"dynamodb:DescribeTimeToLive", "dynamodb:GetItem", "dynamodb:Query", "dynamodb:Scan"),
			allow(nil, []string{r.secrets, r.rpc}, "secretsmanager:DescribeSecret"),
			allow(nil, []string{r.rpc}, "secretsmanager:GetSecretValue"),
			allow(nil, r.logs, "logs:FilterLogEvents"),
			allow(ours, []string{r.walletKeys}, "kms:ListGrants"),
			{"Deny", []string{"secretsmanager:GetSecretValue"}, []string{r.secretsAnywhere}, nil},
			{"Deny", []string{"dynamodb:DeleteItem", "dynamodb:UpdateItem"}, payments,
				conditions{"ForAnyValue:StringEquals": {leading: {dynamo.AuditPartition}}}},
		},
		"RemitOperator": write(
			allow(conditions{"ForAllValues:StringNotLike": {leading: append(rules, dynamo.AuditPartition)}}, r.tables, "dynamodb:DeleteItem",
				"dynamodb:PutItem", "dynamodb:UpdateItem"),
			allow(nil, []string{r.jobs}, "sqs:SendMessage"),
		),
		"RemitSettings": write(
			allow(only(rules...), []string{r.keys, r.payments}, "dynamodb:DeleteItem", "dynamodb:PutItem"),
		),
		"RemitReleaser": write(
			allow(nil, []string{a.ID}, "cloudformation:CancelUpdateStack", "cloudformation:DescribeStackEvents"),
			allow(nil, r.functions, "lambda:GetAlias", "lambda:UpdateAlias"),
		),
		"RemitKeys": write(
			allow(only(wallets), payments, "dynamodb:PutItem"),
			allow(nil, []string{r.secrets}, "secretsmanager:CreateSecret", "secretsmanager:ReplicateSecretToRegions", "secretsmanager:TagResource"),
			allow(conditions{"StringEquals": {"aws:RequestTag/" + walletkey.Tag: {a.Stack}}, "Null": {"aws:ResourceTag/" + walletkey.Tag: {"true"}}}, all,
				"kms:CreateKey", "kms:TagResource"),
			allow(ours, []string{r.walletKeys}, "kms:GetPublicKey", "kms:RevokeGrant"),
			allow(conditions{"StringEquals": {"aws:ResourceTag/" + walletkey.Tag: {a.Stack}, "kms:GranteePrincipal": r.signers},
				"ForAllValues:StringEquals": {"kms:GrantOperations": {"Sign"}}},
				[]string{r.walletKeys}, "kms:CreateGrant"),
		),
	}
	if len(r.groups) > 0 {
		roles["RemitReleaser"] = append(roles["RemitReleaser"], allow(nil, r.groups, "codedeploy:ListDeployments"),
			allow(nil, all, "codedeploy:StopDeployment")) // which IAM knows of no resource
	}
	if topic := a.Topic(); topic != "" {
		roles["RemitSettings"] = append(roles["RemitSettings"], allow(nil, []string{topic}, "sns:Publish"))
	}
	if key := a.Parameters["KmsKeyArn"]; key != "" { // but not the webhooks' secrets, whose data keys have a context
		roles["RemitReader"] = append(roles["RemitReader"],
			allow(conditions{"Null": {"kms:EncryptionContext:remit": {"true"}}}, []string{key}, "kms:Decrypt", "kms:GenerateDataKey"))
	}
	documents := map[string]Policy{}
	for role, statements := range roles {
		documents[role] = Policy{"2012-10-17", role, statements}
	}
	return documents, nil
}
