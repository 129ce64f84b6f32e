package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"

	"remit/internal/dynamo"
	"remit/internal/settings"
)

// settings finds a live stack without stored settings, whose payments the functions of
// this template would refuse. A first deployment has no tables to look into.
func (f *flight) settings(ctx context.Context) (string, error) {
	if f.parameters["Mode"] != "live" {
		return "", nil
	}
	found, err := cloudformation.NewFromConfig(f.aws).DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &f.stack})
	if api, ok := errors.AsType[smithy.APIError](err); ok && api.ErrorCode() == "ValidationError" {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	tables := map[string]string{}
	for _, s := range found.Stacks {
		for _, o := range s.Outputs {
			tables[aws.ToString(o.OutputKey)] = aws.ToString(o.OutputValue)
		}
	}
	if tables["PaymentsTableName"] == "" || tables["ApiKeysTableName"] == "" {
		return "", nil
	}
	db := dynamodb.NewFromConfig(f.aws)
	rules, err := dynamo.NewPayments(db, cmp.Or(f.parameters["ExistingPaymentsTable"], tables["PaymentsTableName"])).Rules(ctx)
	if err = cmp.Or(err, rules.Unusable); err == nil {
		_, err = dynamo.NewAPIKeys(db, cmp.Or(f.parameters["ExistingApiKeysTable"], tables["ApiKeysTableName"])).KeySettings(ctx)
	}
	if errors.Is(err, settings.ErrMissing) {
		return fmt.Sprintf("AWS_REGION=%s remit settings import --stack %s\n", f.aws.Region, f.stack),
			errors.New("limits and rules are in the tables from this version on, and none are stored there: every payment would be refused")
	}
	return "", err
}
