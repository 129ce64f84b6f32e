package setting_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/proof/dynamotest"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/operatortest"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

// TestSettings changes the settings of a live stack. A refused change has no effect.
func TestSettings(t *testing.T) {
	a, long := operatortest.NewAccount(t), strings.Repeat("s", 128) // as a stack's name may be
	a.Parameters["Mode"], a.Parameters["AlarmTopicArn"] = "live", "arn:aws:sns:us-east-1:1:alarms"
	const file, set = "operator-payments", "settings set --yes "
	stored := func() settings.Settings {
		t.Helper()
		return must.Get(dynamo.NewPayments(dynamotest.Client(t), file).Rules(t.Context()))(t).Rails[0].Settings
	}
	a.Play(nil)
	a.Steps([][3]string{{"loosened", set + "AmountMaximum=200 DailyLimit=999 --stack=" + long, "version 4"}})
	want := "arn:aws:sns:us-east-1:1:alarms AmountMaximum: \"100\" -> \"200\" (0.0002 USDC)\nby arn:aws:iam::123456789012:user/ada: \n"
	if len(a.Published) != 1 || a.Published[0] != want {
		t.Errorf("published %q, want %q", a.Published, want)
	}
	a.Deaf, a.Parameters["UrgentTopicArn"] = true, "arn:aws:sns:us-east-1:1:urgent"
	a.Steps([][3]string{{"that nobody heard of", set + "AmountMaximum=300", "!the change is made, and could not be published"}})
	if got := stored(); got.Version != 5 || got.Maximum.String() != "300" {
		t.Errorf("version %d has a maximum of %s", got.Version, got.Maximum)
	}

	a.Identified = func() { // another operator, after the command has read version 5
		s := stored()
		s.FeeCapGwei = 7
		if err := dynamo.NewPayments(dynamotest.Client(t), file).SetSettings(t.Context(), s); err != nil {
			t.Error(err)
		}
	}
	a.Steps([][3]string{
		{"the second of two", set + "AmountMinimum=13",
			"!settings of usdc@base-sepolia: changed since it was read; see remit settings show"},
		{"which is in the audit log", "audit-log",
			"not done  arn:aws:iam::123456789012:user/ada  remit settings set --yes AmountMinimum=13"},
	})
	if got := stored(); got.Version != 6 || got.FeeCapGwei != 7 || got.Minimum.String() != "12" {
		t.Errorf("the first operator's change is lost: %+v", got)
	}
}

// TestApply: a pipeline never undoes a change that was made by hand.
func TestApply(t *testing.T) {
	a := operatortest.NewAccount(t)
	a.Parameters["AlarmTopicArn"] = "arn:aws:sns:us-east-1:1:alarms"
	file := filepath.Join(t.TempDir(), "settings")
	apply := func(change string) string {
		t.Helper()
		text := "# settings\n\nChainId=84532\nTokenAddress=" + operatortest.Rail().Token.Contract.String() +
			"\nTokenSymbol=USDC\nTokenDecimals=6\nNetwork=base-sepolia\nConfirmationRule=\nQuorum=\nBlockTime=0s\nTokenLow=0\n" +
			"GasLowGwei=0\nClosed=false\nAmountMinimum=1\nAmountMaximum=100\nDailyLimit=0\nApproveAbove=\nRequireIdempotencyKey=true\nSanctionsList=0x1111111111111111111111111111111111111111\n" +
			"BatchContract=\nMaxFeeCapGwei=0\nNonceWindow=0\nMerchantCap=50\nMemo=on\nRefillToken=1,2,0\nRefillEther=\n"
		was, is, _ := strings.Cut(change, " ->")
		text = strings.Replace(text, was+"\n", strings.TrimSpace(is)+"\n", 1)
		must.OK(t, os.WriteFile(file, []byte(text), 0o600))
		return "settings apply --yes " + file
	}
	spoil := func() {
		key := map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "rails"},
			"sk": &types.AttributeValueMemberS{Value: "01"}}
		must.Get(dynamotest.Client(t).UpdateItem(t.Context(), &dynamodb.UpdateItemInput{TableName: aws.String("operator-payments"), Key: key,
			UpdateExpression: aws.String("REMOVE #v.DailyLimit"), ExpressionAttributeNames: map[string]string{"#v": "values"}}))(t)
	}
	tabletest.Run(t, nil, func(_ *testing.T, c tabletest.Case) {
		line, damages := strings.CutPrefix(c.In[0], "spoil; ")
		if damages {
			spoil()
		}
		if change, applies := strings.CutPrefix(line, "apply"); applies {
			line = apply(strings.TrimSpace(change))
		}
		a.Steps([][3]string{{c.Name, line, c.Want}})
	})
	if want := "damaged settings of usdc@base-sepolia were replaced"; !strings.Contains(strings.Join(a.Published, ""), want) {
		t.Errorf("published %q, want %s", a.Published, want)
	}
}

