package operator_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/evm/settings"
	"github.com/remit-payouts/remit/internal/proof/dynamotest"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/operatortest"
)

// TestSettings changes the settings of a live stack. A refused change has no effect.
func TestSettings(t *testing.T) {
	a := operatortest.NewAccount(t)
	a.Parameters["Mode"], a.Parameters["AlarmTopicArn"] = "live", "arn:aws:sns:us-east-1:1:alarms"
	const file, set = "operator-payments", "settings set --yes "
	stored := func() settings.Settings {
		t.Helper()
		rules := must.Get(dynamo.NewPayments(dynamotest.Client(t), file).Rules(t.Context()))(t)
		return rules.Settings
	}
	a.Steps([][3]string{
		{"a new stack has none", "settings show", "!settings of payments, version 0: no settings are stored"},
		{"and no live payments without limits", set + "AmountMinimum=1",
			"!a live stack makes no payment without limits; set AmountMaximum, DailyLimit"},
		{"without consent", "settings set AmountMinimum=10 AmountMaximum=100 DailyLimit=1000", "!nothing was done; answer y"},
		{"they are made with defaults for the others", set + "AmountMinimum=10 AmountMaximum=100 DailyLimit=1000 --reason=start",
			"settings of payments: version 1\nsettings of keys: version 1"},
		{"and shown", "settings show", "AmountMaximum=100\n"},
		{"", "settings show --json", `"RecipientHoldSeconds": "86400"`},
		{"a bad value", set + "AmountMinimum=1 NonceWindow=65", `!nothing was changed: NonceWindow: "65" is out of range; use a whole number from 0 to 64`},
		{"a pair that cannot be", set + "AmountMinimum=101", "!AmountMaximum 100 is below AmountMinimum 101"},
		{"a limit that is taken away", set + "DailyLimit=0", "!set DailyLimit"},
		{"keys for strangers", set + "KeyCreation=public", "!a live stack does not hand keys to strangers"},
		{"a name that is none", set + "Limit=1", `!there is no setting "Limit"; use AmountMinimum`},
		{"no value", set + "Memo", "!as NAME=VALUE"},
		{"two values", set + "AmountMinimum=1 AmountMinimum=2", "!give each setting once"},
		{"a reason that is apply's", set + "AmountMinimum=11 --reason=applied:by-hand", "!change its first words"},
		{"", set + "AmountMinimum=11", "settings of payments: version 2"},
		{"what is so already", set + "AmountMinimum=11", "nothing changes"},
		{"both tables", set + "AmountMinimum=12 RecipientHoldSeconds=86401", "settings of payments: version 3\nsettings of keys: version 2"},
		{"who and why", "settings history", "payments, version 1, 2"},
		{"", "settings history", `arn:aws:iam::123456789012:user/ada": "start"`},
		{"", "settings history", "  AmountMinimum: \"11\" -> \"12\"\n"},
		{"the audit log has them", "audit-log", "done      arn:aws:iam::123456789012:user/ada  remit settings set --yes AmountMinimum=10"},
		{"with their effect", "audit-log --json", `AmountMinimum: \"11\" -\u003e \"12\"`},
		{"going back", "settings export", `AmountMinimum=12 AmountMaximum=100 DailyLimit=1000 RequireIdempotencyKey=false SanctionsList=""`},
	})
	if len(a.Published) > 0 {
		t.Errorf("nothing was loosened, and %q published", a.Published)
	}
	a.Steps([][3]string{{"a loosened limit", set + "AmountMaximum=200 DailyLimit=999", "version 4"}})
	want := "arn:aws:sns:us-east-1:1:alarms AmountMaximum: \"100\" -> \"200\"\nby arn:aws:iam::123456789012:user/ada: \n"
	if len(a.Published) != 1 ||
		a.Published[0] != want {
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
		{"the second of two", set + "AmountMinimum=13", "!settings of payments: changed since it was read; read them with remit settings show"},
		{"which is in the audit log", "audit-log", "not done  arn:aws:iam::123456789012:user/ada  remit settings set --yes AmountMinimum=13"},
	})
	if got := stored(); got.Version != 6 || got.FeeCapGwei != 7 || got.Minimum.String() != "12" {
		t.Errorf("the first operator's change is lost: %+v", got)
	}
}

