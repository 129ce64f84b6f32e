// Package preflight finds out before a deployment what CloudFormation would find
// out halfway through it: a missing log role, too small a quota, policies that let
// nobody publish. It only reads, and prints the commands that mend each finding.
package preflight

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/apigateway"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudtrail"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
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
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return fmt.Errorf("loading the AWS configuration: %w", err)
	}
	who, err := sts.NewFromConfig(cfg).GetCallerIdentity(ctx, nil)
	if err != nil {
		return fmt.Errorf("asking AWS who you are (set AWS_PROFILE, or run aws configure): %w", err)
	}
	you, err := arn.Parse(aws.ToString(who.Arn))
	if err != nil {
		return fmt.Errorf("reading your ARN: %w", err)
	}
	f := &flight{template: t, stack: c.Stack, aws: cfg, account: aws.ToString(who.Account), partition: you.Partition, out: out}
	fmt.Fprintf(out, "deploying %s to account %s, region %s, as %s\n", c.Stack, f.account, cfg.Region, you.Resource)
	for _, check := range []struct {
		name string
		look func(context.Context) (commands string, err error)
	}{
		{"region", f.region},
		{"stack", f.stackIsWhole},
		{"log role of API Gateway", f.logRole},
		{"concurrency", f.concurrency},
		{"alarm topic", func(ctx context.Context) (string, error) { return f.topic(ctx, f.parameters["AlarmTopicArn"]) }},
		{"urgent alarm topic", func(ctx context.Context) (string, error) { return f.topic(ctx, f.parameters["UrgentTopicArn"]) }},
		{"CloudTrail", f.trail},
		{"KMS key", f.key},
		{"settings", f.settings},
		{"grants of wallets' keys", f.grants},
	} {
		commands, err := check.look(ctx)
		if err == nil {
			fmt.Fprintf(out, "ok   %s\n", check.name)
			continue
		}
		f.bad++
		fmt.Fprintf(out, "BAD  %s: %v\n%s", check.name, err, indented(commands))
	}
	if warning := f.nodes(ctx); warning != "" {
		fmt.Fprintf(out, "WARN nodes: %s\n", warning)
	}
	if f.bad > 0 {
		return fmt.Errorf("%w (%d of 10 checks)", ErrNotReady, f.bad)
	}
	return nil
}

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

// region finds resources of another region, which the stack could not use.
func (f *flight) region(context.Context) (string, error) {
	for _, name := range []string{"AlarmTopicArn", "UrgentTopicArn", "KmsKeyArn", "CertificateArn"} {
		if at, err := arn.Parse(f.parameters[name]); err == nil && at.Region != f.aws.Region {
			return "", fmt.Errorf("%s is in %s; name one in %s, or deploy to %[2]s (--region)", name, at.Region, f.aws.Region)
		}
	}
	if f.parameters["ReplicaRegion"] == f.aws.Region {
		return "", errors.New("ReplicaRegion is the stack's own region; name another")
	}
	return "", nil
}

// stackIsWhole finds what a failed first deployment left: it cannot be updated.
func (f *flight) stackIsWhole(ctx context.Context) (string, error) {
	found, err := cloudformation.NewFromConfig(f.aws).DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &f.stack})
	if api, ok := errors.AsType[smithy.APIError](err); ok && api.ErrorCode() == "ValidationError" {
		return "", nil // there is none yet
	}
	if err != nil {
		return "", err
	}
	for _, s := range found.Stacks {
		if s.StackStatus == types.StackStatusRollbackComplete || s.StackStatus == types.StackStatusRollbackFailed {
			return "aws cloudformation delete-stack --stack-name " + f.stack + f.here(),
				fmt.Errorf("the first deployment of %s failed, and only its remains are there", f.stack)
		}
		if strings.HasSuffix(string(s.StackStatus), "_IN_PROGRESS") {
			return "", fmt.Errorf("%s is being changed (%s); wait until that has ended", f.stack, s.StackStatus)
		}
	}
	return "", nil
}

// logRole looks for the role by which API Gateway writes access logs. It belongs to the
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
	return fmt.Sprintf("aws service-quotas request-service-quota-increase%s --service-code lambda --quota-code L-B99A9384 --desired-value %d\n",
			f.here(), max(quota+wanted-free, 1000)), fmt.Errorf("the stack reserves %d concurrent executions, and the account has %d to reserve "+
			"(its quota is %d; AWS answers within days)", wanted, max(free, 0), quota)
}

