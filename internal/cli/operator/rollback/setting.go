package rollback

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"golang.org/x/sync/errgroup"

	"github.com/remit-payouts/remit/internal/cli/operator/setting"
	"github.com/remit-payouts/remit/internal/evm/settings"
)

// readsVariable is the variable with the settings that a function's code understands
// (settings.Code). Older code lacks it and obeys its environment.
const readsVariable = "READS"

// tablesOf are the variables of a function with the tables that the stack's outputs name.
var tablesOf = map[string]string{"API_KEYS_TABLE": "ApiKeysTableName", "PAYMENTS_TABLE": "PaymentsTableName",
	"WEBHOOKS_TABLE": "WebhooksTableName"}

// permitted returns why the older versions must not run on the stored settings: one does not
// understand them, its environment allows what they refuse, or it uses a table of before.
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
	needs, unconfirmed, stored := uint64(0), false, make([][]settings.Setting, len(tables))
	for i, t := range tables {
		if t.Unusable() != nil {
			return fmt.Errorf("%w: no older version can be compared with the settings of %s: %w", errNoOlder, t.Kind(), t.Unusable())
		}
		needs, stored[i] = max(needs, t.Stamp().Needs), t.Values()
		unconfirmed = unconfirmed || r.Mode == "live" && !t.Stamp().Confirmed
	}
	for i, m := range r.moves {
		for variable, output := range tablesOf {
			if was, is := environments[i][variable], r.Account.Outputs[output]; was != "" && is != "" && was != is {
				return fmt.Errorf("%w: version %s of %s uses the table %s, which its role may not since the stack uses %s; deploy a fix instead",
					errNoOlder, m.To, m.Function, was, is)
			}
		}
		reads, knows := environments[i][readsVariable]
		if understands, _ := strconv.ParseUint(reads, 10, 64); knows && understands < needs {
			return fmt.Errorf("%w: version %s of %s does not understand the stored settings, which need %d; deploy a fix instead",
				errNoOlder, m.To, m.Function, needs)
		}
		if knows {
			continue
		}
		looser := looserThan(tables, stored, environments[i])
		if unconfirmed {
			looser = append(looser, "it does not wait for remit settings confirm")
		}
		if len(looser) > 0 {
			return fmt.Errorf("%w: version %s of %s does not read the stored settings, and its environment is looser: %s; deploy its "+
				"commit with the parameters that remit settings export prints",
				errNoOlder, m.To, m.Function, strings.Join(looser, "; "))
		}
	}
	return nil
}

// looserThan names what an environment of before settings allows and the stored ones refuse.
func looserThan(tables []setting.Table, stored [][]settings.Setting, environment map[string]string) (looser []string) {
	_, judges := environment["AMOUNT_MAXIMUM"]
	_, sends := environment["NONCE_WINDOW"]
	for i, t := range tables {
		whole := i == 0 && judges && sends // it makes payments: Lambda leaves out what is empty
		for _, s := range stored[i] {
			value, there := environment[strings.ToUpper(hump.ReplaceAllString(s.Name, "${1}_${2}"))]
			if !there && !whole {
				continue
			}
			if _, err := t.Next(s.Name, value); err != nil {
				looser = append(looser, err.Error())
			}
		}
		for _, c := range t.Changes() {
			if c.Loosens {
				looser = append(looser, fmt.Sprintf("%s is %q, not %q", c.Name, c.To, c.From))
			}
		}
	}
	return looser
}

// hump is where a parameter's name has its variable's underscores.
var hump = regexp.MustCompile(`([a-z])([A-Z])`)
