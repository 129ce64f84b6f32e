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
		Properties struct{ ReservedConcurrentExecutions any }
	}
	refs map[string]string // values of parameters
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

// readTemplate reads a template in YAML. An unset parameter keeps its deployed value, as with sam deploy, or has its
// default.
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

// text resolves a value on which a function's concurrency depends. A condition is "true" or "false".
func (t template) text(v any) (_ string, known bool) {
	of, function := v.(map[string]any)
	if !function {
		return fmt.Sprint(v), v != nil
	}
	for name, arg := range of { // there is one
		args, _ := arg.([]any)
		if name == "Ref" {
			value, known := t.refs[fmt.Sprint(arg)]
			return value, known
		}
		if name == "Fn::If" && len(args) == 3 {
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
		case name == "Fn::Not" && len(args) == 1:
			return strconv.FormatBool(given[0] == "false"), true
		}
	}
	return "", false
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
