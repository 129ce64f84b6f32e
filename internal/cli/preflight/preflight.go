// Package preflight finds problems that would fail a deployment halfway: a missing log role,
// too small a quota, topics without a policy. It only reads, and prints the commands that fix
// each finding.
package preflight

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/apigateway"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
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
		{"treasury allowance", f.allowance},
		{"log role of API Gateway", f.logRole},
		{"concurrency", f.concurrency},
		{"alarm topic", func(ctx context.Context) (string, error) { return f.topic(ctx, f.parameters["AlarmTopicArn"]) }},
		{"urgent alarm topic", func(ctx context.Context) (string, error) { return f.topic(ctx, f.parameters["UrgentTopicArn"]) }},
		{"KMS key", f.key},
		{"settings", f.settings},
		{"grants of wallets' keys", f.grants},
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
		fmt.Fprintf(out, "%s %s: %v\n%s", word, check.name, err, indented(commands))
	}
	if f.bad > 0 {
		return fmt.Errorf("%w (%d of %d checks)", ErrNotReady, f.bad, len(checks))
	}
	return nil
}

// A warning is a finding that preflight cannot judge, or that can be fixed afterwards.
type warning string

func (w warning) Error() string { return string(w) }

func indented(commands string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimSpace(commands)) {
		b.WriteString("     " + line)
	}
	if b.Len() > 0 {
		b.WriteString("\n")
	}
	return b.String()
}

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

func (f *flight) here() string { return " --region " + f.aws.Region }
