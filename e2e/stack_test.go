// Package e2e_test uses the deployed template as merchants, operators and thieves
// do, and holds it against openapi.yaml and the rights that it gives.
package e2e_test

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/remit-payouts/remit/e2e/localaws"
	"github.com/remit-payouts/remit/internal/proof/guidetest"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tooltest"
)

// root is the root of the repository, from here.
const root = ".."

// A stack is a deployed stack whose functions' calls of AWS are recorded.
type stack struct {
	*localaws.Stack
	calls *calls
}

// needsCloud ends the test on a machine without the local AWS, or a shell for its scripts.
func needsCloud(t *testing.T) {
	t.Helper()
	tooltest.Shell(t)
	tooltest.Path(t, "the local AWS and the SAM CLI", ".cache/venv/bin/ministack")
}

// recorded says how to start a cloud below dir that records functions' calls.
func recorded(dir string) (localaws.Config, *calls) {
	calls := &calls{seen: map[right]bool{}}
	return localaws.Config{Root: root, Dir: dir, Progress: os.Stderr, Between: calls.start}, calls
}

// deployed is the one stack of this test binary. The gateway caches the authorizer's answers for
// seconds, not for a minute: tests wait until they expire.
var deployed = sync.OnceValues(func() (*stack, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	config, calls := recorded(scratch)
	s, err := localaws.Deploy(ctx, config)
	if err != nil {
		return nil, err
	}
	return &stack{s, calls}, s.Reauthorize(ctx, 2)
})

// scratch is a directory for the files of the deployment.
var scratch string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if scratch, err = os.MkdirTemp("", "remit-e2e-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(scratch) }()
		return m.Run()
	}())
}

// start returns the stack, deploying it when first asked.
func start(t *testing.T) *stack {
	t.Helper()
	needsCloud(t)
	s, err := deployed()
	if err != nil {
		t.Fatalf("deploying: %v", err)
	}
	return s
}

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

// TestSizes holds the functions to a size that starts and ships quickly.
func TestSizes(t *testing.T) {
	const most = 12_500_000
	found, err := filepath.Glob(filepath.Join(start(t).Build(), "*Function", "bootstrap"))
	if err != nil || len(found) != 25 {
		t.Fatalf("%d functions are built: %v", len(found), err)
	}
	for _, bootstrap := range found {
		if info, err := os.Stat(bootstrap); err != nil || info.Size() > most {
			t.Errorf("%s has more than %d bytes: %+v, %v", bootstrap, most, info, err)
		}
	}
}

// archive returns a zip file with the bootstrap, which may be executed.
func archive(t *testing.T, bootstrap []byte) []byte {
	t.Helper()
	var zipped bytes.Buffer
	w := zip.NewWriter(&zipped)
	header := &zip.FileHeader{Name: "bootstrap", Method: zip.Store}
	header.SetMode(0o755)
	f := must.Get(w.CreateHeader(header))(t)
	must.Get(f.Write(bootstrap))(t)
	must.OK(t, w.Close())
	return zipped.Bytes()
}
