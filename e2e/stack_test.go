// Package e2e_test uses the deployed template as merchants, operators and thieves
// do, and holds it against openapi.yaml and the rights that it gives.
package e2e_test

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

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
	shown sync.Map // the tests and functions whose log is shown if the test fails
}

// needsCloud ends the test on a machine without the local AWS, or a shell for its scripts.
func needsCloud(t *testing.T) {
	t.Helper()
	tooltest.Shell(t)
	tooltest.Path(t, "the local AWS and the SAM CLI", ".cache/venv/bin/ministack")
}

// recorded says how to start a cloud below dir that records functions' calls.
func recorded(dir string) (localaws.Config, *calls, error) {
	calls := &calls{seen: map[right]bool{}, sent: map[string]sent{}, asks: map[string]ask{}}
	program, err := remit()
	return localaws.Config{Root: root, Dir: dir, Remit: program, Progress: os.Stderr, Between: calls.start}, calls, err
}

// deployed is the one stack of this test binary. The gateway caches the authorizer's answers for
// seconds, not for a minute: tests wait until they expire.
var deployed = sync.OnceValues(func() (*stack, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	config, calls, err := recorded(scratch)
	if err != nil {
		return nil, err
	}
	s, err := localaws.Deploy(ctx, config)
	if err != nil {
		return nil, err
	}
	onPaper = calls.onPaper
	return &stack{Stack: s, calls: calls}, s.Reauthorize(ctx, 2)
})

// another deploys the template on a cloud of its own, without a rail, and returns the directory of the build too: the
// other tests', if they came first.
func another(t *testing.T, parameters ...string) (*stack, string) {
	t.Helper()
	needsCloud(t)
	config, calls, err := recorded(t.TempDir())
	must.OK(t, err)
	started := must.Get(localaws.Start(t.Context(), config))(t)
	t.Cleanup(func() { _ = started.Close() })
	build := filepath.Join(scratch, "build")
	must.OK(t, func() error {
		building.Lock()
		defer building.Unlock()
		if _, err := os.Stat(filepath.Join(build, "template.yaml")); err == nil {
			return nil
		}
		return started.Run(t.Context(), "make", "build", "ARGS=--build-dir "+build+" --parameter-overrides "+localaws.Architecture)
	}())
	must.OK(t, started.Install(t.Context(), build, parameters...))
	return &stack{Stack: started, calls: calls}, build
}

// building is held while a build is looked for or made.
var building sync.Mutex

// scratch is a directory for the files of the deployment, onPaper the check of all requests of a stack.
var (
	scratch string
	onPaper = func() error { return nil }
)

func TestMain(m *testing.M) {
	os.Exit(func() int {
		flag.Parse()
		err := flag.Set("test.parallel", "4") // they wait for other processes
		if err == nil {
			scratch, err = os.MkdirTemp("", "remit-e2e-")
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(scratch) }()
		code := m.Run()
		if err := onPaper(); err != nil {
			fmt.Fprintln(os.Stderr, "--- FAIL: TestMain:", err)
			return 1
		}
		return code
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
	const most = 12_700_000
	found, err := filepath.Glob(filepath.Join(start(t).Build(), "*Function", "bootstrap"))
	if err != nil || len(found) != 27 {
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

// TestSAMLocal holds docs/sam-local.md against tools/local-services: the names that the page uses exist, env.json sets
// the variables that the template declares, and with it the functions pay and settle.
func TestSAMLocal(t *testing.T) {
	s := start(t)
	environment := localServices(t)
	page := must.Get(os.ReadFile(root + "/docs/sam-local.md"))(t)
	help := exec.CommandContext(t.Context(), "tools/local-services", "--help")
	help.Dir, help.Env = root, append(os.Environ(), "REMIT=unused")
	options, err := help.CombinedOutput()
	if err != nil {
		t.Fatalf("tools/local-services --help: %v\n%s", err, options)
	}
	named := regexp.MustCompile(`sam local invoke (\w+) -e (\S+)`).FindAllStringSubmatch(string(page), -1)
	for _, m := range named {
		if _, err := os.Stat(filepath.Join(root, m[2])); environment[m[1]] == nil || err != nil && m[2] != "job.json" {
			t.Errorf("the page names %s and %s: %v", m[1], m[2], err)
		}
	}
	for _, option := range []string{"--set", "--bind", "job"} {
		if !bytes.Contains(page, []byte(option)) || !bytes.Contains(options, []byte(option)) {
			t.Errorf("the page and the help do not both have %s", option)
		}
	}
	if len(named) < 3 {
		t.Errorf("the page invokes %d functions: has its form changed?", len(named))
	}
	for logical, physical := range s.Resources { // `sam local` sets no variable that is not declared, and is silent
		if strings.HasSuffix(logical, "Function") {
			declared := slices.Sorted(maps.Keys(s.configuration(t, physical).Environment.Variables))
			if set := slices.Sorted(maps.Keys(environment[logical])); !slices.Equal(set, declared) {
				t.Errorf("env.json sets %v of %s, template.yaml declares %v", set, logical, declared)
			}
		}
	}

	invoke := func(function, event string) string {
		env := environment[function+"Function"]
		url := env["AWS_ENDPOINT_URL"]
		functions := lambda.NewFromConfig(aws.Config{Region: "us-east-1", BaseEndpoint: &url,
			Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})
		if _, err := functions.GetFunction(t.Context(), &lambda.GetFunctionInput{FunctionName: &function}); err != nil {
			create(t, functions, function, function, "arn:aws:iam::000000000000:role/any", env)
		}
		in := &lambda.InvokeInput{FunctionName: &function, Payload: sample(t, event)}
		return string(must.Get(functions.Invoke(t.Context(), in))(t).Payload)
	}
	paid, batch := "", ""
	t.Cleanup(func() { t.Log(paid, batch) })
	until(t, "confirming", func() bool {
		paid, batch = invoke("SendPayment", "send-payment"),
			invoke("SendPayments", "send-payments") // again and again, under their idempotency keys
		if got := invoke("CheckReceipts", "check-receipts"); got != "null" {
			t.Fatalf("check-receipts answered %s", got)
		}
		const confirmed = `\"status\":\"confirmed\"`
		return strings.Contains(paid, confirmed) && strings.Contains(batch, confirmed)
	})
}

// localServices starts tools/local-services and returns env.json: variables by the functions' logical names. The
// services end with the pipe that the test holds.
func localServices(t *testing.T) (environment map[string]map[string]string) {
	t.Helper()
	program := must.Get(remit())(t)
	dir := t.TempDir()
	args := []string{"--bind", "127.0.0.1", "--host", "127.0.0.1", "--block-time", "200ms", "--until-eof",
		"--env", filepath.Join(dir, "env.json"), "--state", filepath.Join(dir, "state")}
	for _, option := range []string{"--port", "--chain-port"} {
		args = append(args, option, fmt.Sprint(must.Get(localaws.FreePort())(t)))
	}
	cmd := exec.Command("tools/local-services", args...)
	cmd.Dir, cmd.Env, cmd.Stderr = root, append(os.Environ(), "REMIT="+program), os.Stderr
	out := must.Get(cmd.StdoutPipe())(t)
	hold := must.Get(cmd.StdinPipe())(t)
	must.OK(t, cmd.Start())
	t.Cleanup(func() { _ = hold.Close(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("tools/local-services ended: %v", err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	text, err := os.ReadFile(filepath.Join(dir, "env.json"))
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	must.OK(t, json.Unmarshal(text, &environment))
	return environment
}
