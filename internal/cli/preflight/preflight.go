// Package preflight finds problems that would fail a deployment halfway: a missing log role,
// too small a quota, topics without a policy. It only reads, and prints the commands that fix
// each finding.
package preflight

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/apigateway"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/evm/chains"
)

// ErrNotReady reports findings that would fail the deployment, or leave it without
// its alarms. Nothing was deployed.
var ErrNotReady = errors.New("not ready to deploy: run the commands above, then again")

// Command is `remit preflight`.
type Command struct {
	Stack      string   `default:"remit" env:"REMIT_STACK" help:"Name of the stack to deploy."`
	Region     string   `help:"Region to deploy to; empty is the AWS configuration's."`
	Template   string   `default:"template.yaml" help:"The template to deploy."`
	Parameters []string `arg:"" optional:"" placeholder:"NAME=VALUE" help:"Parameters to deploy with; others have their defaults."`
}

// A flight is a deployment before it begins.
type flight struct {
	template
	stack     string
	aws       aws.Config
	account   string
	partition string
	out       io.Writer
	bad       int
	memoOff   bool // by the stored settings
}

// Run makes every check. It returns ErrNotReady if one found something.
func (c *Command) Run(ctx context.Context, out io.Writer) error {
	t, err := readTemplate(c.Template, c.Parameters)
	if err != nil {
		return err
	}
	var options []func(*config.LoadOptions) error
	if c.Region != "" {
		options = append(options, config.WithRegion(c.Region))
	}
	cfg, err := deployed.LoadAWS(ctx, options...)
	if err != nil {
		return err
	}
	who, err := sts.NewFromConfig(cfg).GetCallerIdentity(ctx, nil)
	if err != nil {
		return fmt.Errorf("asking AWS who you are: %w", err)
	}
	you, err := arn.Parse(aws.ToString(who.Arn))
	if err != nil {
		return fmt.Errorf("reading your ARN: %w", err)
	}
	f := &flight{template: t, stack: c.Stack, aws: cfg, account: aws.ToString(who.Account), partition: you.Partition, out: out}
	fmt.Fprintf(out, "deploying %s to account %s, region %s, as %s\n", c.Stack, f.account, cfg.Region, you.Resource)
	checks := []struct {
		name string
		look func(context.Context) (commands string, err error)
	}{
		{"region", f.region},
		{"stack", f.stackIsWhole},
		{"versions", f.leftVersions},
		{"log role of API Gateway", f.logRole},
		{"concurrency", f.concurrency},
		{"alarm topic", func(ctx context.Context) (string, error) { return f.topic(ctx, f.parameters["AlarmTopicArn"]) }},
		{"urgent alarm topic", func(ctx context.Context) (string, error) { return f.topic(ctx, f.parameters["UrgentTopicArn"]) }},
		{"CloudTrail", f.trail},
		{"KMS key", f.key},
		{"settings", f.settings},
		{"grants of wallets' keys", f.grants},
		{"nodes", f.nodes},
		{"memo", f.memo},
	}
	for _, check := range checks {
		commands, err := check.look(ctx)
		if err == nil {
			fmt.Fprintf(out, "ok   %s\n", check.name)
			continue
		}
		word := "WARN"
		if _, stopsNothing := errors.AsType[warning](err); !stopsNothing {
			f.bad++
			word = "BAD "
		}
		fmt.Fprintf(out, "%s %s: %v\n", word, check.name, err)
		for line := range strings.Lines(commands) {
			fmt.Fprintf(out, "     %s\n", strings.TrimSuffix(line, "\n"))
		}
	}
	if f.bad > 0 {
		return fmt.Errorf("%w (%d of %d checks)", ErrNotReady, f.bad, len(checks))
	}
	return nil
}

// A warning is a finding that preflight cannot judge, or that can be fixed afterwards.
type warning string

func (w warning) Error() string { return string(w) }

// logRole checks the role with which API Gateway writes access logs. It belongs to the
// account and region, and a stage with access logs is refused without it.
func (f *flight) logRole(ctx context.Context) (string, error) {
	found, err := apigateway.NewFromConfig(f.aws).GetAccount(ctx, nil)
	if err != nil || aws.ToString(found.CloudwatchRoleArn) != "" {
		return "", err
	}
	const trust = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"sts:AssumeRole","Principal":{"Service":"apigateway.amazonaws.com"}}]}`
	return fmt.Sprintf(`aws iam create-role --role-name apigateway-logs --assume-role-policy-document '%s'
