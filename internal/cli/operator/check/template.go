package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"gopkg.in/yaml.v3"

	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
)

// A template is a CloudFormation template with the parameters of one stack.
type template struct {
	Parameters map[string]struct {
		Default string `yaml:"Default"`
	} `yaml:"Parameters"`
	Mappings map[string]map[string]map[string]any `yaml:"Mappings"`
	refs     map[string]string                    // values of parameters
	set      map[string]bool                      // the parameters named on the command line
}

// readTemplate reads a template in YAML. An unset parameter keeps its deployed value, as with sam deploy, or has its
// default.
func readTemplate(path string, now *deployed.Account, set []string) (t template, err error) {
	text, err := os.ReadFile(path)
	if err = cmp.Or(err, yaml.Unmarshal(text, &t)); err != nil {
		return t, fmt.Errorf("reading %s: %w", path, err)
	}
	t.refs, t.set = map[string]string{}, map[string]bool{}
	for name, p := range t.Parameters {
		was, deployed := now.Parameters[name]
		if t.refs[name] = was; !deployed {
			t.refs[name] = p.Default
		}
	}
	for _, pair := range set {
		name, value, _ := strings.Cut(pair, "=")
		if _, known := t.Parameters[name]; !known {
			return t, fmt.Errorf("%s has no parameter %q: check its spelling, and samconfig.toml", path, name)
		}
		t.refs[name], t.set[name] = strings.Trim(value, `"`), true
	}
	return t, nil
}

// reserved returns the concurrency that the functions of a Size reserve.
func (t template) reserved(size string) int {
	n, _ := t.Mappings["Concurrency"][size]["All"].(int)
	return n
}

// live is the alias that callers of a function use.
var live = "live"

// liveIsDeployed compares the version behind each function's alias with the one that CloudFormation has deployed. They
// differ during a canary, and after somebody moved the alias.
func (e *examination) liveIsDeployed(ctx context.Context) (string, error) {
	resources, err := e.Account.Resources(ctx)
	functions, differ := 0, map[string][]string{} // functions by the difference
	for _, r := range resources {
		if r.Kind != "AWS::Lambda::Function" {
			continue
		}
		functions++
		all, err := e.runsOtherwise(ctx, r.Name)
		if err != nil {
			return "", fmt.Errorf("asking what %s runs: %w", r.ID, err)
		}
		for _, d := range all {
			differ[d] = append(differ[d], r.ID)
		}
	}
	for _, d := range slices.Sorted(maps.Keys(differ)) {
		err = errors.Join(err, fmt.Errorf("%s (%s)", d, strings.Join(differ[d], ", ")))
	}
	if err != nil {
		return "", fmt.Errorf("live runs otherwise than deployed:\n%w", err)
	}
	return fmt.Sprintf("%d functions run as deployed", functions), nil
}

// runsOtherwise names how a function's live version differs from the deployed one, and no value: it may be secret.
func (e *examination) runsOtherwise(ctx context.Context, name string) (all []string, err error) {
	client := lambda.NewFromConfig(e.Account.AWS)
	deployed, err := client.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &name})
	if err != nil {
		return nil, err
	}
	runs, err := client.GetFunctionConfiguration(ctx,
		&lambda.GetFunctionConfigurationInput{FunctionName: &name, Qualifier: &live})
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
	want, got := configuration(deployed), configuration(runs)
	names := maps.Clone(want)
	maps.Copy(names, got)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if want[name] != got[name] {
			all = append(all, "another "+name)
		}
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

// configuration returns the parts of a version that a deployment changes.
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
