package rollback

import (
	"context"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"golang.org/x/sync/errgroup"

	"github.com/remit-payouts/remit/internal/cli/operator/setting"
)

// readsVariable is the variable with the settings that a function's code understands (settings.Code).
const readsVariable = "READS"

// tablesOf are the variables of a function with the tables that the stack's outputs name.
var tablesOf = map[string]string{"API_KEYS_TABLE": "ApiKeysTableName", "PAYMENTS_TABLE": "PaymentsTableName",
	"WEBHOOKS_TABLE": "WebhooksTableName"}

// permitted returns why the older versions must not run on the stored settings: one does not
// understand them, or it uses a table of before.
func (r *rollback) permitted(ctx context.Context, tables []*setting.Table) error {
	environments := make([]map[string]string, len(r.moves))
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(atOnce)
	for i, m := range r.moves {
		work.Go(func() error {
			v, err := r.functions.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &m.Function, Qualifier: &m.To})
			if err != nil {
				return fmt.Errorf("%w: asking for version %s of %s: %w", errNoOlder, m.To, m.Function, err)
			}
			if v.Environment != nil && v.Environment.Error != nil {
				return fmt.Errorf("%w: reading the environment of version %s of %s (check that you have the right kms:Decrypt): %s",
					errNoOlder, m.To, m.Function,
					aws.ToString(v.Environment.Error.Message))
			}
			if environments[i] = map[string]string{}; v.Environment != nil {
				environments[i] = v.Environment.Variables
			}
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		return err
	}
	needs := uint64(0)
	for _, t := range tables {
		if t.Unusable != nil {
			return fmt.Errorf("%w: no older version can be compared with the settings of %s: %w", errNoOlder, t.Kind, t.Unusable)
		}
		needs = max(needs, t.Stamp.Needs)
	}
	for i, m := range r.moves {
		for variable, output := range tablesOf {
			if was, is := environments[i][variable], r.Account.Outputs[output]; was != "" && is != "" && was != is {
				return fmt.Errorf("%w: version %s of %s uses the table %s, which its role may not since the stack uses %s; deploy a fix instead",
					errNoOlder, m.To, m.Function, was, is)
			}
		}
		if reads, _ := strconv.ParseUint(environments[i][readsVariable], 10, 64); reads < needs {
			return fmt.Errorf("%w: version %s of %s does not understand the stored settings, which need %d; deploy a fix instead",
				errNoOlder, m.To, m.Function, needs)
		}
	}
	return nil
}
