package e2e_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/sns"

	"github.com/remit-payouts/remit/e2e/localaws"
	"github.com/remit-payouts/remit/internal/cli/preflight"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// TestPreflight: in an account where nobody has prepared anything preflight finds
// what would fail the deployment, or its alarms, and the commands that it prints
// mend all that a command can. It changes nothing itself.
func TestPreflight(t *testing.T) {
	needsCloud(t)
	cloud, err := localaws.StartCloud(t.Context(), localaws.Config{Root: root, Dir: t.TempDir(), Progress: t.Output()})
	must.OK(t, err)
	t.Cleanup(cloud.Close)
	for _, pair := range cloud.Environment() {
		name, value, _ := strings.Cut(pair, "=")
		t.Setenv(name, value)
	}
	topic, err := sns.NewFromConfig(cloud.Administrator()).CreateTopic(t.Context(), &sns.CreateTopicInput{Name: aws.String("alarms")})
	must.OK(t, err)
	key := must.Get(kms.NewFromConfig(cloud.Administrator()).CreateKey(t.Context(), nil))(t)
	fly := func(parameters ...string) (string, error) {
		var out bytes.Buffer
		command := preflight.Command{Stack: "remit-prod", Template: filepath.Join(root, "template.yaml"), Parameters: append([]string{
			"Environment=prod", "Mode=live", "AlarmTopicArn=" + *topic.TopicArn, "KmsKeyArn=" + *key.KeyMetadata.Arn,
		}, parameters...)}
		err := command.Run(t.Context(), &out)
		return out.String(), err
	}
	empty, err := fly()
	if want := "log role of API Gateway, alarm topic, CloudTrail, KMS key"; !errors.Is(err, preflight.ErrNotReady) ||
		strings.Join(bad(empty), ", ") != want {
		t.Fatalf("an empty account: %v, want %s:\n%s", err, want, empty)
	}
	if again, _ := fly(); again != empty {
		t.Errorf("preflight changed what it examined:\n%s\nthen\n%s", empty, again)
	}
	mend(t, empty)
	if mended, err := fly(); err != nil {
		t.Errorf("after its own commands: %v\n%s", err, mended)
	}

	// The local AWS has a quota of 1,000.
	crowded, err := fly("Size=medium")
	if want := "--desired-value 1176"; !errors.Is(err, preflight.ErrNotReady) || !strings.Contains(crowded, want) {
		t.Errorf("more than the quota leaves: %v, want %s:\n%s", err, want, crowded)
	}
	elsewhere, err := fly("AlarmTopicArn=" + strings.Replace(*topic.TopicArn, cloud.Region, "eu-west-1", 1))
	if names := bad(elsewhere); err == nil || names[0] != "region" {
		t.Errorf("a topic of another region: %v:\n%s", err, elsewhere)
	}
	if _, err := fly("DailyLimti=1"); err == nil || !strings.Contains(err.Error(), "DailyLimti") {
		t.Errorf("a misspelt parameter: %v", err)
	}
}

// bad returns the names of preflight's findings.
func bad(printed string) (names []string) {
	for line := range strings.Lines(printed) {
		if name, found := strings.CutPrefix(line, "BAD  "); found {
			name, _, _ = strings.Cut(name, ":")
			names = append(names, name)
		}
	}
	return names
}

// mend runs the commands of the AWS CLI that preflight has printed, but those with a gap
// that a person fills.
func mend(t *testing.T, printed string) {
	t.Helper()
	awscli := must.Get(filepath.Abs(filepath.Join(root, ".cache/awscli/bin")))(t)
	for line := range strings.Lines(printed) {
		command, found := strings.CutPrefix(line, "     ")
		if !found || strings.Contains(command, "remit settings") || strings.Contains(command, "…") {
			continue
		}
		shell := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", command)
		shell.Env = append(os.Environ(), "PATH="+awscli+":"+os.Getenv("PATH"))
		if out, err := shell.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
}
