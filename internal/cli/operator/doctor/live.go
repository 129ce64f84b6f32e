package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"golang.org/x/sync/errgroup"
)

// A processed template is the deployed one after SAM's transform, with the parameters
// and the physical IDs of its resources.
type processed struct {
	Conditions map[string]any
	Mappings   map[string]map[string]map[string]any
	Resources  map[string]struct {
		Type       string
		Properties map[string]any
	}
	refs map[string]string
}

func (e *examination) processed(ctx context.Context) (p processed, err error) {
	got, err := cloudformation.NewFromConfig(e.Account.AWS).GetTemplate(ctx,
		&cloudformation.GetTemplateInput{StackName: &e.Stack, TemplateStage: types.TemplateStageProcessed})
	if err != nil {
		return p, fmt.Errorf("reading the stack's template: %w", err)
	}
	text := json.NewDecoder(strings.NewReader(aws.ToString(got.TemplateBody)))
	text.UseNumber()
	if err := text.Decode(&p); err != nil {
		return p, fmt.Errorf("reading the stack's template: %w", err)
	}
	resources, err := e.Account.Resources(ctx)
	p.refs = map[string]string{"AWS::NoValue": "", "AWS::StackName": e.Stack, "AWS::Region": e.Account.AWS.Region}
	for _, r := range resources {
		p.refs[r.ID] = r.Name
	}
	maps.Copy(p.refs, e.Account.Parameters)
	return p, err
}

var substituted = regexp.MustCompile(`\$\{([^}]+)\}`)

// text resolves a value of the template. A condition is "true" or "false". It reports
// false for what only AWS knows, such as Fn::GetAtt.
func (p processed) text(v any) (_ string, known bool) {
	of, function := v.(map[string]any)
	if !function {
		return fmt.Sprint(v), v != nil
	}
	for name, arg := range of {
		args, _ := arg.([]any)
		given := make([]string, len(args))
		all := true
		for i, each := range args {
			if name == "Fn::If" && i == 0 {
				each = map[string]any{"Condition": each}
			}
			text, ok := p.text(each)
			given[i], all = text, all && (ok || name == "Fn::If" && i > 0)
		}
		switch text := fmt.Sprint(arg); {
		case name == "Ref":
			value, known := p.refs[text]
			return value, known
		case name == "Condition":
			return p.text(p.Conditions[text])
		case name == "Fn::Sub" && args == nil:
			known := true
			text = substituted.ReplaceAllStringFunc(text, func(ref string) string {
				value, is := p.refs[ref[2:len(ref)-1]]
				known = known && is
				return value
			})
			return text, known
		case !all:
			return "", false
		case name == "Fn::If" && len(args) == 3:
			return p.text(args[map[string]int{"true": 1}[given[0]]+map[string]int{"false": 2}[given[0]]])
		case name == "Fn::FindInMap" && len(args) == 3:
			return p.text(p.Mappings[given[0]][given[1]][given[2]])
		case name == "Fn::Equals" && len(args) == 2:
			return strconv.FormatBool(given[0] == given[1]), true
		case name == "Fn::Not", name == "Fn::And": // all of them, or not the one
			return strconv.FormatBool(slices.Contains(given, "false") == (name == "Fn::Not")), true
		case name == "Fn::Or":
			return strconv.FormatBool(slices.Contains(given, "true")), true
		}
	}
	return "", false
}

// at returns the value under a path of a function's properties.
func at(v any, path ...string) any {
	for _, name := range path {
		of, _ := v.(map[string]any)
		v = of[name]
	}
	return v
}

// configured returns a function's configuration by template and parameters.
func (p processed) configured(id string) map[string]string {
	properties, want := any(p.Resources[id].Properties), map[string]string{}
	variables, _ := at(properties, "Environment", "Variables").(map[string]any)
	values := map[string]any{
		"memory": at(properties, "MemorySize"), "timeout": at(properties, "Timeout"), "KMS key": at(properties, "KmsKeyArn"),
		"log level": at(properties, "LoggingConfig", "ApplicationLogLevel"),
	}
	maps.Copy(values, variables)
	for name, v := range values {
		if text, known := p.text(v); known {
			want[name] = text
		} else if variables[name] != nil {
			want[name] = unknown
		}
	}
	return want
}

