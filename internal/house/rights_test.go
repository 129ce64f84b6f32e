package house_test

import (
	"slices"
	"strings"
	"testing"
)

// TestRightsFollowTheVariables: a function learns the names of tables, queues and secrets only from
// its variables, which TestEveryFunctionIsGivenWhatItReads compares with the code. A statement
// about any other resource grants an unused right, and a variable without a statement leads to
// AccessDenied. e2e measures the used actions.
func TestRightsFollowTheVariables(t *testing.T) {
	all, sources := resources(t, ""), files(t)
	global := at[node](readTemplate(t), "Globals.Function.Environment.Variables")
	grantable := func(id string) bool {
		kind := at[string](all[id], "Type")
		return slices.Contains([]string{"AWS::DynamoDB::Table", "AWS::SQS::Queue", "AWS::SecretsManager::Secret"}, kind)
	}
	for name, f := range functions(t) {
		named, granted := map[string]string{}, map[string][]string{}
		read := map[string]bool{}
		variables(t, sources, "functions/"+name, "wire", read)
		for variable := range read {
			value := global[variable]
			if v := at[node](f, "Environment.Variables")[variable]; v != nil {
				value = v
			}
			if id, _ := own(value).(string); grantable(id) {
				named[id] = variable
			}
		}
		for _, s := range at[[]node](f, "Rights") {
			for _, resource := range words(own(s["Resource"])) {
				if id, _, _ := strings.Cut(strings.TrimPrefix(resource, "${"), "."); grantable(id) {
					granted[id] = append(granted[id], words(s["Action"])...)
				}
			}
		}
		for _, event := range at[node](f, "Events") {
			if id, _, ok := strings.Cut(at[string](event, "Properties.Queue"), "."); ok {
				named[id] = "its event source"
			}
		}
		if id, _, ok := strings.Cut(at[string](f, "EventInvokeConfig.DestinationConfig.OnFailure.Destination"), "."); ok {
			named[id] = "where its failed runs go"
		}
		for id, actions := range granted {
			if named[id] == "" {
				t.Errorf("%s is granted %v on %s and has no variable that names it: take the statement away, or read the variable that the "+
					"code needs", name, actions, id)
			}
		}
		for id, variable := range named {
			if granted[id] == nil {
				t.Errorf("%s uses %s (%s) and its role grants no action on it: add the policy of each action that the code calls", name, id, variable)
			}
		}
	}
}
