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
	allowance  string // the value of TreasuryAllowance, which is none of them

	Parameters map[string]struct {
		Default string `yaml:"Default"`
	} `yaml:"Parameters"`
	Mappings  map[string]map[string]map[string]string `yaml:"Mappings"`
	Resources map[string]struct {
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
		value = strings.Trim(value, `"`)
		_, known := t.Parameters[name]
		switch {
		case name == gone:
			t.allowance = value
		case !known:
			return t, fmt.Errorf("%s has no parameter %q: check its spelling, and samconfig.toml", path, name)
		default:
			t.parameters[name] = value
		}
	}
	return t, nil
}

// reserved sums the concurrency that the functions reserve, each by !If [Reserves, N, …], in
// which N is a number or stands in a mapping under the Size.
func (t template) reserved() (sum int, err error) {
	size := t.parameters["Size"]
	if size == "sandbox" { // the condition Reserves
		return 0, nil
	}
	for id, r := range t.Resources {
		reserved := r.Properties.Reserved.Content
		if len(reserved) == 0 {
			continue
		}
		text := reserved[1].Value
		if mapped := reserved[1].Content; len(mapped) == 3 {
			text = t.Mappings[mapped[0].Value][size][mapped[2].Value]
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return 0, fmt.Errorf("what %s reserves: %w", id, err)
		}
		sum += n
	}
	return sum, nil
}