// TestApply: a pipeline never undoes a change that was made by hand, unless it names it.
func TestApply(t *testing.T) {
	a := operatortest.NewAccount(t)
	all := map[string]string{
		"AmountMinimum": "1", "AmountMaximum": "100", "DailyLimit": "0", "RequireIdempotencyKey": "true", "SanctionsList": "",
		"BatchContract": "",
		"MaxFeeCapGwei": "0", "NonceWindow": "0", "MerchantCap": "50", "Memo": "on", "RefillToken": "1,2,3", "RefillEther": "",
		"KeyCreation": "operator", "RecipientHoldSeconds": "5",
	}
	dir := t.TempDir()
	apply := func(form, end string, change map[string]string) string {
		t.Helper()
		text := "# settings\n\n"
		for name, value := range all {
			if changed, ok := change[name]; ok {
				value = changed
			}
			if value != "-" {
				text += fmt.Sprintf(form, name, value)
			}
		}
		path := filepath.Join(dir, "settings")
		must.OK(t, os.WriteFile(path, []byte(text+end), 0o600))
		return "settings apply --yes " + path
	}
	const env, yaml = "%s=%s\n", "%s: %s\n"
	step := func(why, line, want string) { t.Helper(); a.Steps([][3]string{{why, line, want}}) }
	step("a file that lacks a name", apply(env, "", map[string]string{"DailyLimit": "-"}), "!lacks DailyLimit; add every setting")
	step("a file that has more", apply(env, "More=1", nil), `!there is no setting "More"`)
	step("a file that has a name twice", apply(env, "Memo=off", nil), "!has Memo twice")
	step("a bad value", apply(yaml, "", map[string]string{"Memo": "maybe"}), "!nothing was changed: Memo:")
	step("no settings at all", apply("%s%s", "", nil), "!has neither lines NAME=VALUE nor an object")
	step("the first", apply(env, "", nil), "settings of payments: version 1\nsettings of keys: version 1")
	step("the same in YAML", apply(yaml, "", nil), "nothing changes")
	step("another", apply(yaml, "", map[string]string{"DailyLimit": "500"}), "settings of payments: version 2\n")
	step("a change by hand", "settings set --yes DailyLimit=400 --reason=theft", "version 3")
	step("is not undone", apply(env, "", nil), `!"theft"; change the file to match, or add --over payments=3`)
	step("by another version", apply(env, "", nil)+" --over payments=2 --over keys=1", "!add --over payments=3")
	step("unless it is named", apply(env, "", nil)+" --over payments=3", "version 4")
	step("then pipelines go on", apply(env, "", map[string]string{"NonceWindow": "3"}), "version 5")
	step("a change by hand", "settings set --yes NonceWindow=2", "version 6")
	step("that the file follows", apply(env, "", map[string]string{"NonceWindow": "2"}), "version 7")
	step("is the pipeline's again", apply(env, "", map[string]string{"NonceWindow": "1"}), "version 8")
	step("keys have versions of their own", "settings history", "keys, version 1, ")
}

// TestRestoredSettings: those of a restored table hold nothing until they were shown.
func TestRestoredSettings(t *testing.T) {
	a := operatortest.NewAccount(t)
	a.Parameters["Mode"] = "live"
	limits := settings.Default()
	for name, value := range map[string]string{"AmountMinimum": "1", "AmountMaximum": "100", "DailyLimit": "1000"} {
		limits, _ = settings.Payments.Set(limits, name, value)
	}
	tables := dynamo.NewPayments(dynamotest.Client(t), "operator-payments")
	if err := tables.SetSettings(t.Context(), limits); err != nil { // not confirmed
		t.Fatal(err)
	}
	confirmed := func(want bool) {
		t.Helper()
		if rules, err := tables.Rules(t.Context()); err != nil || rules.Settings.Confirmed != want {
			t.Errorf("confirmed: %t, %v; want %t", rules.Settings.Confirmed, err, want)
		}
	}
	a.Steps([][3]string{
		{"there are none of keys", "settings confirm --yes", "!settings of keys: no settings are stored"},
		{"which are written", "settings set --yes", "settings of keys: version 1"},
		{"it is said", "settings show", "(not confirmed for this table)"},
		{"a change confirms no others", "settings set --yes AmountMinimum=2", "remit settings confirm lets live payments go on"},
	})
	confirmed(false)
	a.Steps([][3]string{
		{"without consent", "settings confirm", "!nothing was done"},
		{"with it", "settings confirm --yes", "settings of payments: version 3\n"},
		{"what was agreed to has every value", "audit-log --json", `  AmountMaximum=100\n`},
		{"once", "settings confirm --yes", "nothing changes"},
	})
	confirmed(true)
}

// TestImport takes the parameters of a stack that the older template deployed.
func TestImport(t *testing.T) {
	a := operatortest.NewAccount(t)
	old := map[string]string{
		"Mode": "live", "AmountMinimum": "10", "AmountMaximum": "100", "DailyLimit": "1000", "RequireIdempotencyKey": "true", "SanctionsList": "",
		"BatchContract": "0x036CbD53842c5426634e7929541eC2318f3dCF7e", "MaxFeeCapGwei": "5", "NonceWindow": "64", "MerchantCap": "100",
		"Memo":        "off",
		"RefillToken": "1,2,3", "RefillEther": "4,5,0", "KeyCreation": "operator",
	}
	a.Parameters, a.Outputs = maps.Clone(old), map[string]string{"AuditLogGroupName": ""} // and no copy of the audit log
	a.Steps([][3]string{{"a newer template has none", "settings import --yes",
		"!no parameter RecipientHoldSeconds: import before you deploy the new template"}})
	a.Parameters["RecipientHoldSeconds"], a.Parameters["NonceWindow"] = "", "65"
	a.Steps([][3]string{{"a window that recover does not cover", "settings import --yes",
		"!nothing was changed: NonceWindow is 65, and remit recover covers windows up to 64; deploy the version that runs with NonceWindow=64"}})
	a.Parameters["NonceWindow"] = "64"
	a.Steps([][3]string{
		{"all of them", "settings import --yes", "settings of payments: version 1\nsettings of keys: version 1"},
		{"the hold of a live stack is a day", "settings export",
			`RefillToken=1,2,3 RefillEther=4,5,0 KeyCreation=operator RecipientHoldSeconds=86400`},
		{"there and back", "settings export", `BatchContract=0x036CbD53842c5426634e7929541eC2318f3dCF7e MaxFeeCapGwei=5 NonceWindow=64 MerchantCap=100 Memo=off`},
		{"once", "settings import --yes", "!nothing was changed: the settings are stored already"},
		{"they need no confirmation", "settings confirm --yes", "nothing changes"},
		{"the table has the entry", "audit-log", "settings import"},
	})
}
