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
	"github.com/remit-payouts/remit/internal/cli/operator/check"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// TestPreflight: in an account where nobody has prepared anything preflight finds the missing log role,
// and its commands make it. It changes nothing itself.
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
	fly := func() (string, error) {
		var out bytes.Buffer
		command := check.Preflight{Stack: "remit-prod", Template: filepath.Join(root, "template.yaml"), Parameters: []string{
			"Environment=prod", "Mode=live", "AlarmTopicArn=" + *topic.TopicArn, "KmsKeyArn=" + *key.KeyMetadata.Arn,
		}}
		err := command.Run(t.Context(), &out)
		return out.String(), err
	}
	empty, err := fly()
	if !errors.Is(err, check.ErrNotReady) || strings.Count(empty, "BAD ") != 1 || !strings.Contains(empty, "BAD  log role") ||
		!strings.Contains(empty, "WARN alarm topics") {
		t.Fatalf("an empty account: %v\n%s", err, empty)
	}
	awscli := must.Get(filepath.Abs(filepath.Join(root, ".cache/awscli/bin")))(t)
	for line := range strings.Lines(empty) {
		if command, found := strings.CutPrefix(line, "     aws "); found {
			shell := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", "aws "+command)
			shell.Env = append(os.Environ(), "PATH="+awscli+":"+os.Getenv("PATH"))
			if out, err := shell.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", command, err, out)
			}
		}
	}
	if mended, err := fly(); err != nil {
		t.Errorf("after its own commands: %v\n%s", err, mended)
	}
}
