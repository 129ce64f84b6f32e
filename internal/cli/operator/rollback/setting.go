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

// readsVariable is the variable of a function's environment with the settings that its code
// understands (settings.Code).
const readsVariable = "READS"

// permitted returns why the older versions must not run on the stored settings: these cannot
// be read, or a version does not understand them.
func (r *rollback) permitted(ctx context.Context, tables []setting.Table) error {
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
				return fmt.Errorf("%w: reading the environment of version %s of %s (the right kms:Decrypt?): %s", errNoOlder, m.To, m.Function,
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
	needs := uint64(1)
	for _, t := range tables {
		if t.Unusable() != nil {
			return fmt.Errorf("%w: no older version can be compared with the settings of %s: %w", errNoOlder, t.Kind(), t.Unusable())
		}
		needs = max(needs, t.Stamp().Needs)
	}
	for i, m := range r.moves {
		if understands, _ := strconv.ParseUint(environments[i][readsVariable], 10, 64); understands < needs {
			return fmt.Errorf("%w: version %s of %s does not understand the stored settings, which need %d", errNoOlder, m.To, m.Function, needs)
		}
	}
	return nil
}