// live is the alias that callers of a function use.
var live = "live"

// atOnce is how many functions are asked at a time, below what Lambda admits of one caller.
const atOnce = 8

// unknown stands for a value that only AWS knows.
const unknown = "\x00"

// running returns the configuration of a function's version.
func running(f *lambda.GetFunctionConfigurationOutput) map[string]string {
	got := map[string]string{
		"memory": fmt.Sprint(aws.ToInt32(f.MemorySize)), "timeout": fmt.Sprint(aws.ToInt32(f.Timeout)), "KMS key": aws.ToString(f.KMSKeyArn),
	}
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
		case template == value, template == unknown && set:
		case !declared && name == "log level": // AWS's own
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
	p, err := e.processed(ctx)
	if err != nil {
		return "", err
	}
	var mu sync.Mutex
	functions, differ := 0, map[string][]string{} // functions by the difference
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(atOnce)
	for id, r := range p.Resources {
		if r.Type != "AWS::Lambda::Function" {
			continue
		}
		functions++
		work.Go(func() error {
			what, err := e.runsOtherwise(ctx, p.refs[id], p.configured(id))
			mu.Lock()
			defer mu.Unlock()
			for _, d := range what {
				differ[d] = append(differ[d], id)
			}
			return err
		})
	}
	if err := work.Wait(); err != nil {
		return "", err
	}
	var said []string
	for _, d := range slices.Sorted(maps.Keys(differ)) {
		slices.Sort(differ[d])
		said = append(said, d+" ("+strings.Join(differ[d], ", ")+")")
	}
	if len(said) > 0 {
		return "", fmt.Errorf("live runs otherwise than the template and its parameters say: %s", strings.Join(said, "; "))
	}
	return fmt.Sprintf("%d functions run what the template says, with%s", functions, p.parameters()), nil
}

// parameters lists the parameters that configure functions.
func (p processed) parameters() (all string) {
	names, _ := at(p.Resources["Configuration"].Properties, "Description", "Fn::Sub").(string)
	for _, name := range substituted.FindAllStringSubmatch(names, -1) {
		if value := p.refs[name[1]]; value != "" {
			all += " " + name[1] + "=" + value
		}
	}
	return all
}

// runsOtherwise names the differences between a function's live version and the template.
func (e *examination) runsOtherwise(ctx context.Context, name string, want map[string]string) ([]string, error) {
	client := lambda.NewFromConfig(e.Account.AWS)
	deployed, err := client.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &name})
	if err != nil {
		return nil, fmt.Errorf("asking what %s is configured with: %w", name, err)
	}
	runs, err := client.GetFunctionConfiguration(ctx, &lambda.GetFunctionConfigurationInput{FunctionName: &name, Qualifier: &live})
	if err != nil {
		return nil, fmt.Errorf("asking what runs behind %s: %w", name, err)
	}
	aliases, err := client.ListAliases(ctx, &lambda.ListAliasesInput{FunctionName: &name}) // there is one
	if err != nil {
		return nil, fmt.Errorf("asking for the canary of %s: %w", name, err)
	}
	if runs.Environment != nil && runs.Environment.Error != nil {
		return nil, fmt.Errorf("reading the environment of %s (the right kms:Decrypt?): %s", name, aws.ToString(runs.Environment.Error.Message))
	}
	what := differences(want, running(runs))
	if aws.ToString(deployed.CodeSha256) != aws.ToString(runs.CodeSha256) {
		what = append(what, "another code")
	}
	for _, alias := range aliases.Aliases {
		if aws.ToString(alias.Name) == live && alias.RoutingConfig != nil {
			for version, weight := range alias.RoutingConfig.AdditionalVersionWeights {
				what = append(what, fmt.Sprintf("version %s beside it for %.0f%% of requests", version, 100*weight))
			}
		}
	}
	return what, nil
}
