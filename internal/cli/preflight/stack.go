package preflight

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	dynamotypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/smithy-go"

	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
)

// edit is the command that gives a parameter another value where make preflight reads it.
// The new one may be what a command prints.
func edit(name, was, is string) string {
	return fmt.Sprintf("sed -i \"s|%s=%s|%[1]s=%[3]s|\" samconfig.toml\n", name, was, is)
}

// region finds resources of another region, which the stack could not use.
func (f *flight) region(context.Context) (commands string, err error) {
	for _, name := range []string{"AlarmTopicArn", "UrgentTopicArn", "KmsKeyArn", "CertificateArn"} {
		was := f.parameters[name]
		at, notOne := arn.Parse(was)
		if notOne != nil || at.Region == f.aws.Region {
			continue
		}
		err = errors.Join(err, fmt.Errorf("%s is in %s; name one in %s, or deploy to %[2]s (--region)", name, at.Region, f.aws.Region))
		switch name {
		case "KmsKeyArn":
			commands += edit(name, was, "$("+f.newKey(f.logs())+")")
		case "CertificateArn":
			commands += edit(name, was, fmt.Sprintf("$(aws acm request-certificate%s --domain-name %s --validation-method DNS --query "+
				"CertificateArn --output text)", f.here(), f.parameters["DomainName"]))
		default:
			at.Region = f.aws.Region
			commands += f.newTopic(at.String()) + edit(name, was, at.String())
		}
	}
	if f.parameters["ReplicaRegion"] == f.aws.Region {
		other := map[bool]string{true: "us-west-2", false: "us-east-1"}[f.aws.Region == "us-east-1"]
		commands += edit("ReplicaRegion", f.aws.Region, other)
		err = errors.Join(err, errors.New("ReplicaRegion is the stack's own region; name another"))
	}
	return commands, err
}

// deployed returns the stack, nil if there is none.
func (f *flight) deployed(ctx context.Context) (*types.Stack, error) {
	found, err := cloudformation.NewFromConfig(f.aws).DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &f.stack})
	if isAbsent(err) {
		return nil, nil //nolint:nilnil // there is none yet
	}
	if err != nil || len(found.Stacks) == 0 {
		return nil, err
	}
	return &found.Stacks[0], nil
}

// resources lists the stack's, none if there is no stack.
func (f *flight) resources(ctx context.Context) ([]deployed.Resource, error) {
	all, err := (&deployed.Account{Stack: f.stack, AWS: f.aws}).Resources(ctx)
	if isAbsent(err) {
		return nil, nil
	}
	return all, err
}

// isAbsent reports an error of CloudFormation because there is no such stack.
func isAbsent(err error) bool {
	api, ok := errors.AsType[smithy.APIError](err)
	return ok && api.ErrorCode() == "ValidationError"
}

// stackIsWhole finds a stack that cannot be updated: its first deployment failed, an update
// is stuck, or one is under way.
func (f *flight) stackIsWhole(ctx context.Context) (string, error) {
	s, err := f.deployed(ctx)
	if err != nil || s == nil {
		return "", err
	}
	do := func(what string) string {
		return fmt.Sprintf("aws cloudformation %s%s --stack-name %s\n", what, f.here(), f.stack)
	}
	stuck := fmt.Errorf("the last change of %s is stuck (%s)", f.stack, s.StackStatus)
	switch s.StackStatus {
	case types.StackStatusReviewInProgress: // nobody has agreed to the first change set: sam makes another
		return "", nil
	case types.StackStatusRollbackComplete, types.StackStatusRollbackFailed, types.StackStatusCreateFailed, types.StackStatusDeleteFailed:
		tables, kept, err := f.remains(ctx)
		if err != nil {
			return "", err
		}
		err = fmt.Errorf("only remains of %s are there (%s)", f.stack, s.StackStatus)
		if kept != "" {
			err = fmt.Errorf("%w; %s has items and stays: name it in the parameter Existing…Table of its kind "+
				"(docs/disasters.md#a-deleted-stack)", err, kept)
		}
		return tables + do("delete-stack") + do("wait stack-delete-complete"), err
	case types.StackStatusUpdateRollbackFailed:
		return do("continue-update-rollback") + do("wait stack-rollback-complete"), stuck
	case types.StackStatusUpdateFailed:
		return do("rollback-stack") + do("wait stack-rollback-complete"), stuck
	}
	status, underWay := strings.CutSuffix(string(s.StackStatus), "_IN_PROGRESS")
	if !underWay {
		return "", nil
	}
	wait := map[string]string{"DELETE": "delete", "UPDATE": "update", "UPDATE_COMPLETE_CLEANUP": "update", "UPDATE_ROLLBACK": "rollback",
		"UPDATE_ROLLBACK_COMPLETE_CLEANUP": "rollback"}[status]
	if wait == "" {
		wait = "create" // it fails when the creation is rolled back, which ends the wait too
	}
	return do("wait stack-" + wait + "-complete"), fmt.Errorf("%s is being changed (%s); wait until that has ended", f.stack, s.StackStatus)
}

