package e2e_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/e2e/localaws"
	"github.com/remit-payouts/remit/internal/proof/must"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
)

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
	for logical, physical := range s.Resources { // `sam local` sets no variable that is not declared, and says nothing about it
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
		out, err := functions.Invoke(t.Context(), &lambda.InvokeInput{FunctionName: &function, Payload: sample(t, event)})
		must.OK(t, err)
		return string(out.Payload)
	}
	paid, batch := "", ""
	t.Cleanup(func() { t.Log(paid, batch) })
	until(t, "confirming", 3*time.Minute, func() bool {
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
		port := must.Get(localaws.FreePort())(t)
		args = append(args, option, fmt.Sprint(port))
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
