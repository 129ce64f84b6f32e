package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRead: each construction is found in its kind of text, and nothing else is.
func TestRead(t *testing.T) {
	counts := map[string]*count{docs: {}, comments: {}, messages: {}}
	read(counts, "a.md", []byte("Who pays? Nobody.\nWhat is paid counts.\nThe rule is that of Go.\n\n```\nthose that\n```\n"))
	read(counts, "b.go", []byte("package b\n\n// A run ends. Whatever\n// is left goes.\n"+
		"var x = \"the key is one that expired\"\n\nvar y = \"one that\"\n"))
	got := map[string][]string{}
	for kind, c := range counts {
		got[kind] = c.found
	}
	want := map[string][]string{
		docs:     {"a.md: What is paid counts.", "a.md: The rule is that of Go."},
		comments: {"b.go: . Whatever is left goes."},
		messages: {"b.go: the key is one that expired"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestSteps: an error needs an instruction, or a cause at its end.
func TestSteps(t *testing.T) {
	got, err := steps("internal/cli/x.go", []byte(`package x

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
