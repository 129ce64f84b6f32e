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
		if _, err := read(counts, name, []byte(text)); err != nil {
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

// TestSteps: an error needs an instruction, or a cause at its end.
func TestSteps(t *testing.T) {
	got, err := read(map[string]*count{}, "internal/cli/x.go", []byte(`package x

var (
	_ = errors.New("the key is lost; run remit keys " + "issue")
	_ = fmt.Errorf("reading %s: %w", name, err)
	_ = fmt.Errorf("%w: the key is %s", err, name)
	_ = errors.New("the key is lost")
	_ = errors.New("nothing was changed")
)
`))
	want := []string{"internal/cli/x.go:6:6: %w: the key is %s", "internal/cli/x.go:7:6: the key is lost"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}
