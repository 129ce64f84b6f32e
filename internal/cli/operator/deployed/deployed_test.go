package deployed_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/remit-payouts/remit/internal/cli/operator/check"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/operatortest"
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
		"us-east-1": "no AWS credentials; run aws sso login or set AWS_PROFILE (aws sts get-caller-identity)",
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

// A keptLog is a table that takes entries, or refuses them.
type keptLog struct {
	store.AuditLog
	err error
}

func (l keptLog) Append(context.Context, store.Act) error { return l.err }

// TestCopiedLog: an entry without a certain copy is an error, after which a command changes nothing.
func TestCopiedLog(t *testing.T) {
	refused := errors.New("refused")
	for _, test := range []struct {
		why    string
		table  error
		status int
		answer string
		want   error
		copies int
	}{
		{"both have it", nil, 200, `{}`, nil, 1},
		{"the table refuses it", refused, 200, `{}`, refused, 0},
		{"its time is refused", nil, 200, `{"rejectedLogEventsInfo": {"tooOldLogEventEndIndex": 1}}`, deployed.ErrUncopied, 1},
		{"nobody may copy it", nil, 400, `{"__type": "AccessDeniedException"}`, deployed.ErrUncopied, 1},
	} {
		asked := ""
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			asked += string(body)
			w.Header().Set("Content-Type", "application/x-amz-json-1.1")
			w.WriteHeader(test.status)
			_, _ = io.WriteString(w, test.answer)
		}))
		log := deployed.CopiedLog{AuditLog: keptLog{err: test.table}, Table: "payments", Group: "audit-1", AWS: aws.Config{
			Region: "eu-west-1", BaseEndpoint: &server.URL, Credentials: aws.AnonymousCredentials{},
		}}
		err := log.Append(t.Context(), store.Act{ID: "1", At: time.Now(), Who: "ada", Outcome: store.Begun})
		server.Close()
		if !errors.Is(err, test.want) || strings.Count(asked, `\"Table\":\"payments\",\"ID\":\"1\"`) != test.copies {
			t.Errorf("%s: %v, after %s", test.why, err, asked)
		}
	}
}

// TestDeletedKey: a wallet has no key any more once KMS has deleted it, which until then only fails to sign.
func TestDeletedKey(t *testing.T) {
	for code, gone := range map[string]bool{"NotFoundException": true, "KMSInvalidStateException": false} {
		answer := func(*http.Request, string, string) string { return "!" + code }
		server := httptest.NewServer(&operatortest.Cloud{Answer: answer})
		defer server.Close()
		a := deployed.Account{AWS: aws.Config{BaseEndpoint: &server.URL, Credentials: aws.AnonymousCredentials{}}}
		if _, err := a.WalletKeys().Signer(t.Context(), wallet.Registration{Key: "arn:1"}); errors.Is(err, wallet.ErrNoKey) != gone {
			t.Errorf("%s: %v", code, err)
		}
	}
}
