package check

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
)

// at returns the value under a path of a function's properties.
func at(v any, path ...string) any {
	for _, name := range path {
		of, _ := v.(map[string]any)
		v = of[name]
	}
	return v
}

// unknown stands for a value that only AWS knows.
const unknown = "\x00"

// configured returns a function's configuration by template and parameters.
func (t template) configured(id string) map[string]string {
	properties, want := any(t.Resources[id].Properties), map[string]string{}
	variables, _ := at(properties, "Environment", "Variables").(map[string]any)
	values := map[string]any{
		"memory": at(properties, "MemorySize"), "timeout": at(properties, "Timeout"), "KMS key": at(properties, "KmsKeyArn"),
		"log level": at(properties, "LoggingConfig", "ApplicationLogLevel"),
	}
	maps.Copy(values, variables)
	for name, v := range values {
		if text, known := t.text(v); known {
			want[name] = text
		} else if variables[name] != nil {
			want[name] = unknown
		}
	}
	return want
}

// running returns the configuration of a function's version.
func running(f *lambda.GetFunctionConfigurationOutput) map[string]string {
	got := map[string]string{"memory": fmt.Sprint(aws.ToInt32(f.MemorySize)), "timeout": fmt.Sprint(aws.ToInt32(f.Timeout)),
		"KMS key": aws.ToString(f.KMSKeyArn)}
	if f.LoggingConfig != nil {
		got["log level"] = string(f.LoggingConfig.ApplicationLogLevel)
	}
	if f.Environment != nil {
		maps.Copy(got, f.Environment.Variables)
	}
	return got
}

// differences names each value that differs from the template, with both values. It hides the
// value of a variable that the template lacks, since it may be a secret.
func differences(want, got map[string]string) (all []string) {
	names := maps.Clone(want)
	maps.Copy(names, got)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		template, declared := want[name]
		value, set := got[name]
		switch {
		case template == value, template == unknown && set, !declared && name == "log level": // AWS has its own
		case !declared:
			all = append(all, name+" is set, not by the template")
		case !set || template == unknown:
			all = append(all, name+" is not set")
		default:
			all = append(all, fmt.Sprintf("%s %q, not %q", name, value, template))
		}
	}
	return all
}

// liveIsDeployed compares what the versions behind the aliases run with, and their code,
// with the template and its parameters. While a canary is under way, after a version was
// put back or after a change by hand, they differ.
func (e *examination) liveIsDeployed(ctx context.Context) (string, error) {
	t, err := e.processed(ctx, e.Account)
	if err != nil {
		return "", err
	}
	functions, differ := 0, map[string][]string{} // functions by the difference
	for _, id := range slices.Sorted(maps.Keys(t.Resources)) {
		if t.Resources[id].Type != "AWS::Lambda::Function" {
			continue
		}
		functions++
		all, err := e.runsOtherwise(ctx, t.refs[id], t.configured(id))
		if err != nil {
			return "", fmt.Errorf("asking what %s runs: %w", id, err)
		}
		for _, d := range all {
			differ[d] = append(differ[d], id)
		}
	}
	for _, d := range slices.Sorted(maps.Keys(differ)) {
		err = errors.Join(err, fmt.Errorf("%s (%s)", d, strings.Join(differ[d], ", ")))
	}
	if err != nil {
		return "", fmt.Errorf("live runs otherwise than deployed:\n%w", err)
	}
	names, _ := at(t.Resources["Configuration"].Properties, "Description", "Fn::Sub").(string)
	result := fmt.Sprintf("%d functions run what the template says, with", functions)
	for _, name := range substituted.FindAllStringSubmatch(names, -1) { // of the parameters that configure functions
		if value := t.refs[name[1]]; value != "" {
			result += " " + name[1] + "=" + value
		}
	}
	return result, nil
}

// live is the alias that callers of a function use.
var live = "live"

// runsOtherwise names the differences between a function's live version and the template.
func (e *examination) runsOtherwise(ctx context.Context, name string, want map[string]string) ([]string, error) {
	client := lambda.NewFromConfig(e.Account.AWS)
	latest, err := client.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &name})
	if err != nil {
		return nil, err
	}
	runs, err := client.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &name, Qualifier: &live})
	if err != nil {
		return nil, err
	}
	if runs.Environment != nil && runs.Environment.Error != nil {
		return nil, fmt.Errorf("the right kms:Decrypt? %s", aws.ToString(runs.Environment.Error.Message))
	}
	aliases, err := client.ListAliases(ctx, &lambda.ListAliasesInput{FunctionName: &name}) // there is one
	if err != nil {
		return nil, err
	}
	all := differences(want, running(runs))
	if aws.ToString(latest.CodeSha256) != aws.ToString(runs.CodeSha256) {
		all = append(all, "another code")
	}
	for _, alias := range aliases.Aliases {
		if aws.ToString(alias.Name) == live && alias.RoutingConfig != nil {
			for version, weight := range alias.RoutingConfig.AdditionalVersionWeights {
				all = append(all, fmt.Sprintf("version %s beside it for %.0f%% of requests", version, 100*weight))
			}
		}
	}
	return all, nil
}
