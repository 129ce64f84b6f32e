package doctor

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/remit-payouts/remit/internal/cli/plan"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// holdsTheRate makes a finding of each thing that the stack has less of than `remit plan`
// says of the rate, and of none that it is good for it; without a rate it says for which the
// stack is good. From then on the examination knows what each wallet should hold.
func (e *examination) holdsTheRate(ctx context.Context, c *Command) {
	l, err := e.load(ctx)
	if err != nil {
		e.found("rate", "", err, "check your rights (docs/operate.md)")
		return
	}
	l.Rate, l.Merchants = c.Rate, c.Merchants
	by := ""
	if l.Chain.Ether == "" {
		by = "; the chain has no numbers: final after a minute is assumed, and room in its blocks"
	}
	if c.Rate == 0 {
		good, behind := l.Good()
		e.found("rate", fmt.Sprintf("good for %s payments a second of %s merchants, then %s%s", plan.Human(good), plan.Human(c.Merchants),
			behind.Limits(), by), nil, "")
		return
	}
	wants := fmt.Sprintf("%s payments a second: ", plan.Human(c.Rate))
	short := l.Short()
	for _, w := range short {
		e.found("rate", "", fmt.Errorf("%s%s", wants, w.Limits()), w.Advice(c.Rate))
	}
	if l.Window > l.Chain.Pool {
		e.found("rate", "", fmt.Errorf("%sNonceWindow is %d, and the chain's nodes hold %d of a wallet", wants, l.Window, l.Chain.Pool),
			"remit settings set NonceWindow=0, the chain's own")
	} else if len(short) == 0 {
		e.found("rate", wants+"as planned"+by, nil, "")
	}
	l.Wallets = max(l.Wallets, l.Planned().Wallets)
	tokens, coins := c.Funds(l)
	e.tokens, err = token.ParseTokens(strconv.FormatFloat(math.Ceil(tokens), 'f', 0, 64), e.Asset.Decimals)
	if err == nil {
		e.gas, err = token.ParseTokens(strconv.FormatFloat(coins, 'f', 9, 64), 18)
	}
	e.until = fmt.Sprintf("%s payments a second of %s take in %s hours", plan.Human(c.Rate), plan.Human(c.Amount), plan.Human(c.Hours))
	if err != nil {
		e.found("rate", "", fmt.Errorf("what %s: %w", e.until, err), "say a smaller --amount or fewer --hours")
	}
}

// load returns what the stack has, without a rate: wallets that may pay, the numbers among
// its parameters, the account's concurrency and the table's warm throughput. Quotas that
// it does not ask for are taken to be AWS's own.
func (e *examination) load(ctx context.Context) (l plan.Load, err error) {
	rules, err := e.Rules(ctx)
	if err != nil {
		return l, err
	}
	l = plan.Load{Chain: plan.Of(e.ChainID), Window: rules.Window, Pause: e.Config.BlockTime.Seconds(), Stack: plan.Default,
		Limits: map[string]float64{}}
	for name, text := range e.Account.Parameters {
		if v, err := strconv.ParseFloat(text, 64); err == nil {
			l.Limits["parameter "+name] = v
		}
	}
	if mb := l.Limits["parameter CheckReceiptsMemory"]; mb > 0 { // an older template has none
		l.Stack.SettleGB = mb / 1024
	}
	for name, v := range plan.Sizes[e.Account.Parameters["Size"]] {
		l.Limits["parameter Size, its "+name] = v
	}
	settings, err := lambda.NewFromConfig(e.Account.AWS).GetAccountSettings(ctx, &lambda.GetAccountSettingsInput{})
	if err != nil {
		return l, fmt.Errorf("asking for the account's concurrency: %w", err)
	}
	if settings.AccountLimit != nil {
		l.Limits[plan.Concurrency] = float64(settings.AccountLimit.ConcurrentExecutions)
	}
	table, err := dynamodb.NewFromConfig(e.Account.AWS).DescribeTable(ctx,
		&dynamodb.DescribeTableInput{TableName: aws.String(e.Account.Outputs["PaymentsTableName"])})
	if err != nil {
		return l, fmt.Errorf("asking for the table's throughput: %w", err)
	}
	if warm := table.Table.WarmThroughput; warm != nil && aws.ToInt64(warm.WriteUnitsPerSecond) > 0 {
		l.Limits[plan.WarmThroughput] = float64(*warm.WriteUnitsPerSecond)
	}
	if l.Stack.Provisioned = e.Account.Parameters["PaymentsCapacity"] == "provisioned"; l.Stack.Provisioned {
		l.Limits[plan.WarmThroughput] = math.Inf(1) // PaymentsCapacityMaximum is its limit
	}
	wallets, err := e.Wallets(ctx)
	l.Wallets = float64(len(wallets.Active()))
	l.KMS = slices.ContainsFunc(wallets, func(r wallet.Registration) bool { return r.State == wallet.Active && r.Key != wallet.InSecret })
	return l, err
}
