package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	smtypes "github.com/aws/aws-sdk-go-v2/service/secretsmanager/types"

	"github.com/remit-payouts/remit/internal/aws/kms/walletkey"
	"github.com/remit-payouts/remit/internal/aws/schema"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/cli/operator/setting"
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

func (e *examination) mayHaveMoney(context.Context) (string, error) {
	p := e.Account.Parameters
	open := e.MayPay(0)
	for _, on := range e.rails {
		open = cmp.Or(open, e.MayPay(on.ChainID))
	}
	return p["Environment"] + ", " + p["Mode"] + " mode", open
}

// inProduction returns a check for a parameter that stands in production as a sandbox may have it.
func (e *examination) inProduction(name, sandbox, risk string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		p := e.Account.Parameters
		if p[name] == sandbox && p["Environment"] == "prod" {
			return "", fmt.Errorf("the parameter %s is %s: %s", name, sandbox, risk)
		}
		return name + "=" + p[name], nil
	}
}

func (e *examination) tablesAreKept(ctx context.Context) (string, error) {
	of := func(kind string) string { return e.Account.Outputs[kind+"TableName"] }
	t := schema.Tables{APIKeys: of("ApiKeys"), Payments: of("Payments"), Webhooks: of("Webhooks")}
	lacks, err := t.Lacks(ctx, dynamodb.NewFromConfig(e.Account.AWS), e.Account.Parameters["Environment"] == "prod")
	if err == nil && len(lacks) > 0 {
		err = errors.New(strings.Join(lacks, "; "))
	}
	return strings.Join([]string{t.APIKeys, t.Payments, t.Webhooks}, ", "), err
}

func (e *examination) secretsAreReplicated(ctx context.Context) (string, error) {
	region, ids := e.Account.Parameters["ReplicaRegion"], []string{e.Account.Outputs["RpcSecretArn"]}
	if region == "" {
		return "none are wanted", nil
	}
	keyed, err := e.Keyed(ctx)
	for address := range keyed {
		ids = append(ids, e.Account.Outputs["WalletSecrets"]+address.String())
	}
	for _, id := range ids {
		secret, err := secretsmanager.NewFromConfig(e.Account.AWS).DescribeSecret(ctx,
			&secretsmanager.DescribeSecretInput{SecretId: &id})
		if err != nil {
			return "", fmt.Errorf("describing %s: %w", id, err)
		}
		if !slices.ContainsFunc(secret.ReplicationStatus, func(r smtypes.ReplicationStatusType) bool {
			return aws.ToString(r.Region) == region && r.Status == smtypes.StatusTypeInSync
		}) {
			return "", fmt.Errorf("%s is not in %s", id, region)
		}
	}
	return fmt.Sprintf("%d in %s", len(ids), region), err
}

func (e *examination) grantsFit(ctx context.Context) (string, error) {
	roles, err := e.Account.Signers(ctx)
	if err != nil {
		return "", err
	}
	var wallets wallet.Registry
	for _, on := range e.rails {
		own, unread := on.Wallets(ctx)
		wallets, err = append(wallets, own...), errors.Join(err, unread)
	}
	keys := 0
	for _, r := range wallets {
		if !deployed.InKMS(r.Key) {
			continue
		}
		keys++
		sign, unread := walletkey.Open(e.Account.AWS).Signers(ctx, string(r.Key))
		if unread != nil {
			return "", unread
		}
		may := roles
		if r.State == wallet.Retired {
			may = nil
		}
		if others := except(sign, may); others != "" {
			err = errors.Join(err, fmt.Errorf("%s may sign for the %s wallet %s", others, r.State, r.Address))
		}
		if lacking := except(may, sign); lacking != "" {
			err = errors.Join(err, fmt.Errorf("%s may not sign for %s: remit wallet import --kms %s", lacking, r.Address, r.Key))
		}
	}
	return fmt.Sprintf("keys: %d, signed with by the functions alone", keys), err
}

func except(all, known []string) string {
	known = slices.DeleteFunc(slices.Clone(all), func(one string) bool { return slices.Contains(known, one) })
	return strings.Join(known, ", ")
}

// railsAreWhole finds a stack without a rail, and nodes of a chain without one: it may be lost with its payments.
func (e *examination) railsAreWhole(ctx context.Context) (string, error) {
	if e.Payments == nil {
		return "a new stack has none", nil
	}
	if errors.Is(e.noRails, deployed.ErrNoRail) {
		return "", fixed("remit rails add CHAIN --rpc https://…", "the stack has no rail, and pays nothing")
	}
	nodes, unread := e.RPC(ctx)
	all, err := e.Payments.Rules(ctx) // also without the rails that --rail leaves out
	if err = cmp.Or(e.noRails, unread, err); err != nil {
		return "", err
	}
	var names []string
	for _, on := range e.rails {
		names = append(names, on.Name()+map[bool]string{true: " (closed)"}[on.On.Settings.Closed])
	}
	chains := slices.Sorted(maps.Keys(nodes))
	if lost := all.Without(chains); len(lost) > 0 {
		err = fmt.Errorf("the RPC secret has nodes of chain %d, which has no rail: nothing new is paid", lost)
	}
	return strings.Join(names, ", "), err
}

