package preflight

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	snstypes "github.com/aws/aws-sdk-go-v2/service/sns/types"
)

// publishers are the services that publish alarms, with the part of their ARNs that names them.
func (f *flight) publishers() []caller {
	of := func(service, kind string) caller {
		return f.caller(service+".amazonaws.com", "aws:sourcearn",
			fmt.Sprintf("arn:%s:%s:%s:%s:%s%s-*", f.partition, service, f.aws.Region, f.account, kind, f.stack))
	}
	return []caller{of("cloudwatch", "alarm:"), of("events", "rule/")}
}

// logs is CloudWatch Logs, which encrypts the stack's log groups.
func (f *flight) logs() []caller {
	group := fmt.Sprintf("arn:%s:logs:%s:%s:log-group:%s-*", f.partition, f.aws.Region, f.account, f.stack)
	return []caller{f.caller("logs."+f.aws.Region+".amazonaws.com", "kms:encryptioncontext:aws:logs:arn", group)}
}

func (f *flight) caller(service, key, value string) caller {
	return caller{service, f.account, f.stack, "", map[string]string{
		"aws:sourceaccount": f.account, "aws:sourceowner": f.account, "kms:calleraccount": f.account, "aws:securetransport": "true", key: value,
	}}
}

// admits judges the rights of callers. It returns the callers that lack a right, what is unclear,
// and p without the statements that deny it.
func (p policy) admits(callers []caller, resource string, actions ...string) (lacking []string, unclears string, mended policy) {
	mended = policy(maps.Clone(p))
	for _, c := range callers {
		c.resource = resource
		worst := yes
		for _, action := range actions {
			v, why := p.judge(c, action)
			if worst = min(worst, v); v == unclear {
				unclears = fmt.Sprintf("%s: check that it lets %s do %s", why, c.service, action)
			}
		}
		if worst == no {
			lacking = append(lacking, c.service)
			mended = mended.undenied(c, actions)
		}
	}
	return lacking, unclears, mended
}

// newTopic returns the commands that make a topic to which alarms may be published.
func (f *flight) newTopic(topic string) string {
	p := policy{"Version": "2012-10-17"}
	for _, c := range f.publishers() {
		f.letPublish(p, c.service, topic)
	}
	return fmt.Sprintf("aws sns create-topic%s --name %s\n%saws sns subscribe%[1]s --topic-arn %[4]s --protocol email "+
		"--notification-endpoint you@example.com\n",
		f.here(), topic[strings.LastIndex(topic, ":")+1:], f.setPolicy(topic, p), topic)
}

func (f *flight) letPublish(p policy, service, topic string) {
	p.add(map[string]any{"Sid": strings.ReplaceAll(service, ".", ""), "Effect": "Allow", "Principal": map[string]any{"Service": service},
		"Action": "sns:Publish", "Resource": topic, "Condition": map[string]any{"StringEquals": map[string]any{"aws:SourceAccount": f.account}}})
}

func (f *flight) setPolicy(topic string, p policy) string {
	return fmt.Sprintf("aws sns set-topic-attributes%s --topic-arn %s --attribute-name Policy --attribute-value '%s'\n", f.here(), topic, p)
}

// topic checks that CloudWatch and EventBridge may publish to a topic of alarms. Without
// that its alarms end silently.
func (f *flight) topic(ctx context.Context, topic string) (string, error) {
	if at, err := arn.Parse(topic); topic == "" || err == nil && at.Region != f.aws.Region {
		return "", nil // none, or region's finding
	}
	found, err := sns.NewFromConfig(f.aws).GetTopicAttributes(ctx, &sns.GetTopicAttributesInput{TopicArn: &topic})
	if _, missing := errors.AsType[*snstypes.NotFoundException](err); missing {
		return f.newTopic(topic), errors.New("there is no such topic")
	}
	if err != nil {
		return "", err
	}
	p, err := parsePolicy(found.Attributes["Policy"])
	if err != nil {
		return "", err
	}
	lacks, unclears, mended := p.admits(f.publishers(), topic, "sns:Publish")
	for _, service := range lacks {
		f.letPublish(mended, service, topic)
	}
	commands, bad := "", error(nil)
	if len(lacks) > 0 {
		commands, bad = f.setPolicy(topic, mended), fmt.Errorf("%s may not publish to it", strings.Join(lacks, " and "))
	}
	if key := found.Attributes["KmsMasterKeyId"]; key != "" {
		more, err := f.keyAllows(ctx, key, f.publishers(), func(key string) string {
			return fmt.Sprintf("aws sns set-topic-attributes%s --topic-arn %s --attribute-name KmsMasterKeyId --attribute-value \"%s\"\n",
				f.here(), topic, key)
		}, "kms:Decrypt", "kms:GenerateDataKey")
		if commands += more; bad == nil || err != nil {
			bad = errors.Join(bad, err)
		}
	}
	if bad == nil && unclears != "" {
		bad = warning("its policy's " + unclears)
	}
	return commands, bad
}

