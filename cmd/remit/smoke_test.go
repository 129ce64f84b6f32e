package main_test

import (
	"os/exec"
	"strings"
	"testing"
)

// TestSmoke: every step is taken, with a merchant of its own and with one that
// has other payments, whose webhooks arrive beside the one that is waited for.
func TestSmoke(t *testing.T) {
	_, m := local(t, "--chain-listen", "127.0.0.1:0", "--block-time", "250ms")
	m.join()
	m.must("POST", "/send-payment", `{"to":"0x2222222222222222222222222222222222222222","amount":1}`)
	for _, args := range [][]string{{m.url}, {m.url, "--key", m.key}} {
		out, err := exec.CommandContext(t.Context(), binary, append([]string{"smoke"}, args...)...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "signature verified") {
			t.Errorf("%v\n%s", err, out)
		}
	}
}

// TestNobodyListens: somebody who has not started a stack is told to.
func TestNobodyListens(t *testing.T) {
	for _, command := range []string{"smoke", "listen"} {
		out, err := exec.CommandContext(t.Context(), binary, command, "http://"+free(t)).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "start a stack there with remit local") {
			t.Errorf("%s: %v\n%s", command, err, out)
		}
	}
}
