package main

import (
	"testing"

	"remit/bench/lab"
)

// TestRulesAreThere keeps the table in step with the code. Whether each rule is
// missed when it is gone takes minutes: go run ./bench/sensitivity.
func TestRulesAreThere(t *testing.T) {
	root, err := lab.Root()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range rules() {
		if _, err := r.without(root); err != nil {
			t.Errorf("%s: %v", r.name, err)
		}
		if seen[r.name] || r.old == r.new {
			t.Errorf("%s: it is listed twice, or changes nothing", r.name)
		}
		seen[r.name] = true
	}
}
