package check

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"gopkg.in/yaml.v3"

	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
)

// A template is a CloudFormation template with the parameters of one stack.
type template struct {
	Parameters map[string]struct{ Default any }
	Conditions map[string]any
	Mappings   map[string]map[string]map[string]any
	Resources  map[string]struct {
		Type       string
		Properties struct {
			ReservedConcurrentExecutions, MemorySize, Timeout, KmsKeyArn, Description any

			LoggingConfig struct{ ApplicationLogLevel any }
			Environment   struct{ Variables map[string]any }
		}
	}
	refs map[string]string // values of parameters, and the physical IDs of resources
	set  map[string]bool   // the parameters named on the command line
}

// parse reads a template in JSON for a stack.
func parse(text []byte, a *deployed.Account) (t template, err error) {
	reader := json.NewDecoder(bytes.NewReader(text))
	reader.UseNumber()
	t.refs = map[string]string{"AWS::NoValue": "", "AWS::StackName": a.Stack, "AWS::Region": a.AWS.Region}
	maps.Copy(t.refs, a.Parameters)
	err = reader.Decode(&t)
	return t, err
}

// readTemplate reads a template in YAML. A parameter that is not set keeps its deployed value, as with sam deploy, or
// has its default.
func readTemplate(path string, now *deployed.Account, set []string) (t template, err error) {
	var document yaml.Node
	text, err := os.ReadFile(path)
	if err = cmp.Or(err, yaml.Unmarshal(text, &document)); err == nil {
		text, err = json.Marshal(plain(&document))
	}
	if err == nil {
		t, err = parse(text, &deployed.Account{Stack: now.Stack, AWS: now.AWS})
	}
	if err != nil {
		return t, fmt.Errorf("reading %s: %w", path, err)
	}
	t.set = map[string]bool{}
	for name, p := range t.Parameters {
		was, deployed := now.Parameters[name]
		if t.refs[name] = was; !deployed {
			t.refs[name] = fmt.Sprint(p.Default)
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

// plain returns a node of YAML as its JSON would be, with !If as Fn::If.
func plain(n *yaml.Node) (v any) {
	switch n.Kind {
	case yaml.DocumentNode:
		return plain(n.Content[0])
	case yaml.MappingNode:
		of := map[string]any{}
		for i := 0; i < len(n.Content); i += 2 {
			of[n.Content[i].Value] = plain(n.Content[i+1])
		}
		v = of
	case yaml.SequenceNode:
		list := make([]any, len(n.Content))
		for i, each := range n.Content {
			list[i] = plain(each)
		}
		v = list
	default:
		v = n.Value
	}
	name, short := strings.CutPrefix(n.Tag, "!")
	if !short || strings.HasPrefix(name, "!") {
		return v
	}
	if name != "Ref" && name != "Condition" {
		name = "Fn::" + name
	}
	return map[string]any{name: v}
}

// reserved sums the concurrency that the functions reserve.
func (t template) reserved() (sum int, err error) {
	for id, r := range t.Resources {
		p := r.Properties.ReservedConcurrentExecutions
		text, known := t.text(p)
		if p == nil || known && text == "" { // AWS::NoValue
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return 0, fmt.Errorf("reading ReservedConcurrentExecutions of %s: %w", id, err)
		}
		sum += n
	}
	return sum, nil
}

var substituted = regexp.MustCompile(`\$\{([^}]+)\}`)

// text resolves a value of the template. A condition is "true" or "false". It reports
// false for a value that only AWS knows, such as Fn::GetAtt.
func (t template) text(v any) (_ string, known bool) {
	of, function := v.(map[string]any)
	if !function {
		return fmt.Sprint(v), v != nil
	}
	for name, arg := range of { // there is one
		args, _ := arg.([]any)
		text := fmt.Sprint(arg)
		switch {
		case name == "Ref":
			value, known := t.refs[text]
			return value, known
		case name == "Condition":
			return t.text(t.Conditions[text])
		case name == "Fn::Sub" && args == nil:
			known = true
			text = substituted.ReplaceAllStringFunc(text, func(ref string) string {
				value, is := t.refs[ref[2:len(ref)-1]]
				known = known && is
				return value
			})
			return text, known
		case name == "Fn::If" && len(args) == 3:
			is, known := t.text(t.Conditions[fmt.Sprint(args[0])])
			if !known {
				return "", false
			}
			return t.text(args[map[string]int{"true": 1, "false": 2}[is]])
		}
		given := make([]string, len(args))
		for i, each := range args {
			if given[i], known = t.text(each); !known {
				return "", false
			}
		}
		switch {
		case name == "Fn::FindInMap" && len(args) == 3:
			return t.text(t.Mappings[given[0]][given[1]][given[2]])
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

// unknown stands for a value that only AWS knows.
const unknown = "\x00"

// configured returns a function's configuration by template and parameters.
func (t template) configured(id string) map[string]string {
	p, want := t.Resources[id].Properties, map[string]string{}
	values := map[string]any{"memory": p.MemorySize, "timeout": p.Timeout, "KMS key": p.KmsKeyArn,
		"log level": p.LoggingConfig.ApplicationLogLevel}
	maps.Copy(values, p.Environment.Variables)
	for name, v := range values {
		if text, known := t.text(v); known {
			want[name] = text
		} else if p.Environment.Variables[name] != nil {
			want[name] = unknown
		}
	}
	return want
}

// running returns the configuration of a function's version.
func running(f *lambda.GetFunctionConfigurationOutput) map[string]string {
	got := map[string]string{"memory": fmt.Sprint(aws.ToInt32(f.MemorySize)), "KMS key": aws.ToString(f.KMSKeyArn),
		"timeout": fmt.Sprint(aws.ToInt32(f.Timeout))}
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

// liveIsDeployed compares the configuration and code of the versions behind the aliases with
// the template and its parameters. They differ during a canary, after a rollback and after a
// change by hand.
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
	result, names := fmt.Sprintf("%d functions run what the template says, with", functions),
		fmt.Sprint(t.Resources["Configuration"].Properties.Description)
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
