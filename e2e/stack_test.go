// Package e2e_test uses the deployed template as merchants, operators and thieves
// do, and holds it against openapi.yaml and the rights that it gives.
package e2e_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/remit-payouts/remit/e2e/localaws"
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