// TestAddALostRail: its chain has nodes, so these tables may have lost its payments, even if no run has noticed yet.
func TestAddALostRail(t *testing.T) {
	a := operatortest.NewAccount(t)
	a.Answer = func(_ *http.Request, action, _ string) string {
		if action != "GetSecretValue" {
			return ""
		}
		return `{"SecretString":"{\"84532\":{\"urls\":[\"http://a\"]},\"80002\":{\"urls\":[\"http://b\"]}}"}`
	}
	tables := dynamo.NewPayments(dynamotest.Client(t), "operator-payments")
	lost := func(chain uint64) bool {
		t.Helper()
		return !must.Get(tables.Compared(t.Context(), token.Coin{ChainID: chain}))(t).Ran.IsZero()
	}
	for chain, want := range []bool{false, true} {
		id := []uint64{84532, 80002}[chain]
		a.Steps([][3]string{{"a rail", fmt.Sprint("rails add --yes ", id), "version 1"}})
		if lost(id) != want {
			t.Errorf("rail %d of a chain that has nodes is taken for lost: %t", chain+1, !want)
		}
	}
	must.OK(t, store.NoteLost(t.Context(), tables, 11155111, time.Now()))
	a.Steps([][3]string{{"a chain that had nodes", "rails add --yes 11155111", "version 1"}})
	if log := must.Get(a.Remit("audit-log --json"))(t); strings.Count(log, "payments on it are lost") != 2 {
		t.Errorf("an operator is not told of a loss: %s", log)
	}
}

// TestNodesOfAChain: a second token of a chain leaves the nodes that the first has.
func TestNodesOfAChain(t *testing.T) {
	node := httptest.NewServer(operatortest.WellNode(operatortest.Node{"eth_chainId": `"result":"0x14a34"`}))
	defer node.Close()
	const three = `"urls":["http://a","http://b","http://c"]`
	const eurc = "0x808456652fdb597867f38412077A9182bf77359F TokenSymbol=E"
	own := `{"84532":{"urls":["` + node.URL + `"]}}`
	for why, c := range map[string]struct{ before, after, want, then string }{
		"by its number": {`{"84532":{` + three + `}}`, `{"84532":{` + three + `}}`, "version 1", "!node 1 of the RPC"},
		"none":          {"", own, "version 1", "!the contract has 6 decimals, not 9"},
		"another writes": {"", `{"7":{` + three + "}}",
			"!put them there: the RPC secret was changed at the same time: check every chain's nodes in it", "!"},
	} {
		t.Run(why, func(t *testing.T) {
			a := operatortest.NewAccount(t)
			a.Nodes = []string{node.URL}
			add := "rails add --yes 84532 --rpc " + node.URL
			a.Steps([][3]string{{"list", add + " SanctionsList=" + eurc[:42], "!node 1"}, {"first", add, "version 1"}})
			secret := c.before
			a.Answer = func(_ *http.Request, action, body string) string {
				switch action {
				case "PutSecretValue":
					var put struct{ SecretString string }
					must.OK(t, json.Unmarshal([]byte(body), &put))
					if secret = put.SecretString; why == "another writes" {
						secret = c.after
					}
					return "{}"
				case "GetSecretValue":
					return fmt.Sprintf(`{"SecretString":%q}`, secret) // "": it has no value
				}
				return ""
			}
			a.Steps([][3]string{{why, add + " --token " + eurc, c.want},
				{"unnamed", "rails add --yes 84532 TokenDecimals=9 --token 0x" + strings.Repeat("2", 40), c.then}})
			if secret != c.after {
				t.Errorf("%s, want %s", secret, c.after)
			}
		})
	}
}

// TestRestoredSettings: those of a restored table hold nothing until they were shown.
func TestRestoredSettings(t *testing.T) {
	a := operatortest.NewAccount(t)
	a.Parameters["Mode"] = "live"
	limits := settings.Default(operatortest.Rail())
	for name, value := range map[string]string{"AmountMinimum": "1", "AmountMaximum": "100", "DailyLimit": "1000"} {
		limits, _ = settings.Payments.Set(limits, name, value)
	}
	tables := dynamo.NewPayments(dynamotest.Client(t), "operator-payments")
	must.OK(t, tables.SetSettings(t.Context(), limits)) // not confirmed
	confirmed := func(want bool) {
		t.Helper()
		if rules, err := tables.Rules(t.Context()); err != nil || rules.Rails[0].Settings.Confirmed != want {
			t.Errorf("confirmed: %t, %v; want %t", rules.Rails[0].Settings.Confirmed, err, want)
		}
	}
	a.Steps([][3]string{
		{"it is said", "settings show", "(not confirmed for this table)"},
		{"a change confirms no others", "settings set --yes AmountMinimum=2", "remit settings set --confirm lets live payments go on"},
	})
	confirmed(false)
	a.Steps([][3]string{
		{"without consent", "settings set --confirm", "!this command did nothing"},
		{"with it", "settings set --confirm --yes", "settings of usdc@base-sepolia: version 3\n"},
		{"what was agreed to has every value", "audit-log --json", `  AmountMaximum=100 (0.0001 USDC)\n`},
		{"once", "settings set --confirm --yes", "nothing changes"},
	})
	confirmed(true)
	limits.Version, limits.Confirmed = 3, false
	must.OK(t, tables.SetSettings(t.Context(), limits))
	a.Steps([][3]string{{"with a change", "settings set --confirm --yes DailyLimit=900", "settings of usdc@base-sepolia: version 5\n"}})
	confirmed(true)
}
