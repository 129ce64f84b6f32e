package main

import (
	"cmp"
	"strings"
	"testing"
)

func TestVerdict(t *testing.T) {
	event := func(action, test, output string) string {
		return `{"Action":"` + action + `","Package":"p","Test":"` + test + `","Output":"` + output +
			`","Elapsed":0.5}` + "\n"
	}
	skip := func(test, message string) string {
		return event("output", test, `    a_test.go:3: `+message+`\n`) + event("skip", test, "")
	}
	pass, moon := event("pass", "TestB", ""), skip("TestA", "needs a 'moon': buy it")
	const slowest = "The slowest packages and tests:\n"
	for _, row := range []struct {
		name, events string
		all          bool
		noRace       string
		ok           bool
		want         string
	}{
		{name: "tests that pass", events: pass + pass + event("pass", "", ""), all: true, ok: true,
			want: "ok    p                                            2 passed     0.5 s\n" + slowest +
				"  p                                                                0.5 s\n" +
				"  p TestB                                                          0.5 s\n2 passed, 0 failed\n"},
		{name: "a test that fails prints what it said", events: pass + event("output", "TestC", `why\n`) +
			event("fail", "TestC", ""), want: "FAIL  p TestC\nwhy\n" + slowest, all: true},
		{name: "an attribute is printed", ok: true, want: "TestB: 12 states\n" + slowest,
			events: `{"Action":"attr","Test":"TestB","Key":"states","Value":"12"}` + "\n" + pass},
		{name: "its package fails with it",
			events: pass + event("fail", "TestC", "") + event("fail", "", ""), want: "1 passed, 1 failed\n"},
		{name: "a package that fails without a test",
			events: pass + event("output", "", `panic\n`) + event("fail", "", ""), want: "panic\nFAIL  p "},
		{name: "and counts", events: pass + event("fail", "", ""), want: "1 passed, 1 failed\n"},
		{name: "code that does not compile",
			events: `{"Action":"build-output","ImportPath":"p","Output":"main.go:1\n"}` + "\n" + pass,
			want:   "main.go:1\n", ok: true},
		{name: "a skipped test did not run, so it failed", events: pass + skip("TestA", "no reason"),
			want: "skipped, which counts as failed: p TestA\n    a_test.go:3: no reason\n"},
		{name: "and counts too", events: pass + skip("TestA", "no reason"), want: "1 passed, 1 failed\n"},
		{name: "an operating system may lack a feature",
			events: pass + skip("TestA", "operating system: no IPv6"), ok: true, want: "1 passed, 0 failed\n"},
		{name: "the message of one test excuses no other", want: "1 passed, 1 failed\n", events: event("output",
			"TestB", "    a_test.go:3: operating system: no IPv6") + pass + event("skip", "TestA", "")},
		{name: "a package without tests is no test",
			events: event("skip", "", "") + pass, ok: true, want: "1 passed, 0 failed\n"},
		{name: "what needs a tool is left out", events: pass + moon + strings.ReplaceAll(moon, "TestA", "TestC"),
			ok: true, want: "Left out: 2 tests. make test-all runs them"},
		{name: "also by make test-all, where the machine lacks it", events: pass + moon, all: true, ok: true,
			want: "left out: 1 tests need a 'moon': buy it\n1 passed, 0 failed\n"},
		{name: "a machine without a C compiler", events: pass, all: true, noRace: "a C compiler", ok: true,
			want: "left out: the race detector, which needs a C compiler\n1 passed, 0 failed\n"},
		{name: "no test at all", want: "0 passed, 0 failed\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			var out strings.Builder
			tally := newTally(&out)
			err := cmp.Or(tally.read(strings.NewReader(row.events)), tally.end(row.all, row.noRace))
			said := out.String()
			if ok := err == nil; ok != row.ok || !strings.Contains(said, row.want) || !strings.HasSuffix(said, " failed\n") {
				t.Errorf("%v, printed:\n%swant:\n%s", err, said, row.want)
			}
		})
	}
}
