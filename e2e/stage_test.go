package e2e_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/proof/guidetest"
)

// TestStage types the lines that `make stage` prints, and then Ctrl-C.
func TestStage(t *testing.T) {
	needsCloud(t)
	printed, err := os.Create(filepath.Join(t.TempDir(), "printed"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("make", "--no-print-directory", "stage")
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, printed, printed
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	screen := func() string {
		text, _ := os.ReadFile(printed.Name())
		return string(text)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if <-ended; t.Failed() {
			t.Log(screen())
		}
	})
	until(t, "the stage", 10*time.Minute, func() bool {
		select {
		case <-ended:
			t.Fatal("it ended")
		default:
		}
		return strings.Contains(screen(), "Ctrl-C ends it")
	})
	_, invitation, _ := strings.Cut(screen(), "\n  . ")
	variables, rest, _ := strings.Cut(invitation, "\n")
	typed := func(line string) string {
		shell := exec.CommandContext(t.Context(), "bash", "-c", ". "+variables+"\n"+guidetest.Curl+line)
		shell.Dir = root
		out, err := shell.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
		return string(out)
	}
	want := []string{"ok   nodes agree", "active", "remit_test_", "was given 1000 tokens and 1 ether", `"tx_hash":"0x`, "the webhook arrives"}
	for line := range strings.Lines(rest) {
		if !strings.HasPrefix(line, "  ") {
			continue
		}
		if len(want) == 0 || !strings.Contains(typed(line), want[0]) {
			t.Errorf("%s: its answer lacks %v", line, want)
			continue
		}
		want = want[1:]
	}
	if len(want) > 0 {
		t.Errorf("no line is answered with %v", want)
	}
	api := strings.TrimSpace(typed("echo $API"))
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil { // as a terminal does
		t.Fatal(err)
	}
	<-ended
	if _, err := os.Stat(filepath.Join(root, variables)); err == nil {
		t.Errorf("%s is left", variables)
	}
	if conn, err := net.Dial("tcp", strings.Split(api, "/")[2]); err == nil {
		_ = conn.Close()
		t.Errorf("%s still listens", api)
	}
}
