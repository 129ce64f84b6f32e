package deployed_test

import (
	"io"
	"testing"

	"github.com/remit-payouts/remit/internal/cli/operator/check"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
)

// TestWithoutCredentials: commands for a stack on AWS, and preflight, name the missing part in one line.
func TestWithoutCredentials(t *testing.T) {
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION",
		"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	t.Setenv("AWS_CONFIG_FILE", t.TempDir()+"/none")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", t.TempDir()+"/none")
	for region, want := range map[string]string{
		"":          "no AWS region; set AWS_REGION",
		"us-east-1": "no AWS credentials; run aws sso login, or set AWS_PROFILE (aws sts get-caller-identity shows the cause)",
	} {
		t.Setenv("AWS_REGION", region)
		if _, err := (deployed.Target{Stack: "remit"}).ProvideDeployment(t.Context(), io.Discard); err == nil || err.Error() != want {
			t.Errorf("region %q: %v, want %s", region, err, want)
		}
		before := &check.Preflight{Stack: "remit", Template: "none: the credentials come first"}
		if err := before.Run(t.Context(), io.Discard); err == nil || err.Error() != want {
			t.Errorf("preflight in region %q: %v, want %s", region, err, want)
		}
	}
}
