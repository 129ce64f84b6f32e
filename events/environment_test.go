package events_test

import (
	"os"
	"testing"

	"gopkg.in/yaml.v3"
)

// TestEnvironmentFile: `sam local` sets no variable that the template does not
// declare for the function, and says nothing about it.
func TestEnvironmentFile(t *testing.T) {
	s := start(t)
	text, err := os.ReadFile(root + "/template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	type variables struct {
		Environment struct {
			Variables map[string]any `yaml:"Variables"`
		} `yaml:"Environment"`
	}
	var template struct {
		Globals struct {
			Function variables `yaml:"Function"`
		} `yaml:"Globals"`
		Resources map[string]struct {
			Type       string    `yaml:"Type"`
			Properties yaml.Node `yaml:"Properties"`
		} `yaml:"Resources"`
	}
	if err := yaml.Unmarshal(text, &template); err != nil {
		t.Fatal(err)
	}
	count := 0
	for name, r := range template.Resources {
		if r.Type != "AWS::Serverless::Function" {
			continue
		}
		count++
		var own variables
		if err := r.Properties.Decode(&own); err != nil {
			t.Fatal(err)
		}
		declared := map[string]bool{}
		for _, v := range []variables{template.Globals.Function, own} {
			for variable := range v.Environment.Variables {
				declared[variable] = true
				if _, ok := s.environment[name][variable]; !ok {
					t.Errorf("env.json does not set %s of %s", variable, name)
				}
			}
		}
		for variable := range s.environment[name] {
			if !declared[variable] {
				t.Errorf("env.json sets %s of %s, which template.yaml does not declare", variable, name)
			}
		}
	}
	if count == 0 || count != len(s.environment) {
		t.Errorf("env.json has %d functions, template.yaml %d", len(s.environment), count)
	}
}
