package remit_test

import (
	"slices"
	"strings"
	"testing"
)

// TestRightsFollowTheVariables: a function learns the names of tables, queues
// and secrets from its variables alone, and TestEveryFunctionIsGivenWhatItReads
// holds those against the code. So a statement about a resource that no
// variable names grants a right that no code uses, and a variable without a
// statement leads to AccessDenied. Which actions are used is measured on a
// deployment, by e2e.
func TestRightsFollowTheVariables(t *testing.T) {
	resources := readResources(t)
	grantable := map[string]bool{}
	for name, r := range resources {
		switch r["Type"] {
		case "AWS::DynamoDB::Table", "AWS::SQS::Queue", "AWS::SecretsManager::Secret":
			grantable[name] = true
		}
	}
	if len(grantable) == 0 {
		t.Fatal("template.yaml has no table, queue or secret: have its types changed?")
	}
	for name, r := range resources {
		if r["Type"] != "AWS::Serverless::Function" {
			continue
		}
		named, granted := map[string]string{}, map[string][]string{}
		variables, _ := at(r, "Properties", "Environment", "Variables").(map[string]any)
		for variable, value := range variables {
			if id, ok := value.(string); ok && grantable[id] {
				named[id] = variable
			}
		}
		for _, s := range statements(r) {
			for _, resource := range words(s["Resource"]) {
				id, _, _ := strings.Cut(strings.TrimPrefix(resource, "${"), ".")
				if grantable[id] {
					granted[id] = append(granted[id], words(s["Action"])...)
				}
			}
		}
		for _, event := range functionEvents(r) {
			if queue, _ := at(event, "Properties", "Queue").(string); queue != "" {
				id, _, _ := strings.Cut(queue, ".")
				named[id] = "its event source"
				granted[id] = append(granted[id], "by SAM")
			}
		}
		for id, actions := range granted {
			if named[id] == "" {
				t.Errorf("%s is granted %v on %s and has no variable that names it: take the statement away, or read the variable that the code needs",
					name, slices.Compact(actions), id)
			}
		}
		for id, variable := range named {
			if granted[id] == nil {
				t.Errorf("%s reads %s (%s) and no statement grants an action on it: add one under Policies, with the actions that the code calls", name, id, variable)
			}
		}
	}
}
