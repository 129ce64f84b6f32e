package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRead: the word is found in comments and in prose, and in neither code nor messages.
func TestRead(t *testing.T) {
	counts := map[string]*count{}
	for name, text := range map[string]string{
		"a.md":   "What is paid counts.\n\n```\nwhat\n```\n",
		"b/c.go": "package b\n\n// A run ends.\n//\n// It tells what is left.\nvar x = \"what\" // What else\n",
	} {
		if err := read(counts, name, []byte(text)); err != nil {
			t.Error(err)
		}
	}
	want := map[string][]string{"Markdown": {"a.md: What is paid counts."},
		"b": {"b/c.go:3:1: It tells what is left.", "b/c.go:6:16: What else"}}
	for kind, c := range counts {
		if diff := cmp.Diff(want[kind], c.found); diff != "" || !c.bad() {
			t.Error(diff, c.bad())
		}
	}
	if few := (&count{1000, []string{"one"}}); few.bad() {
		t.Error("one in 1,000 is too many")
	}
}