// key checks the customer's key, with which logs are encrypted too. The rights of functions
// are in their roles, so the key must leave them to IAM.
func (f *flight) key(ctx context.Context) (string, error) {
	key := f.parameters["KmsKeyArn"]
	if at, err := arn.Parse(key); key == "" || err == nil && at.Region != f.aws.Region {
		return "", nil
	}
	return f.keyAllows(ctx, key, append(f.logs(), f.caller("", "", "")), func(is string) string { return edit("KmsKeyArn", key, is) },
		"kms:Encrypt", "kms:Decrypt", "kms:GenerateDataKey", "kms:DescribeKey")
}

// keyAllows checks that a key is enabled and lets callers use it. use is the command that
// takes another key in its place.
func (f *flight) keyAllows(ctx context.Context, key string, callers []caller, use func(key string) string, actions ...string) (string,
	error) {
	client := kms.NewFromConfig(f.aws)
	found, err := client.DescribeKey(ctx, &kms.DescribeKeyInput{KeyId: &key})
	if _, missing := errors.AsType[*kmstypes.NotFoundException](err); missing {
		return use("$(" + f.newKey(callers) + ")"), fmt.Errorf("there is no key %s", key)
	}
	if err != nil {
		return "", err
	}
	is, id := found.KeyMetadata, aws.ToString(found.KeyMetadata.KeyId)
	do := func(what string) string { return fmt.Sprintf("aws kms %s%s --key-id %s\n", what, f.here(), id) }
	switch {
	case is.KeyManager == kmstypes.KeyManagerTypeAws:
		return use("$(" + f.newKey(callers) + ")"), fmt.Errorf("%s is managed by AWS, and its policy cannot be changed; use a key of your own",
			key)
	case is.KeySpec != kmstypes.KeySpecSymmetricDefault:
		return use("$(" + f.newKey(callers) + ")"), fmt.Errorf("%s is not a symmetric key; use another", key)
	case is.KeyState == kmstypes.KeyStatePendingDeletion:
		return do("cancel-key-deletion") + do("enable-key"), fmt.Errorf("%s is about to be deleted", key)
	case !is.Enabled:
		return do("enable-key"), fmt.Errorf("%s is disabled", key)
	}
	text, err := client.GetKeyPolicy(ctx, &kms.GetKeyPolicyInput{KeyId: &id, PolicyName: aws.String("default")})
	if err != nil {
		return "", err
	}
	p, err := parsePolicy(aws.ToString(text.Policy))
	if err != nil {
		return "", err
	}
	lacking, unclears, mended := p.admits(callers, aws.ToString(is.Arn), actions...)
	if len(lacking) > 0 {
		f.letUse(mended, lacking)
		return fmt.Sprintf("aws kms put-key-policy%s --key-id %s --policy-name default --policy '%s'\n", f.here(), id, mended),
			fmt.Errorf("its policy does not let %s use it", strings.Join(named(lacking), " and "))
	}
	if unclears != "" {
		return "", warning("the key policy's " + unclears)
	}
	return "", nil
}

// newKey is the command that makes a key for callers and prints its ARN.
func (f *flight) newKey(callers []caller) string {
	p, services := policy{"Version": "2012-10-17"}, []string{""}
	for _, c := range callers {
		services = append(services, c.service)
	}
	slices.Sort(services)
	f.letUse(p, slices.Compact(services))
	return fmt.Sprintf("aws kms create-key%s --policy '%s' --query KeyMetadata.Arn --output text", f.here(), p)
}

// letUse adds statements for services; "" leaves the account's rights to IAM.
func (f *flight) letUse(p policy, services []string) {
	if i := slices.Index(services, ""); i >= 0 {
		p.add(map[string]any{"Sid": "iam", "Effect": "Allow",
			"Principal": map[string]any{"AWS": fmt.Sprintf("arn:%s:iam::%s:root", f.partition, f.account)}, "Action": "kms:*", "Resource": "*"})
		services = slices.Delete(slices.Clone(services), i, i+1)
	}
	if len(services) > 0 {
		p.add(map[string]any{"Sid": "services", "Effect": "Allow", "Principal": map[string]any{"Service": services}, "Resource": "*",
			"Action": []string{"kms:Encrypt*", "kms:Decrypt*", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:Describe*"}})
	}
}

// named returns services with a name for the account's roles.
func named(services []string) []string {
	all := slices.Clone(services)
	if i := slices.Index(all, ""); i >= 0 {
		all[i] = "roles of this account (its policy does not leave rights to IAM)"
	}
	return all
}