// leftVersions warns of versions that an update has left when it was rolled back: CloudFormation keeps them, and Lambda makes
// no other of the same code and configuration (https://docs.aws.amazon.com/lambda/latest/dg/configuration-versions.html), so
// that the same deployment once more would fail.
func (f *flight) leftVersions(ctx context.Context) (commands string, err error) {
	s, err := f.deployed(ctx)
	if err != nil || s == nil || s.StackStatus != types.StackStatusUpdateRollbackComplete {
		return "", err
	}
	resources, err := f.resources(ctx)
	own := map[string]int{} // the template's versions, by function: after remit rollback, the alias is at an earlier one
	for _, r := range resources {
		if at := strings.LastIndex(r.Name, ":"); r.Kind == "AWS::Lambda::Version" && at > 0 {
			n, _ := strconv.Atoi(r.Name[at+1:])
			own[r.Name[strings.LastIndex(r.Name[:at], ":")+1:at]] = n
		}
	}
	functions := lambda.NewFromConfig(f.aws)
	for _, r := range resources {
		if r.Kind != "AWS::Lambda::Function" {
			continue
		}
		live, err := functions.GetAlias(ctx, &lambda.GetAliasInput{FunctionName: &r.Name, Name: aws.String("live")})
		if err != nil {
			return "", warning(fmt.Sprintf("the alias of %s cannot be read: %v", r.Name, err))
		}
		used, _ := strconv.Atoi(aws.ToString(live.FunctionVersion)) // 0 of $LATEST
		all := &lambda.ListVersionsByFunctionInput{FunctionName: &r.Name}
		for pages := lambda.NewListVersionsByFunctionPaginator(functions, all); pages.HasMorePages(); {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return "", warning(fmt.Sprintf("the versions of %s cannot be listed: %v", r.Name, err))
			}
			for _, v := range page.Versions {
				if n, _ := strconv.Atoi(aws.ToString(v.Version)); n > max(used, own[r.Name]) {
					commands += fmt.Sprintf("aws lambda delete-function%s --function-name %s --qualifier %d\n", f.here(), r.Name, n)
				}
			}
		}
	}
	if commands != "" {
		return commands, warning("an update was rolled back and has left versions; delete them before you deploy the same once more")
	}
	return "", err
}

// remains returns the commands that remove the empty tables of a failed deployment, which may be
// protected from deletion, and names the tables that have items.
func (f *flight) remains(ctx context.Context) (commands, kept string, err error) {
	db := dynamodb.NewFromConfig(f.aws)
	resources, err := f.resources(ctx)
	for _, r := range resources {
		if r.Kind != "AWS::DynamoDB::Table" || r.Name == "" || r.Status == string(types.ResourceStatusDeleteComplete) {
			continue
		}
		pages := dynamodb.NewScanPaginator(db, &dynamodb.ScanInput{TableName: &r.Name, Limit: aws.Int32(1), ConsistentRead: aws.Bool(true)})
		items, err := pages.NextPage(ctx)
		for err == nil && len(items.Items) == 0 && pages.HasMorePages() { // a page may be empty before the last
			items, err = pages.NextPage(ctx)
		}
		if _, gone := errors.AsType[*dynamotypes.ResourceNotFoundException](err); gone {
			continue
		}
		if err != nil {
			return "", "", fmt.Errorf("looking whether table %s is empty: %w", r.Name, err)
		}
		if len(items.Items) > 0 {
			kept = strings.TrimPrefix(kept+", "+r.Name, ", ")
			continue
		}
		for _, do := range []string{"update-table --no-deletion-protection-enabled", "wait table-exists", "delete-table",
			"wait table-not-exists"} {
			commands += fmt.Sprintf("aws dynamodb %s%s --table-name %s\n", do, f.here(), r.Name)
		}
	}
	return commands, kept, err
}
