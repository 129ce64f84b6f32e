package check

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"gopkg.in/yaml.v3"

	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
)

// A template is one of CloudFormation, with the parameters of one stack.
type template struct {
	Parameters map[string]struct{ Default any }
	Conditions map[string]any
	Mappings   map[string]map[string]map[string]any
	Resources  map[string]struct {
		Type       string
		Properties map[string]any
	}
	refs map[string]string // values of parameters, and the physical IDs of resources
	set  map[string]bool   // the parameters that the deployment names
}

// parse reads a template in JSON for a stack.
func parse(text []byte, a *deployed.Account) (t template, err error) {
	reader := json.NewDecoder(bytes.NewReader(text))
	reader.UseNumber()
	t.refs = map[string]string{"AWS::NoValue": "", "AWS::StackName": a.Stack, "AWS::Region": a.AWS.Region}
	maps.Copy(t.refs, a.Parameters)
	return t, reader.Decode(&t)
}

// readTemplate reads a template in YAML. Each parameter has the value that is set, or else the deployed one, as sam deploy
// keeps it, or else the default.
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

// processed returns the template of a deployed stack after SAM's transform.
func (e *examination) processed(ctx context.Context, a *deployed.Account) (t template, err error) {
	got, err := cloudformation.NewFromConfig(a.AWS).GetTemplate(ctx,
		&cloudformation.GetTemplateInput{StackName: &e.Stack, TemplateStage: types.TemplateStageProcessed})
	if err == nil {
		t, err = parse([]byte(aws.ToString(got.TemplateBody)), a)
	}
	if err != nil {
		return t, fmt.Errorf("reading the stack's template: %w", err)
	}
	resources, err := a.Resources(ctx)
	for _, r := range resources {
		t.refs[r.ID] = r.Name
	}
	return t, err
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
		p := r.Properties["ReservedConcurrentExecutions"]
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
