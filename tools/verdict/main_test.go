package main

import (
	"strings"
	"testing"
)

func TestVerdict(t *testing.T) {
	const (
		pass    = `{"Action":"pass","Package":"p","Test":"TestB","Elapsed":0.5}` + "\n"
		skip    = `{"Action":"skip","Package":"p","Test":"TestA/\"x\"","Elapsed":0}` + "\n"
		message = `{"Action":"output","Package":"p","Test":"TestA/\"x\"","Output":"    a_test.go:3: `
	)
	const needs = `{"Action":"output","Package":"p","Test":"TestA/\"x\"","Output":"    a_test.go:3: needs a 'moon': run it\n"}` + "\n" + skip
	const list = "Left out, since this machine lacks what they need"
	for _, row := range []struct {
		name, events string
		env          string
		failed       string // as gotestsum counts
		ok           bool
		want         string
	}{
		{name: "tests that pass", events: pass + pass, failed: "0", ok: true, want: "2 passed, 0 failed\n"},
		{name: "a test that fails", events: pass, failed: "1", want: "1 passed, 1 failed\n"},
		{
			name: "a skipped test did not run, so it failed", events: pass + message + `no reason\n"}` + "\n" + skip, failed: "0",
			want: "skipped, which counts as failed: p TestA/\"x\"\n1 passed, 1 failed\n",
		},
		{
			name: "an operating system may lack a feature", events: pass + message + `operating system: no IPv6 loopback\n"}` + "\n" + skip,
			failed: "0",
			ok:     true, want: "1 passed, 0 failed\n",
		},
		{
			name:   "the message of one test excuses no other",
			events: pass + `{"Action":"output","Package":"p","Test":"TestB","Output":"    a_test.go:3: operating system: no IPv6\n"}` + "\n" + skip,
			failed: "0", want: "1 passed, 1 failed\n",
		},
		{
			name: "a package is no test", failed: "0", ok: true, want: "1 passed, 0 failed\n",
			events: `{"Action":"skip","Package":"p"}` + "\n" + pass + `{"Action":"pass","Package":"p"}` + "\n",
		},
		{
			name: "a tool that the machine lacks", events: pass + needs + strings.ReplaceAll(needs, "TestA", "TestC"), failed: "0",
			ok: true, want: list + ":\n  2 tests: a 'moon': run it\n1 passed, 0 failed\n",
		},
		{name: "the same under CI", events: pass + needs, env: "CI=true", failed: "0", want: "  1 tests: a 'moon': run it\n1 passed, 1 failed\n"},
		{name: "CI is not meant", events: pass + needs, env: "CI=false", failed: "0", ok: true, want: "1 passed, 0 failed\n"},
		{
			name: "a machine without a C compiler", events: pass, env: "NO_RACE=a C compiler", failed: "0",
			ok: true, want: list + ":\n  the race detector, in all 1 tests: a C compiler\n1 passed, 0 failed\n",
		},
		{name: "no test at all", failed: "0", want: "0 passed, 0 failed\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			env := map[string]string{"TESTS_FAILED": row.failed}
			name, value, _ := strings.Cut(row.env, "=")
			env[name] = value
			var out strings.Builder
			err := judge(&out, strings.NewReader(row.events), func(name string) string { return env[name] })
			if ok := err == nil; ok != row.ok || !strings.HasSuffix(out.String(), row.want) {
				t.Errorf("%v, printed:\n%swant:\n%s", err, &out, row.want)
			}
		})
	}
}