// reservedAlready sums what the functions of the stack have reserved.
func (f *flight) reservedAlready(ctx context.Context) (sum int, err error) {
	functions := lambda.NewFromConfig(f.aws)
	pages := cloudformation.NewListStackResourcesPaginator(cloudformation.NewFromConfig(f.aws), &cloudformation.ListStackResourcesInput{StackName: &f.stack})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if api, ok := errors.AsType[smithy.APIError](err); ok && api.ErrorCode() == "ValidationError" {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		for _, r := range page.StackResourceSummaries {
			if aws.ToString(r.ResourceType) != "AWS::Lambda::Function" {
				continue
			}
			has, err := functions.GetFunctionConcurrency(ctx, &lambda.GetFunctionConcurrencyInput{FunctionName: r.PhysicalResourceId})
			if err != nil {
				return 0, err
			}
			sum += int(aws.ToInt32(has.ReservedConcurrentExecutions))
		}
	}
	return sum, nil
}

// topic checks that CloudWatch and EventBridge may publish to a topic of alarms. Without
// that its alarms end silently.
func (f *flight) topic(ctx context.Context, topic string) (string, error) {
	if topic == "" {
		return "", nil
	}
	found, err := sns.NewFromConfig(f.aws).GetTopicAttributes(ctx, &sns.GetTopicAttributesInput{TopicArn: &topic})
	if err != nil {
		name := topic[strings.LastIndex(topic, ":")+1:]
		return fmt.Sprintf("aws sns create-topic%s --name %s\naws sns subscribe%[1]s --topic-arn %s --protocol email --notification-endpoint you@example.com\n",
			f.here(), name, topic), err
	}
	p, err := parsePolicy(found.Attributes["Policy"])
	if err != nil {
		return "", err
	}
	var lacks []string
	for _, service := range []string{"cloudwatch.amazonaws.com", "events.amazonaws.com"} {
		if !p.allows(service, "sns:Publish") {
			lacks = append(lacks, service)
			p.add(map[string]any{"Sid": strings.ReplaceAll(service, ".", ""), "Effect": "Allow", "Principal": map[string]any{"Service": service},
				"Action": "sns:Publish", "Resource": topic, "Condition": map[string]any{"StringEquals": map[string]any{"aws:SourceAccount": f.account}}})
		}
	}
	if len(lacks) > 0 {
		return fmt.Sprintf("aws sns set-topic-attributes%s --topic-arn %s --attribute-name Policy --attribute-value '%s'\n", f.here(), topic, p),
			fmt.Errorf("%s may not publish to it", strings.Join(lacks, " and "))
	}
	if key := found.Attributes["KmsMasterKeyId"]; key != "" {
		return f.keyAllows(ctx, key, []string{"cloudwatch.amazonaws.com", "events.amazonaws.com"}, "kms:Decrypt", "kms:GenerateDataKey*")
	}
	return "", nil
}

