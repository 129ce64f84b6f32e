package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"golang.org/x/sync/errgroup"
)

// live is the alias that callers of a function use.
var live = "live"

// atOnce is how many functions are queried at a time, below what Lambda admits of one caller.
const atOnce = 8

// configured returns the configuration of a version of a function.
func configured(f *lambda.GetFunctionConfigurationOutput) map[string]string {
	all := map[string]string{
		"memory": fmt.Sprint(aws.ToInt32(f.MemorySize)), "timeout": fmt.Sprint(aws.ToInt32(f.Timeout)), "KMS key": aws.ToString(f.KMSKeyArn),
	}
	if f.LoggingConfig != nil {
		all["log level"] = string(f.LoggingConfig.ApplicationLogLevel)
	}
	if f.Environment != nil {
		maps.Copy(all, f.Environment.Variables)
	}
	return all
}

// differences compares the configurations of the deployed and of the live version.
func differences(deployed, live map[string]string) (all []string) {
	names := maps.Clone(deployed)
	maps.Copy(names, live)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		want, declared := deployed[name]
		value, set := live[name]
		switch {
		case want == value && declared == set:
		case !declared:
			all = append(all, name+" is set, and not deployed")
		case !set:
			all = append(all, name+" is not set")
		default:
			all = append(all, fmt.Sprintf("%s %q, not %q", name, value, want))
		}
	}
	return all
}

// liveIsDeployed compares the version behind the alias of each function, and its code, with
// the function as it was deployed last. They differ during a canary, after a rollback, and
// after a change by hand.
func (e *examination) liveIsDeployed(ctx context.Context) (string, error) {
	resources, err := e.Account.Resources(ctx)
	if err != nil {
		return "", err
	}
	var mu sync.Mutex
	functions, differ := 0, map[string][]string{} // functions by the difference
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(atOnce)
	for _, r := range resources {
		if r.Kind != "AWS::Lambda::Function" {
			continue
		}
		functions++
		work.Go(func() error {
			found, err := e.runsOtherwise(ctx, r.Name)
			mu.Lock()
			defer mu.Unlock()
			for _, d := range found {
				differ[d] = append(differ[d], r.ID)
			}
			return err
		})
	}
	if err := work.Wait(); err != nil {
		return "", err
	}
	var found []string
	for _, d := range slices.Sorted(maps.Keys(differ)) {
		slices.Sort(differ[d])
		found = append(found, d+" ("+strings.Join(differ[d], ", ")+")")
	}
	if len(found) > 0 {
		return "", fmt.Errorf("live versions differ from the deployment: %s", strings.Join(found, "; "))
	}
	return fmt.Sprintf("%d functions run as deployed", functions), nil
}

// runsOtherwise returns the differences between a function's live version and its deployment.
func (e *examination) runsOtherwise(ctx context.Context, name string) ([]string, error) {
	client := lambda.NewFromConfig(e.Account.AWS)
	deployed, err := client.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &name})
	if err != nil {
		return nil, fmt.Errorf("reading the configuration of %s: %w", name, err)
	}
	runs, err := client.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &name, Qualifier: &live})
	if err != nil {
		return nil, fmt.Errorf("reading the live version of %s: %w", name, err)
	}
	aliases, err := client.ListAliases(ctx, &lambda.ListAliasesInput{FunctionName: &name}) // there is one
	if err != nil {
		return nil, fmt.Errorf("reading the canary of %s: %w", name, err)
	}
	for _, f := range []*lambda.GetFunctionConfigurationOutput{deployed, runs} {
		if f.Environment != nil && f.Environment.Error != nil {
			return nil, fmt.Errorf("reading the environment of %s (the right kms:Decrypt?): %s", name, aws.ToString(f.Environment.Error.Message))
		}
	}
	found := differences(configured(deployed), configured(runs))
	if aws.ToString(deployed.CodeSha256) != aws.ToString(runs.CodeSha256) {
		found = append(found, "another code")
	}
	for _, alias := range aliases.Aliases {
		if aws.ToString(alias.Name) == live && alias.RoutingConfig != nil {
			for version, weight := range alias.RoutingConfig.AdditionalVersionWeights {
				found = append(found, fmt.Sprintf("version %s beside it for %.0f%% of requests", version, 100*weight))
			}
		}
	}
	return found, nil
}
