package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/evm/chains"
	"github.com/remit-payouts/remit/internal/evm/settings"
	"github.com/remit-payouts/remit/internal/payments/store"
)

// settings finds tables by which the functions of this template would refuse payments: those
// of another coin, and a live stack's without settings. A first deployment has no tables
// to check, unless it reuses the tables of another stack.
func (f *flight) settings(ctx context.Context) (string, error) {
	s, err := f.deployed(ctx)
	if err != nil {
		return "", err
	}
	tables, flags := map[string]string{}, ""
	for _, table := range [][2]string{{"payments", "Payments"}, {"keys", "ApiKeys"}} {
		kind, of := table[0], table[1]
		if existing := f.parameters["Existing"+of+"Table"]; existing != "" {
			flags += " --table " + kind + "=" + existing
		}
		tables[kind] = f.table(s, of)
	}
	db := dynamodb.NewFromConfig(f.aws)
	if name := tables["payments"]; name != "" {
		rules, failed := dynamo.NewPayments(db, name).Rules(ctx)
		if failed = cmp.Or(failed, f.coin(rules)); failed != nil {
			return "", failed
		}
		err, f.memoOff = rules.Unusable, rules.Settings.MemoOff
	}
	if f.parameters["Mode"] != "live" {
		return "", nil
	}
	if name := tables["keys"]; err == nil && name != "" {
		_, err = dynamo.NewAPIKeys(db, name).KeySettings(ctx)
	}
	remit := func(what string) string {
		return fmt.Sprintf("AWS_REGION=%s remit settings %s --stack %s%s\n", f.aws.Region, what, f.stack, flags)
	}
	switch {
	case errors.Is(err, settings.ErrMissing) && s == nil:
		return remit("set AmountMinimum=… AmountMaximum=… DailyLimit=…"),
			warning("the tables that are taken over have none: every payment is refused until they are set, which the command does after " +
				"the deployment")
	case errors.Is(err, settings.ErrMissing):
		return remit("set AmountMinimum=… AmountMaximum=… DailyLimit=…"), errors.New("none are stored: every payment would be refused")
	case errors.Is(err, settings.ErrDamaged):
		return remit("history") + remit("apply FILE"), err
	}
	return "", err
}

// table returns the name of the table that the deployment will use, as the parameter or else the stack has it; "" if there is none.
func (f *flight) table(s *types.Stack, of string) string {
	name := f.parameters["Existing"+of+"Table"]
	if s == nil {
		return name
	}
	for _, o := range s.Outputs {
		if aws.ToString(o.OutputKey) == of+"TableName" {
			name = cmp.Or(name, aws.ToString(o.OutputValue))
		}
	}
	return name
}

// coin returns why the tables' payments are not of the coin that the parameters name.
func (f *flight) coin(rules store.Rules) error {
	if rules.Coin == (store.Coin{}) {
		return nil
	}
	config, err := chains.Read(f.parameters)
	return cmp.Or(err, rules.Are(store.Coin{ChainID: config.ChainID, Token: config.Token.Contract}))
}
