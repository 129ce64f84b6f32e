package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// TestAFailedRunIsSilent: a run that cannot read the proposals sends no metric, so ReleasesStoppedAlarm rings.
func TestAFailedRunIsSilent(t *testing.T) {
	for status, metered := range map[int]bool{http.StatusOK: true, http.StatusForbidden: false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{}`))
		}))
		defer server.Close()
		out, stdout := must.Get(os.Create(filepath.Join(t.TempDir(), "stdout")))(t), os.Stdout
		os.Stdout = out
		defer func() { os.Stdout = stdout }()
		env := boot.OpenWith(func(name string) string {
			return map[string]string{"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret",
				"AWS_ENDPOINT_URL": server.URL, "ENVIRONMENT": "dev", "MODE": "test", "STACK": "remit", "RPC_SECRET": "rpc",
				"WALLET_SECRETS": "wallets/", "API_KEYS_TABLE": "keys", "PAYMENTS_TABLE": "payments",
				"WEBHOOKS_TABLE": "webhooks", "WEBHOOK_QUEUE_URL": server.URL, "SETTLE_QUEUE_URL": server.URL}[name]
		})
		err := wire(env)(context.Background(), false)
		must.OK(t, env.Err())
		printed := string(must.Get(os.ReadFile(out.Name()))(t))
		if (err == nil) != metered || strings.Contains(printed, "OldestProposal") != metered {
			t.Errorf("status %d: %v, %s", status, err, printed)
		}
	}
}
