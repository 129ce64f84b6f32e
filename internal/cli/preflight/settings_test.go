package preflight_test

import (
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/evm/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/proof/dynamotest"
)

// TestSettings: a live stack is updated only once its settings are stored.
func TestSettings(t *testing.T) {
	dynamotest.Clear(t)
	tables := dynamo.Tables{APIKeys: "flight-keys", Payments: "flight-payments", Webhooks: "flight-webhooks"}
	if err := dynamo.CreateTables(t.Context(), dynamotest.Client(t), tables); err != nil {
		t.Fatal(err)
	}
	a := newAccount(t)
	t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", dynamotest.Start(t))
	a.outputs = map[string]string{"PaymentsTableName": tables.Payments, "ApiKeysTableName": tables.APIKeys}
	samconfig := a.samconfig
	fly := func(why, mode, want string, more ...string) {
		t.Helper()
		a.samconfig = strings.Join(append([]string{samconfig, "Mode=" + mode}, more...), " ")
		found, commands, _ := a.fly()
		got := found["settings"] + found["WARN settings"] + "\n"
		for _, command := range commands {
			if strings.Contains(command, "remit settings") {
				got += command + "\n"
			}
		}
		if want == "" && got[0] != '\n' || !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %q", why, got, want)
		}
	}
	again := []string{"ExistingPaymentsTable=flight-payments", "ExistingApiKeysTable=flight-keys"}
	const flags = " --stack remit-prod --table payments=flight-payments --table keys=flight-keys\n"
	fly("a first deployment", "live", "")
	fly("a stack that is made again", "live", "the tables that are taken over have none", again...)
	a.stack = "UPDATE_COMPLETE"
	fly("a stack without any", "live",
		"\nAWS_REGION=us-east-1 remit settings set AmountMinimum=… AmountMaximum=… DailyLimit=… --stack remit-prod\n")
	fly("with restored tables", "live", "DailyLimit=…"+flags, again...)
	fly("with a table that is none", "live", "non-existent table", "ExistingPaymentsTable=nowhere")
	fly("a sandbox", "test", "")
	limits, keys := settings.Default(), settings.DefaultKeys(true)
	limits.At, keys.At = time.Unix(1, 0), time.Unix(1, 0)
	if err := dynamo.NewPayments(dynamotest.Client(t), tables.Payments).SetSettings(t.Context(), limits); err != nil {
		t.Fatal(err)
	}
	fly("keys have none", "live", "none are stored")
	if err := dynamo.NewAPIKeys(dynamotest.Client(t), tables.APIKeys).SetKeySettings(t.Context(), keys); err != nil {
		t.Fatal(err)
	}
	fly("after the command", "live", "")
	a.stack = ""
	fly("a stack that is made again with settings", "live", "", again...)
	a.stack = "UPDATE_COMPLETE"
	base := store.Coin{ChainID: 8453, Token: token.Address{0xc0}}
	if err := dynamo.NewPayments(dynamotest.Client(t), tables.Payments).Bind(t.Context(), base, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	same := []string{"ChainId=8453", "TokenAddress=" + base.Token.String(), "TokenSymbol=C", "TokenDecimals=6"}
	for _, mode := range []string{"test", "live"} {
		fly("the coin of the payments", mode, "", same...)
		fly("another chain", mode, "the payments of these tables are of another coin: token "+base.Token.String()+
			" on chain 8453, and", append(same, "ChainId=1")...)
		fly("another token", mode, "the payments of these tables are of another coin", "ChainId=8453")
	}
}
