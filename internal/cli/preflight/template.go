package preflight

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// A template is template.yaml with the parameters of one deployment.
type template struct {
	parameters map[string]string
	allowance  string               // the value of TreasuryAllowance, which is none of them
	root       map[string]yaml.Node // its sections
	text       string
}

// readTemplate reads a template, with the defaults of the parameters that are not set.
func readTemplate(path string, set []string) (t template, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return t, err
	}
	t.text = string(text)
	if err := yaml.Unmarshal(text, &t.root); err != nil {
		return t, fmt.Errorf("reading %s: %w", path, err)
	}
	var declared map[string]struct {
		Default string `yaml:"Default"`
	}
	section := t.root["Parameters"]
	if err := section.Decode(&declared); err != nil {
		return t, fmt.Errorf("reading the parameters of %s: %w", path, err)
	}
	t.parameters = map[string]string{}
	for name, p := range declared {
		t.parameters[name] = p.Default
	}
	for _, pair := range set {
		name, value, _ := strings.Cut(pair, "=")
		if name == gone {
			t.allowance = strings.Trim(value, `"`)
			continue
		}
		if _, known := declared[name]; !known {
			return t, fmt.Errorf("%s has no parameter %q: check its spelling, and samconfig.toml", path, name)
		}
		t.parameters[name] = strings.Trim(value, `"`)
	}
	return t, nil
}

// reserved sums the concurrency that the functions reserve.
func (t template) reserved() (sum int, err error) {
	var resources map[string]struct {
		Properties struct {
			Reserved yaml.Node `yaml:"ReservedConcurrentExecutions"`
		} `yaml:"Properties"`
	}
	section := t.root["Resources"]
	if err := section.Decode(&resources); err != nil {
		return 0, fmt.Errorf("reading the template's resources: %w", err)
	}
	for id, r := range resources {
		if r.Properties.Reserved.Kind == 0 {
			continue
		}
		text, err := t.value(&r.Properties.Reserved)
		if err != nil {
			return 0, err
		}
		if text == "" {
			continue // AWS::NoValue
		}
		n, err := strconv.Atoi(text)
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
			conditions, condition := t.root["Conditions"], yaml.Node{}
			var all map[string]yaml.Node
			if err := conditions.Decode(&all); err != nil {
				return "", fmt.Errorf("reading the template's conditions: %w", err)
			}
			if condition = all[c.Value]; condition.Kind == 0 {
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
		var mappings map[string]map[string]map[string]string
		section := t.root["Mappings"]
		if err := section.Decode(&mappings); err != nil {
			return "", fmt.Errorf("reading the template's mappings: %w", err)
		}
		return mappings[args[0]][args[1]][args[2]], nil
	}
	if strings.HasPrefix(n.Tag, "!!") {
		return n.Value, nil
	}
	return "", fmt.Errorf("line %d of the template: preflight does not know %s", n.Line, n.Tag)
}
