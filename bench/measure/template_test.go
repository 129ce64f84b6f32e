package measure_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/remit-payouts/remit/internal/proof/must"
)

// A template is template.yaml, as far as it sets functions' environments.
type template struct {
	Parameters map[string]struct {
		Default string `yaml:"Default"`
	} `yaml:"Parameters"`
	Globals struct {
		Function yaml.Node `yaml:"Function"`
	} `yaml:"Globals"`
	Resources map[string]struct {
		Properties yaml.Node `yaml:"Properties"`
	} `yaml:"Resources"`
}

func readTemplate(b *testing.B) (t template) {
	must.OK(b, yaml.Unmarshal(must.Get(os.ReadFile(root+"/template.yaml"))(b), &t))
	return t
}

// environment has a function's variables and the global ones; "" has these alone.
func (t template) environment(b *testing.B, function string) (env []string) {
	name, all := "", map[string]yaml.Node{} // of create-api-key: CreateApiKeyFunction
	for word := range strings.SplitSeq(function, "-") {
		if word != "" {
			name += strings.ToUpper(word[:1]) + word[1:]
		}
	}
	for _, node := range []yaml.Node{t.Globals.Function, t.Resources[name+"Function"].Properties} {
		p := struct {
			Environment struct {
				Variables map[string]yaml.Node `yaml:"Variables"`
			} `yaml:"Environment"`
		}{}
		if p.Environment.Variables = all; node.Kind != 0 {
			must.OK(b, node.Decode(&p))
		}
	}
	for name, node := range all {
		env = append(env, fmt.Sprint(name, "=", t.value(node)))
	}
	return env
}

// value is a node's in a stack of the defaults; "bench" stands for a name that AWS gives.
func (t template) value(node yaml.Node) string {
	p, isParameter := t.Parameters[node.Value]
	switch {
	case node.Kind == yaml.ScalarNode && strings.HasPrefix(node.Tag, "!!"):
		return node.Value
	case node.Tag == "!Ref" && isParameter:
		return p.Default
	case node.Tag == "!If": // the defaults take the second branch, but for tables and secrets of the stack's own
		if other := t.value(*node.Content[2]); other != "" {
			return other
		}
		return t.value(*node.Content[1])
	}
	return "bench"
}