aws iam attach-role-policy --role-name apigateway-logs --policy-arn arn:%s:iam::aws:policy/service-role/AmazonAPIGatewayPushToCloudWatchLogs
aws apigateway update-account%s --patch-operations op=replace,path=/cloudwatchRoleArn,value=arn:%[2]s:iam::%[4]s:role/apigateway-logs
`, trust, f.partition, f.here(), f.account), errors.New("API Gateway has no role to write logs with in this account and region " +
			"(a role takes effect some ten seconds after it was made)")
}

// unreserved is what Lambda keeps back from reservations for all other functions
// (https://docs.aws.amazon.com/lambda/latest/dg/configuration-concurrency.html).
const unreserved = 100

// concurrency compares what the stack reserves with the account's quota.
func (f *flight) concurrency(ctx context.Context) (string, error) {
	wanted, err := f.reserved()
	if err != nil || wanted == 0 {
		return "", err
	}
	found, err := lambda.NewFromConfig(f.aws).GetAccountSettings(ctx, nil)
	if err != nil {
		return "", err
	}
	own, err := f.reservedAlready(ctx)
	if err != nil {
		return "", err
	}
	quota := int(found.AccountLimit.ConcurrentExecutions)
	free := int(aws.ToInt32(found.AccountLimit.UnreservedConcurrentExecutions)) + own - unreserved
	if free >= wanted {
		return "", nil
	}
	return fmt.Sprintf("aws service-quotas request-service-quota-increase%s --service-code lambda --quota-code L-B99A9384 "+
			"--desired-value %d\n",
			f.here(), max(quota+wanted-free, 1000)), fmt.Errorf("the stack reserves %d concurrent executions, and the account has %d to reserve "+
			"(its quota is %d; AWS answers within days)", wanted, max(free, 0), quota)
}

// reservedAlready sums what the functions of the stack have reserved.
func (f *flight) reservedAlready(ctx context.Context) (sum int, err error) {
	functions := lambda.NewFromConfig(f.aws)
	resources, err := f.resources(ctx)
	for _, r := range resources {
		if r.Kind != "AWS::Lambda::Function" {
			continue
		}
		has, err := functions.GetFunctionConcurrency(ctx, &lambda.GetFunctionConcurrencyInput{FunctionName: &r.Name})
		if err != nil {
			return 0, err
		}
		sum += int(aws.ToInt32(has.ReservedConcurrentExecutions))
	}
	return sum, err
}

// nodes warns of a live stack whose payments end only while every node answers. The list may
// be stored after the deployment, so it stops none.
func (f *flight) nodes(ctx context.Context) (string, error) {
	if f.parameters["Mode"] != "live" || f.parameters["Quorum"] == "answering" {
		return "", nil
	}
	const advice = "store three: of one or two each must answer, or no payment is confirmed (docs/deploy.md)"
	const nodes = `'{"urls":["https://…","https://…","https://…"]}'`
	secret, urls, err := f.urls(ctx)
	if secret == "" {
		return "", warning("the stack has no list of them that can be read; after the deployment " + advice)
	}
	store := fmt.Sprintf("aws secretsmanager put-secret-value%s --secret-id %s --secret-string %s\n", f.here(), secret, nodes)
	switch {
	case err != nil:
		return store, warning("their list cannot be read, or has no value yet; " + advice)
	case len(urls) < 3:
		return store, warning(fmt.Sprintf("there are %d; %s", len(urls), advice))
	}
	return "", nil
}

// urls returns the secret with the list of nodes, "" if the stack has none, and the list.
func (f *flight) urls(ctx context.Context) (secret string, urls []string, err error) {
	if secret = f.parameters["ExistingRpcSecret"]; secret == "" {
		of := &cloudformation.DescribeStackResourceInput{StackName: &f.stack, LogicalResourceId: aws.String("RpcSecret")}
		found, err := cloudformation.NewFromConfig(f.aws).DescribeStackResource(ctx, of)
		if err != nil {
			return "", nil, err
		}
		secret = aws.ToString(found.StackResourceDetail.PhysicalResourceId)
	}
	value, err := secretsmanager.NewFromConfig(f.aws).GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &secret})
	if err != nil {
		return secret, nil, err
	}
	var list struct {
		URLs []string `json:"urls"`
	}
	_ = json.Unmarshal([]byte(aws.ToString(value.SecretString)), &list) // an error quotes the secret
	return secret, list.URLs, nil
}

// memo warns of a token that refuses payments' ids, and so every payment until Memo is off. It tries
// that where the token pays gas: such a token may be part of the chain, and stricter than Solidity.
func (f *flight) memo(ctx context.Context) (string, error) {
	config, err := chains.Read(f.parameters)
	if !config.Gas.InToken || f.memoOff || err != nil {
		return "", err
	}
	d := deployed.Deployment{ChainID: config.ChainID, Asset: config.Token, Config: config}
	_, urls, err := f.urls(ctx)
	nodes, unopened := d.Open(urls)
	tried := false
	if err = cmp.Or(err, unopened); len(nodes) > 0 {
		tried, err = d.TakesMemo(ctx, nodes)
	}
	switch {
	case !tried:
		return "", warning(fmt.Sprintf("not tried (%v); run remit doctor --stack %s before the first payment", err, f.stack))
	case err != nil:
		return fmt.Sprintf("AWS_REGION=%s remit settings set Memo=off --stack %s\n", f.aws.Region, f.stack),
			warning(err.Error() + "; after the deployment, before the first payment:")
	}
	return "", nil
}

func (f *flight) here() string { return " --region " + f.aws.Region }