// railsAreCompared finds a rail of which the tables may lack payments, so that those of other rails wait.
func (e *examination) railsAreCompared(ctx context.Context) (string, error) {
	rules, err := e.Payments.Rules(ctx)
	if err != nil {
		return "", err
	}
	uncleared, err := rules.Uncleared(ctx, e.Payments, token.Coin{}, time.Now())
	for _, rail := range uncleared {
		err = errors.Join(err, fmt.Errorf("%s may hold the others: check-receipts has not compared it", rail.Coin))
	}
	return "none holds the others", err
}

func (e *examination) settingsHold(context.Context) (string, error) {
	if e.Payments == nil || errors.Is(e.noRails, deployed.ErrNoRail) {
		return "a new stack has none", nil
	}
	err, harmless := e.noRails, e.noRails == nil
	var result []string
	for _, on := range e.rails {
		result = append(result, fmt.Sprintf("%s at version %d", on.Name(), on.On.Settings.Version))
		unfit := cmp.Or(on.On.Unusable, setting.Of(on).Refused())
		if unfit == nil && !on.On.Settings.Confirmed && e.Mode == "live" {
			unfit = errors.New("not confirmed for this table, which was restored")
		}
		if unfit != nil {
			err = errors.Join(err, fmt.Errorf("%s, version %d: %w", on.Name(), on.On.Settings.Version, unfit))
			harmless = harmless && !errors.Is(unfit, settings.ErrDamaged) && !errors.Is(unfit, settings.ErrNewer)
		}
	}
	if err != nil {
		err = problem{error: err, warns: harmless}
	}
	return strings.Join(result, ", "), err
}

// liveIsDeployed compares each function's live version with the deployed one: a canary, or a moved alias, differs.
func (e *examination) liveIsDeployed(ctx context.Context) (string, error) {
	resources, err := e.Account.Resources(ctx)
	functions := 0
	for _, r := range resources {
		if *r.ResourceType != "AWS::Lambda::Function" {
			continue
		}
		functions++
		differ, unread := e.runsOtherwise(ctx, r.PhysicalResourceId)
		if unread != nil {
			return "", fmt.Errorf("asking what %s runs: %w", *r.LogicalResourceId, unread)
		}
		if len(differ) > 0 {
			err = errors.Join(err, fmt.Errorf("%s: %s", *r.LogicalResourceId, strings.Join(differ, ", ")))
		}
	}
	if err != nil {
		return "", fmt.Errorf("live runs otherwise than deployed:\n%w", err)
	}
	commit := cmp.Or(e.Account.About, "the commit is unknown; make deploy notes it")
	return fmt.Sprintf("%d functions run as deployed: %s", functions, commit), nil
}

// runsOtherwise names how a function's live version differs from the deployed one, and no value: it may be secret.
func (e *examination) runsOtherwise(ctx context.Context, name *string) (all []string, err error) {
	client := lambda.NewFromConfig(e.Account.AWS)
	deployed, err := client.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: name})
	runs, failed := client.GetFunctionConfiguration(ctx,
		&lambda.GetFunctionConfigurationInput{FunctionName: name, Qualifier: aws.String("live")})
	aliases, unread := client.ListAliases(ctx, &lambda.ListAliasesInput{FunctionName: name}) // there is one
	if err := cmp.Or(err, failed, unread); err != nil {
		return nil, err
	}
	if runs.Environment != nil && runs.Environment.Error != nil {
		return nil, fmt.Errorf("the right kms:Decrypt? %s", aws.ToString(runs.Environment.Error.Message))
	}
	want, got := configuration(deployed), configuration(runs)
	names := maps.Clone(want)
	maps.Copy(names, got)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if want[name] != got[name] {
			all = append(all, "another "+name)
		}
	}
	for _, alias := range aliases.Aliases {
		if aws.ToString(alias.Name) == "live" && alias.RoutingConfig != nil {
			for version, weight := range alias.RoutingConfig.AdditionalVersionWeights {
				all = append(all, fmt.Sprintf("version %s beside it for %.0f%% of requests", version, 100*weight))
			}
		}
	}
	return all, nil
}

func configuration(f *lambda.GetFunctionConfigurationOutput) map[string]string {
	all := map[string]string{"code": aws.ToString(f.CodeSha256), "KMS key": aws.ToString(f.KMSKeyArn),
		"memory": fmt.Sprint(aws.ToInt32(f.MemorySize)), "timeout": fmt.Sprint(aws.ToInt32(f.Timeout))}
	if f.LoggingConfig != nil {
		all["log level"] = string(f.LoggingConfig.ApplicationLogLevel)
	}
	if f.Environment != nil {
		maps.Copy(all, f.Environment.Variables)
	}
	return all
}
