package e2e_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/proof/guidetest"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// TestStage types the lines that `make stage` prints.
func TestStage(t *testing.T) {
	o := newOperator(t)
	o.retireEmpty()
	o.s.calm(t)
	var screen strings.Builder
	leave := must.Get(o.s.Invite(t.Context(), &screen, scratch))(t)
	_, invitation, _ := strings.Cut(screen.String(), "\n  . ")
	variables, rest, _ := strings.Cut(invitation, "\n")
	want := []string{"ok   nodes agree", "active", "remit_test_", "was given 1000 tokens and 1 ether", `"tx_hash":"0x`, "the webhook arrives"}
	for line := range strings.Lines(rest) {
		if !strings.HasPrefix(line, "  ") {
			continue
		}
		shell := exec.CommandContext(t.Context(), "bash", "-c", ". "+variables+"\n"+guidetest.Curl+line)
		shell.Dir = root
		out, err := shell.CombinedOutput()
		if err != nil || len(want) == 0 || !strings.Contains(string(out), want[0]) {
			t.Fatalf("%s: its answer lacks %v: %v\n%s", line, want, err, out)
		}
		want = want[1:]
	}
	if len(want) > 0 {
		t.Errorf("no line is answered with %v", want)
	}
	if err := leave(); err != nil {
		t.Errorf("%s is left: %v", variables, err)
	}
}
