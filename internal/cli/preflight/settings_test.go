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
	"github.com/remit-payouts/remit/internal/aws/schema"
	"github.com/remit-payouts/remit/internal/cli/preflight"
	"github.com/remit-payouts/remit/internal/evm/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/proof/dynamotest"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// TestSettings: a live stack is updated only once its settings are stored.
func TestSettings(t *testing.T) {
	dynamotest.Clear(t)
	tables := schema.Tables{APIKeys: "flight-keys", Payments: "flight-payments", Webhooks: "flight-webhooks"}
	must.OK(t, schema.Create(t.Context(), dynamotest.Client(t), tables))
	exists := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case strings.Contains(string(body), "GetCallerIdentity"):
			_, _ = io.WriteString(w, "<GetCallerIdentityResponse><GetCallerIdentityResult><Arn>arn:aws:iam::1:user/ada</Arn></GetCallerIdentityResult></GetCallerIdentityResponse>")
		case strings.Contains(string(body), "DescribeStacks") && exists:
			_, _ = fmt.Fprint(w, "<DescribeStacksResponse><DescribeStacksResult><Stacks><member><StackStatus>CREATE_COMPLETE</StackStatus><Outputs>",
				"<member><OutputKey>PaymentsTableName</OutputKey><OutputValue>flight-payments</OutputValue></member>",
				"<member><OutputKey>ApiKeysTableName</OutputKey><OutputValue>flight-keys</OutputValue></member></Outputs></member></Stacks></DescribeStacksResult></DescribeStacksResponse>")
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
	fly := func(why, mode, want string, more ...string) {
		t.Helper()
		var out bytes.Buffer
		_ = (&preflight.Command{Stack: "remit", Template: "../../../template.yaml", Parameters: append(more, "Mode="+mode)}).Run(t.Context(),
			&out)
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s: %s, want %q", why, &out, want)
		}
	}
	again := []string{"ExistingPaymentsTable=flight-payments", "ExistingApiKeysTable=flight-keys"}
	const flags = " --stack remit --table payments=flight-payments --table keys=flight-keys\n"
	fly("a first deployment", "live", "ok   settings\n")
	fly("a stack that is made again", "live", "WARN settings: the tables that are taken over have none", again...)
	exists = true
	fly("a stack without settings", "live", "\n     AWS_REGION=us-east-1 remit settings set AmountMinimum=… AmountMaximum=… DailyLimit=… --stack remit\n")
	fly("with restored tables", "live", "DailyLimit=…"+flags, again...)
	fly("with a table that is none", "live", "BAD  settings: ", "ExistingPaymentsTable=nowhere")
	fly("a sandbox", "test", "ok   settings\n")
	limits, keys := settings.Default(), settings.DefaultKeys(true)
	limits.At, keys.At = time.Unix(1, 0), time.Unix(1, 0)
	must.OK(t, dynamo.NewPayments(dynamotest.Client(t), tables.Payments).SetSettings(t.Context(), limits))
	fly("keys have none", "live", "BAD  settings: none are stored")
	must.OK(t, dynamo.NewAPIKeys(dynamotest.Client(t), tables.APIKeys).SetKeySettings(t.Context(), keys))
	fly("after the command", "live", "ok   settings\n")
	exists = false
	fly("a stack that is made again with settings", "live", "ok   settings\n", again...)
	exists = true
	base := store.Coin{ChainID: 8453, Token: token.Address{0xc0}}
	must.OK(t, dynamo.NewPayments(dynamotest.Client(t), tables.Payments).Bind(t.Context(), base, time.Unix(1, 0)))
	same := []string{"ChainId=8453", "TokenAddress=" + base.Token.String(), "TokenSymbol=C", "TokenDecimals=6"}
	for _, mode := range []string{"test", "live"} {
		fly("the coin of the payments", mode, "ok   settings\n", same...)
		fly("another chain", mode, "BAD  settings: the payments of these tables are of another coin: token "+base.Token.String()+
			" on chain 8453, and", append(same, "ChainId=1")...)
		fly("another token", mode, "BAD  settings: the payments of these tables are of another coin", "ChainId=8453")
	}
}
