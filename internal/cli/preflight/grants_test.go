package preflight_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/kms/walletkey"
	"github.com/remit-payouts/remit/internal/aws/schema"
	"github.com/remit-payouts/remit/internal/cli/preflight"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/dynamotest"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/operatortest"
)

// TestGrants: a stack with a wallet in KMS is updated only once every function that signs
// has a grant on its key.
func TestGrants(t *testing.T) {
	dynamotest.Clear(t)
	tables := schema.Tables{APIKeys: "grants-keys", Payments: "grants-payments", Webhooks: "grants-webhooks"}
	must.OK(t, schema.Create(t.Context(), dynamotest.Client(t), tables))
	granted, exists, restored := 0, false, false // the stack uses a table that it did not make
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case strings.Contains(string(body), "GetCallerIdentity"):
			_, _ = io.WriteString(w, "<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>arn:aws:iam::1:user/ada</Arn><Account>1</Account></GetCallerIdentityResult></GetCallerIdentityResponse>")
		case strings.Contains(string(body), "ListStackResources") && exists:
			const member = "<member><LogicalResourceId>%[1]s</LogicalResourceId><PhysicalResourceId>%[2]s</PhysicalResourceId></member>"
			all := ""
			if !restored {
				all = fmt.Sprintf(member, "PaymentsTable", tables.Payments)
			}
			for _, id := range walletkey.SigningRoles() {
				all += fmt.Sprintf(member, id, id)
			}
			_, _ = fmt.Fprint(w, "<ListStackResourcesResponse><ListStackResourcesResult><StackResourceSummaries>", all,
				"</StackResourceSummaries></ListStackResourcesResult></ListStackResourcesResponse>")
		case strings.Contains(string(body), "DescribeStacks") && restored:
			_, _ = io.WriteString(w, operatortest.Stack("UPDATE_COMPLETE", map[string]string{"PaymentsTableName": tables.Payments}, nil))
		case r.Header.Get("X-Amz-Target") == "TrentService.ListGrants":
			var all []string
			for _, id := range walletkey.SigningRoles()[:granted] {
				all = append(all, fmt.Sprintf(`{"GrantId": "1", "Operations": ["Sign"], "GranteePrincipal": "arn:aws:iam::1:role/%s"}`, id))
			}
			_, _ = fmt.Fprintf(w, `{"Grants": [%s]}`, strings.Join(all, ", "))
		default:
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, "<ErrorResponse><Error><Code>ValidationError</Code></Error></ErrorResponse>")
		}
	}))
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "remit", "AWS_SECRET_ACCESS_KEY": "remit", "AWS_ENDPOINT_URL": server.URL,
		"AWS_ENDPOINT_URL_DYNAMODB": dynamotest.Start(t),
	} {
		t.Setenv(name, value)
	}
	fly := func(why, want string) {
		t.Helper()
		var out bytes.Buffer
		_ = (&preflight.Command{Stack: "remit", Template: "../../../template.yaml"}).Run(t.Context(), &out)
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: %s, want %q", why, &out, want)
		}
	}
	store := dynamo.NewPayments(dynamotest.Client(t), tables.Payments)
	register := func(last byte, key wallet.KeyRef, state wallet.State) {
		t.Helper()
		r := wallet.Registration{ID: wallet.ID{ChainID: 84532}, State: state, Key: key, Since: time.Unix(1, 0)}
		r.Address[19] = last
		must.OK(t, store.Register(t.Context(), r))
	}
	const ok, key = "ok   grants of wallets' keys\n", "arn:aws:kms:us-east-1:1:key/1"
	register(1, wallet.InSecret, wallet.Active)
	register(2, key, wallet.Retired)
	exists = true
	fly("no wallet that pays has its key in KMS", ok)
	register(3, key, wallet.Active)
	fly("a key of before grants", "\n     AWS_REGION=us-east-1 remit wallet import --stack remit --kms "+key+"\n")
	granted = 2
	fly("one function may not sign", "BAD  grants of wallets' keys")
	restored = true
	fly("a table that was restored", "BAD  grants of wallets' keys")
	granted = 3
	fly("after the command", ok)
	exists, restored, granted = false, false, 0
	fly("a first deployment", ok)
}
