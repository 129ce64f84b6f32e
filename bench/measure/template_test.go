package measure_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/remit-payouts/remit/internal/proof/must"
)

// wholeCore is the megabytes of memory that come with a core (Lambda developer guide, "Configure Lambda function memory").
const wholeCore = 1769

// A template is template.yaml, as far as it sets functions' environments and memory.
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

// properties are a function's, from the global ones on; "" has these alone.
func (t template) properties(b *testing.B, function string) (memory yaml.Node, variables map[string]yaml.Node) {
	name := "" // of create-api-key: CreateApiKeyFunction
	for word := range strings.SplitSeq(function, "-") {
		if word != "" {
			name += strings.ToUpper(word[:1]) + word[1:]
		}
	}
	own, variables := t.Resources[name+"Function"].Properties, map[string]yaml.Node{}
	for _, node := range []yaml.Node{t.Globals.Function, own} {
		var p struct {
			MemorySize  yaml.Node `yaml:"MemorySize"`
			Environment struct {
				Variables map[string]yaml.Node `yaml:"Variables"`
			} `yaml:"Environment"`
		}
		if node.Kind == 0 {
			if function == "" {
				continue
			}
			b.Fatalf("template.yaml has no function %s", function)
		}
		p.MemorySize, p.Environment.Variables = memory, variables
		must.OK(b, node.Decode(&p))
		memory, variables = p.MemorySize, p.Environment.Variables
	}
	return memory, variables
}

func (t template) memory(b *testing.B, function string) float64 {
	memory, _ := t.properties(b, function)
	return must.Get(strconv.ParseFloat(t.value(memory), 64))(b)
}

func (t template) environment(b *testing.B, function string) (env []string) {
	_, variables := t.properties(b, function)
	for name, node := range variables {
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
