package preflight

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// A template is template.yaml with the parameters of one deployment.
type template struct {
	parameters map[string]string

	Parameters map[string]struct {
		Default string `yaml:"Default"`
	} `yaml:"Parameters"`
	Mappings   map[string]map[string]map[string]string `yaml:"Mappings"`
	Conditions map[string]yaml.Node                    `yaml:"Conditions"`
	Resources  map[string]struct {
		Properties struct {
			Reserved yaml.Node `yaml:"ReservedConcurrentExecutions"`
		} `yaml:"Properties"`
	} `yaml:"Resources"`
}

// readTemplate reads a template, with the defaults of the parameters that are not set.
func readTemplate(path string, set []string) (t template, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return t, err
	}
	if err := yaml.Unmarshal(text, &t); err != nil {
		return t, fmt.Errorf("reading %s: %w", path, err)
	}
	t.parameters = map[string]string{}
	for name, p := range t.Parameters {
		t.parameters[name] = p.Default
	}
	for _, pair := range set {
		name, value, _ := strings.Cut(pair, "=")
		if _, known := t.Parameters[name]; !known {
			return t, fmt.Errorf("%s has no parameter %q: check its spelling, and samconfig.toml", path, name)
		}
		t.parameters[name] = strings.Trim(value, `"`)
	}
	return t, nil
}

// reserved sums the concurrency that the functions reserve.
func (t template) reserved() (sum int, err error) {
	for id, r := range t.Resources {
		if r.Properties.Reserved.Kind == 0 {
			continue
		}
		text, err := t.value(&r.Properties.Reserved)
		if err != nil {
			return 0, err
		}
		n, err := strconv.Atoi(cmp.Or(text, "0")) // "" is AWS::NoValue
		if err != nil {
			return 0, fmt.Errorf("what %s reserves: %w", id, err)
		}
		sum += n
	}
	return sum, nil
}

// value resolves the intrinsic functions that decide on concurrency. A condition is
// "true" or "false", AWS::NoValue is "".
func (t template) value(n *yaml.Node) (string, error) {
	args := make([]string, len(n.Content))
	for i, c := range n.Content {
		if n.Tag == "!If" && i == 0 {
			condition, known := t.Conditions[c.Value]
			if !known {
				return "", fmt.Errorf("the template has no condition %s", c.Value)
			}
			c = &condition
		}
		var err error
		if args[i], err = t.value(c); err != nil {
			return "", err
		}
	}
	switch n.Tag {
	case "!Ref":
		return t.parameters[n.Value], nil
	case "!Equals":
		return strconv.FormatBool(args[0] == args[1]), nil
	case "!Not":
		return strconv.FormatBool(args[0] == "false"), nil
	case "!And":
		return strconv.FormatBool(!strings.Contains(strings.Join(args, " "), "false")), nil
	case "!Or":
		return strconv.FormatBool(strings.Contains(strings.Join(args, " "), "true")), nil
	case "!If":
		if args[0] == "true" {
			return args[1], nil
		}
		return args[2], nil
	case "!FindInMap":
		return t.Mappings[args[0]][args[1]][args[2]], nil
	}
	if strings.HasPrefix(n.Tag, "!!") {
		return n.Value, nil
	}
	return "", fmt.Errorf("line %d of the template: preflight does not know %s", n.Line, n.Tag)
}
