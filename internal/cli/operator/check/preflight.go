package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/apigateway"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"gopkg.in/yaml.v3"

	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
)

func (e *examination) command(format string, args ...any) string {
	return "aws " + fmt.Sprintf(format, args...) + " --region " + e.Account.AWS.Region + "\n"
}

func (e *examination) inRegion(context.Context) (_ string, err error) {
	here := e.Account.AWS.Region
	for _, name := range []string{"AlarmTopicArn", "UrgentTopicArn", "KmsKeyArn", "CertificateArn"} {
		if at, unset := arn.Parse(e.refs[name]); unset == nil && at.Region != here {
			err = errors.Join(err, fmt.Errorf("%s is in %s; name one in %s, or deploy to %[2]s", name, at.Region, here))
		}
	}
	if e.refs["ReplicaRegion"] == here {
		err = errors.Join(err, errors.New("ReplicaRegion is the stack's own region; name another"))
	}
	return here, err
}

// LongestName is the most characters of a stack's name: CloudFormation cuts longer names in CodeDeploy's rights.
const LongestName = 19

// isWhole finds a stack that cannot be updated: its first deployment failed, an update is stuck, or one is under way.
func (e *examination) isWhole(ctx context.Context) (string, error) {
	failed, verb := fmt.Errorf("the last change of %s failed (%s)", e.Stack, e.now.Status), "delete-stack"
	switch status := types.StackStatus(e.now.Status); status {
	case types.StackStatusRollbackComplete, types.StackStatusRollbackFailed, types.StackStatusCreateFailed,
		types.StackStatusDeleteFailed:
		resources, err := e.now.Resources(ctx)
		if err != nil {
			return "", err
		}
		for _, r := range resources {
			if *r.ResourceType == "AWS::DynamoDB::Table" && r.ResourceStatus != types.ResourceStatusDeleteComplete {
				failed = fmt.Errorf("%w; table %s stays: if it has items name it in Existing…Table, or "+
					"used Idempotency-Keys are paid again (docs/disasters.md#a-deleted-stack)", failed,
					aws.ToString(r.PhysicalResourceId))
			}
		}
	case types.StackStatusUpdateRollbackFailed:
		verb = "continue-update-rollback"
	case types.StackStatusUpdateFailed:
		verb = "rollback-stack"
	default:
		if strings.HasSuffix(string(status), "_IN_PROGRESS") && status != types.StackStatusReviewInProgress {
			return "", fmt.Errorf("%s is being changed (%s); wait until that has ended", e.Stack, status)
		}
		if status == "" && len(e.Stack) > LongestName {
			return "", fmt.Errorf("the stack's name has %d characters, and CloudFormation would cut the names of its "+
				"functions and roles; choose one of at most %d", len(e.Stack), LongestName)
		}
		return cmp.Or(strings.TrimSpace(e.now.Status+" "+e.now.About), "a first deployment"), nil
	}
	return "", fixed(e.command("cloudformation %s --stack-name %s", verb, e.Stack), "%w", failed)
}

// changes lists the parameters that the deployment changes, and those that keep a value other than the default.
func (e *examination) changes(context.Context) (string, error) {
	all := maps.Clone(e.now.Parameters)
	maps.Copy(all, e.refs)
	var lines []string
	delete(all, "Release") // follows from the others, and from the build
	for _, name := range slices.Sorted(maps.Keys(all)) {
		was, deployed := e.now.Parameters[name]
		p, declared := e.Parameters[name]
		switch is := e.refs[name]; {
		case !deployed:
		case !declared:
			lines = append(lines, fmt.Sprintf("%s: %s → none", name, was))
		case was != is:
			lines = append(lines, fmt.Sprintf("%s: %s → %s", name, was, is))
		case was != p.Default && !e.set[name]:
			lines = append(lines, fmt.Sprintf("%s: keeps %s, its default is %q", name, was, p.Default))
		}
	}
	return cmp.Or(strings.Join(lines, "\n"), "none changes"), nil
}

