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
