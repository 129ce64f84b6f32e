package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// TestVersionAndHelp: words do the same as flags.
func TestVersionAndHelp(t *testing.T) {
	version = "v0.1.0"
	for line, want := range map[string]string{
		"--version":   "remit v0.1.0\n",
		"version":     "remit v0.1.0\n",
		"help":        "Usage: remit <command>,",
		"help wallet": "Usage: remit wallet <command>",
	} {
		var b bytes.Buffer
		parser := newParser(&commands{}, kong.Writers(&b, &b), kong.Exit(func(int) { panic(true) }))
		func() {
			defer func() { _ = recover() }()
			_, _ = parser.Parse(spelled(strings.Fields(line)))
		}()
		if !strings.HasPrefix(b.String(), want) {
			t.Errorf("remit %s prints\n%s", line, &b)
		}
	}
	if version = ""; !strings.HasPrefix(builtAs(), "remit ") || len(builtAs()) < 8 {
		t.Errorf("a program that is no release calls itself %q", builtAs())
	}
}
