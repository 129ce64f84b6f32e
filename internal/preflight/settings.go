package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/smithy-go"

	"remit/internal/chains"
	"remit/internal/dynamo"
	"remit/internal/settings"
	"remit/internal/store"
)

// settings finds tables by which the functions of this template would refuse payments: those
// of another coin, and a live stack's without settings. A first deployment has none yet.
func (f *flight) settings(ctx context.Context) (string, error) {
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
	if err = cmp.Or(err, f.coin(rules)); err != nil || f.parameters["Mode"] != "live" {
		return "", err
	}
	if err = rules.Unusable; err == nil {
		_, err = dynamo.NewAPIKeys(db, cmp.Or(f.parameters["ExistingApiKeysTable"], tables["ApiKeysTableName"])).KeySettings(ctx)
	}
	if errors.Is(err, settings.ErrMissing) {
		return fmt.Sprintf("AWS_REGION=%s remit settings import --stack %s\n", f.aws.Region, f.stack),
			errors.New("limits and rules are in the tables from this version on, and none are stored there: every payment would be refused")
	}
	return "", err
}

// coin returns why the tables' payments are not of the coin that the parameters name.
func (f *flight) coin(rules store.Rules) error {
	if rules.Coin == (store.Coin{}) {
		return nil
	}
	p := f.parameters
	id, err := strconv.ParseUint(p["ChainId"], 10, 64)
	own, _ := chains.Of(id)
	asset, _, unknown := own.Asset(p["Network"], p["TokenAddress"], p["TokenSymbol"], p["TokenDecimals"])
	return cmp.Or(err, unknown, rules.Are(store.Coin{ChainID: id, Token: asset.Contract}))
}
