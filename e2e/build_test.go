package e2e_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/remit-payouts/remit/internal/proof/must"
)

// TestBuildsAreReproducible builds the largest function and the one before all
// others twice, in different directories. A build that differed would publish
// new versions of functions that did not change.
func TestBuildsAreReproducible(t *testing.T) {
	needsCloud(t) // and the flags of Lambda, which compile everything once more: not for make test
	elsewhere := filepath.Join(t.TempDir(), "copy")
	for _, dir := range []string{"functions", "internal"} {
		must.OK(t, os.CopyFS(filepath.Join(elsewhere, dir), os.DirFS(filepath.Join(root, dir))))
	}
	for _, file := range []string{"go.mod", "go.sum"} {
		b, err := os.ReadFile(filepath.Join(root, file))
		must.OK(t, errors.Join(err, os.WriteFile(filepath.Join(elsewhere, file), b, 0o600)))
	}
	for _, function := range []string{"authorizer", "send-payment"} {
		if here, there := build(t, root, function), build(t, elsewhere, function); here != there {
			t.Errorf("%s is %s here and %s in a copy of the repository", function, here, there)
		}
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

// TestAFunctionThatCannotStartSaysWhy: all of it, in one go.
func TestAFunctionThatCannotStartSaysWhy(t *testing.T) {
	s := start(t)
	cmd := exec.CommandContext(t.Context(), filepath.Join(s.Build(), "SendPaymentFunction", "bootstrap"))
	cmd.Env = []string{"AWS_LAMBDA_RUNTIME_API=127.0.0.1:1", "CHAIN_ID=base", "NETWORK=devnet"}
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 {
		t.Errorf("it ended with %v", err)
	}
	for _, name := range []string{
		"PAYMENTS_TABLE is not set", "WALLET_SECRETS is not set", "RPC_SECRET is not set", "SETTLE_QUEUE_URL is not set", "CHAIN_ID:",
		"set Network, TokenAddress, TokenSymbol and TokenDecimals",
	} {
		if !bytes.Contains(out, []byte(name)) {
			t.Errorf("it does not say %q:\n%s", name, out)
		}
	}
	if bytes.Contains(out, []byte("NETWORK is")) {
		t.Errorf("it complains about what is there:\n%s", out)
	}
}

// build compiles a function with the Makefile's flags for Lambda and returns
// the SHA-256 of the binary.
func build(t *testing.T, dir, function string) string {
	t.Helper()
	makefile := must.Get(os.ReadFile(root + "/Makefile"))(t)
	flags := regexp.MustCompile(`export GOFLAGS := (.+)`).FindSubmatch(makefile)
	if flags == nil {
		t.Fatal("the Makefile sets no GOFLAGS")
	}
	binary := filepath.Join(t.TempDir(), "bootstrap")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./functions/"+function)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOFLAGS="+string(flags[1]), "PWD="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", function, err, out)
	}
	b := must.Get(os.ReadFile(binary))(t)
	t.Logf("%s: %d bytes", function, len(b))
	return fmt.Sprintf("%x", sha256.Sum256(b))
}