// logRole finds an account and region without API Gateway's role for access logs: no stage that has them can be made.
func (e *examination) logRole(ctx context.Context) (string, error) {
	found, err := apigateway.NewFromConfig(e.Account.AWS).GetAccount(ctx, nil)
	if err != nil || aws.ToString(found.CloudwatchRoleArn) != "" {
		return "there is one", err
	}
	return "", fixed(e.command("iam create-role --role-name apigateway-logs --assume-role-policy-document '%s'",
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"sts:AssumeRole",`+
			`"Principal":{"Service":"apigateway.amazonaws.com"}}]}`)+
		e.command("iam attach-role-policy --role-name apigateway-logs --policy-arn "+
			"arn:%s:iam::aws:policy/service-role/AmazonAPIGatewayPushToCloudWatchLogs", e.who.Partition)+
		e.command("apigateway update-account --patch-operations op=replace,path=/cloudwatchRoleArn,value="+
			"arn:%s:iam::%s:role/apigateway-logs", e.who.Partition, e.who.AccountID),
		"API Gateway has no role to write logs with in this account and region")
}

// unreserved is kept back by Lambda (https://docs.aws.amazon.com/lambda/latest/dg/configuration-concurrency.html).
const unreserved = 100

func (e *examination) quotaSuffices(ctx context.Context) (string, error) {
	wanted, own := e.reserved(e.refs["Size"]), 0
	if wanted == 0 {
		return "none is reserved", nil
	}
	if len(e.now.Outputs) > 0 { // its first deployment did not fail
		own = e.reserved(e.now.Parameters["Size"])
	}
	found, err := lambda.NewFromConfig(e.Account.AWS).GetAccountSettings(ctx, nil)
	if err != nil {
		return "", err
	}
	quota := int(found.AccountLimit.ConcurrentExecutions)
	free := int(aws.ToInt32(found.AccountLimit.UnreservedConcurrentExecutions)) + own - unreserved
	result := fmt.Sprintf("the stack reserves %d executions, and the account has %d to reserve of its quota of %d",
		wanted, max(free, 0), quota)
	if free >= wanted {
		return result, nil
	}
	return "", fixed(e.command("service-quotas request-service-quota-increase --service-code lambda --quota-code "+
		"L-B99A9384 --desired-value %d", max(quota+wanted-free, 1000)), "%s (AWS raises it within days)", result)
}

func (e *examination) topicsExist(ctx context.Context) (string, error) {
	topics := strings.Fields(e.refs["AlarmTopicArn"] + " " + e.refs["UrgentTopicArn"])
	for _, topic := range topics {
		found, err := sns.NewFromConfig(e.Account.AWS).GetTopicAttributes(ctx,
			&sns.GetTopicAttributesInput{TopicArn: &topic})
		if err != nil {
			return "", fmt.Errorf("looking for %s: %w", topic, err)
		}
		if !strings.Contains(found.Attributes["Policy"], "events.amazonaws.com") {
			return "", problem{fmt.Errorf("EventBridge may not publish to %s that a key was read", topic), "", true}
		}
	}
	return cmp.Or(strings.Join(topics, ", "), "none"), nil
}

// keyWorks finds a customer's key that encrypts nothing. CloudFormation reports one that CloudWatch Logs may not use.
func (e *examination) keyWorks(ctx context.Context) (string, error) {
	key := e.refs["KmsKeyArn"]
	if key == "" {
		return "none", nil
	}
	found, err := kms.NewFromConfig(e.Account.AWS).DescribeKey(ctx, &kms.DescribeKeyInput{KeyId: &key})
	if err != nil {
		return "", fmt.Errorf("looking for %s: %w", key, err)
	}
	switch is := found.KeyMetadata; {
	case is.KeyManager == kmstypes.KeyManagerTypeAws, is.KeySpec != kmstypes.KeySpecSymmetricDefault:
		return "", fixed("name a symmetric key of your own", "%s is a key of %s (%s)", key, is.KeyManager, is.KeySpec)
	case !is.Enabled:
		return "", fmt.Errorf("%s is %s", key, is.KeyState)
	}
	return key, nil
}

type template struct {
	Parameters map[string]struct {
		Default string `yaml:"Default"`
	} `yaml:"Parameters"`
	Mappings map[string]map[string]map[string]any `yaml:"Mappings"`
	refs     map[string]string                    // values of parameters
	set      map[string]bool                      // the parameters named on the command line
}

// readTemplate reads a template. An unset parameter keeps its deployed value, as with sam deploy, or has its default.
func readTemplate(path string, now *deployed.Account, set []string) (t template, err error) {
	text, err := os.ReadFile(path)
	if err = cmp.Or(err, yaml.Unmarshal(text, &t)); err != nil {
		return t, fmt.Errorf("reading %s: %w", path, err)
	}
	t.refs, t.set = map[string]string{}, map[string]bool{}
	for name, p := range t.Parameters {
		was, deployed := now.Parameters[name]
		if t.refs[name] = was; !deployed {
			t.refs[name] = p.Default
		}
	}
	for _, pair := range set {
		name, value, _ := strings.Cut(pair, "=")
		if _, known := t.Parameters[name]; !known {
			return t, fmt.Errorf("%s has no parameter %q: check its spelling, and samconfig.toml", path, name)
		}
		t.refs[name], t.set[name] = strings.Trim(value, `"`), true
	}
	return t, nil
}

func (t template) reserved(size string) int {
	n, _ := t.Mappings["Concurrency"][size]["All"].(int)
	return n
}
