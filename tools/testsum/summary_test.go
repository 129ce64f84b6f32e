package main

import (
	"strings"
	"testing"
)

func TestSummary(t *testing.T) {
	for _, tt := range []struct {
		name   string
		stream string
		well   bool
		want   []string
		hidden string
	}{
		{
			name: "a passing test's output is nobody's concern",
			stream: `{"Action":"output","Package":"p","Test":"TestA","Output":"chatter\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Elapsed":0.5}`,
			well: true, want: []string{"ok    p", "1 passed, 0 failed\n"}, hidden: "chatter",
		},
		{
			name: "a failing test shows what it printed",
			stream: `{"Action":"output","Package":"p","Test":"TestA","Output":"seed 7\n"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}`,
			want: []string{"seed 7\n", "FAIL  p", "0 passed, 1 failed\n"},
		},
		{
			name:   "a skipped test did not run, so it failed",
			stream: `{"Action":"skip","Package":"p","Test":"TestA"}`,
			want:   []string{"skipped, which counts as failed: p TestA", "0 passed, 1 failed\n"},
		},
		{
			name: "an operating system may lack a feature",
			stream: `{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:3: operating system: no IPv6 loopback\n"}
{"Action":"skip","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestB"}`,
			well: true, want: []string{"this operating system cannot: p TestA", "1 passed, 0 failed\n"},
		},
		{
			name: "a panic that names no test counts as one",
			stream: `{"Action":"output","Package":"p","Output":"panic: boom\n"}
{"Action":"fail","Package":"p"}`,
			want: []string{"panic: boom\n", "0 passed, 1 failed\n"},
		},
		{
			name: "a package that does not compile counts as one",
			stream: `{"Action":"build-output","ImportPath":"p [p.test]","Output":"x.go:1: undefined: y\n"}
{"Action":"build-fail","ImportPath":"p [p.test]"}
{"Action":"fail","Package":"p","FailedBuild":"p [p.test]"}`,
			want: []string{"undefined: y\n", "0 passed, 1 failed\n"},
		},
		{
			name:   "a package without tests is no skipped test",
			stream: `{"Action":"skip","Package":"p"}` + "\n" + `{"Action":"pass","Package":"q","Test":"TestB"}`,
			well:   true, want: []string{"1 passed, 0 failed\n"},
		},
		{
			name:   "the go command's own complaint is passed on, and no test is not well",
			stream: "go: cannot find main module\n",
			want:   []string{"cannot find main module\n", "0 passed, 0 failed\n"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var out strings.Builder
			s := newSummary(&out)
			if err := s.read(strings.NewReader(tt.stream)); err != nil {
				t.Fatal(err)
			}
			if well := s.finish(); well != tt.well {
				t.Errorf("well = %v, want %v", well, tt.well)
			}
			for _, want := range tt.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("lacks %q:\n%s", want, out.String())
				}
			}
			if tt.hidden != "" && strings.Contains(out.String(), tt.hidden) {
				t.Errorf("shows %q:\n%s", tt.hidden, out.String())
			}
		})
	}
}