// trail looks for a trail of management events: the alarm of a read signing key is
// told of reads by CloudTrail alone.
func (f *flight) trail(ctx context.Context) (string, error) {
	if f.parameters["AlarmTopicArn"] == "" {
		return "", nil
	}
	client := cloudtrail.NewFromConfig(f.aws)
	found, err := client.DescribeTrails(ctx, nil)
	if err != nil {
		return "", err
	}
	for _, t := range found.TrailList {
		if status, err := client.GetTrailStatus(ctx, &cloudtrail.GetTrailStatusInput{Name: t.TrailARN}); err == nil && aws.ToBool(status.IsLogging) {
			return "", nil
		}
	}
	bucket := fmt.Sprintf("cloudtrail-%s-%s", f.account, f.aws.Region)
	policy := fmt.Sprintf(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"cloudtrail.amazonaws.com"},`+
		`"Action":"s3:GetBucketAcl","Resource":"arn:%s:s3:::%s"},{"Effect":"Allow","Principal":{"Service":"cloudtrail.amazonaws.com"},`+
		`"Action":"s3:PutObject","Resource":"arn:%[1]s:s3:::%[2]s/AWSLogs/%s/*","Condition":{"StringEquals":{"s3:x-amz-acl":"bucket-owner-full-control"}}}]}`,
		f.partition, bucket, f.account)
	return fmt.Sprintf("aws s3 mb s3://%s%s\naws s3api put-bucket-policy%[2]s --bucket %[1]s --policy '%s'\n"+
			"aws cloudtrail create-trail%[2]s --name management --s3-bucket-name %[1]s --is-multi-region-trail\naws cloudtrail start-logging%[2]s --name management\n",
			bucket, f.here(), policy),
		errors.New("no trail logs management events, so nobody is told when a person reads a signing key")
}

// nodes warns of a live stack whose payments end only while every node answers. The list may
// be stored after the deployment, so it stops none.
func (f *flight) nodes(ctx context.Context) string {
	if f.parameters["Mode"] != "live" || f.parameters["Quorum"] == "answering" {
		return ""
	}
	const advice = "store three in the RPC secret: of one or two each must answer, or no payment is confirmed (docs/deploy.md)"
	secret := f.parameters["ExistingRpcSecret"]
	if secret == "" {
		of := &cloudformation.DescribeStackResourceInput{StackName: &f.stack, LogicalResourceId: aws.String("RpcSecret")}
		found, err := cloudformation.NewFromConfig(f.aws).DescribeStackResource(ctx, of)
		if err != nil {
			return "the stack has no list of them that can be read; " + advice
		}
		secret = aws.ToString(found.StackResourceDetail.PhysicalResourceId)
	}
	var list struct {
		URLs []string `json:"urls"`
	}
	value, err := secretsmanager.NewFromConfig(f.aws).GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &secret})
	if err != nil {
		return "their list cannot be read, or has no value yet; " + advice
	}
	_ = json.Unmarshal([]byte(aws.ToString(value.SecretString)), &list) // an error quotes the secret
	if len(list.URLs) >= 3 {
		return ""
	}
	return fmt.Sprintf("there are %d; %s", len(list.URLs), advice)
}

// key checks the customer's key, with which logs are encrypted too.
func (f *flight) key(ctx context.Context) (string, error) {
	key := f.parameters["KmsKeyArn"]
	if key == "" {
		return "", nil
	}
	return f.keyAllows(ctx, key, []string{"logs." + f.aws.Region + ".amazonaws.com"}, "kms:Decrypt", "kms:GenerateDataKey*")
}

// keyAllows checks that a key is enabled, leaves rights to the account's IAM policies,
// and lets services use it.
func (f *flight) keyAllows(ctx context.Context, key string, services []string, actions ...string) (string, error) {
	client := kms.NewFromConfig(f.aws)
	found, err := client.DescribeKey(ctx, &kms.DescribeKeyInput{KeyId: &key})
	if err != nil {
		return "", err
	}
	if !found.KeyMetadata.Enabled || found.KeyMetadata.KeySpec != "SYMMETRIC_DEFAULT" {
		return "", fmt.Errorf("%s is not an enabled symmetric key; name another", key)
	}
	if found.KeyMetadata.KeyManager == "AWS" {
		return "", fmt.Errorf("%s is managed by AWS, and its policy lets %s do nothing; use a key of your own, or none", key, strings.Join(services, " and "))
	}
	text, err := client.GetKeyPolicy(ctx, &kms.GetKeyPolicyInput{KeyId: found.KeyMetadata.KeyId, PolicyName: aws.String("default")})
	if err != nil {
		return "", err
	}
	p, err := parsePolicy(aws.ToString(text.Policy))
	if err != nil {
		return "", err
	}
	lacking := slices.DeleteFunc(slices.Clone(services), func(s string) bool { return p.allows(s, actions...) })
	if len(lacking) == 0 {
		return "", nil
	}
	p.add(map[string]any{"Effect": "Allow", "Principal": map[string]any{"Service": lacking}, "Resource": "*",
		"Action": []string{"kms:Encrypt*", "kms:Decrypt*", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:Describe*"}})
	return fmt.Sprintf("aws kms put-key-policy%s --key-id %s --policy-name default --policy '%s'\n", f.here(), *found.KeyMetadata.KeyId, p),
		fmt.Errorf("its policy does not let %s use it", strings.Join(lacking, " and "))
}

func (f *flight) here() string { return " --region " + f.aws.Region }
