package e2e_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/lambda"

	"github.com/remit-payouts/remit/e2e/localaws"
)

// TestAKeyOfOnesOwn: the template deploys with a KMS key and reserved concurrency. The
// secrets of webhooks then lie encrypted in the table, and deliveries verify. Who may open
// them the local AWS cannot show: it knows no conditions on an encryption context.
func TestAKeyOfOnesOwn(t *testing.T) {
	build := start(t).Build()
	config, calls := recorded(t.TempDir())
	started, err := localaws.Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = started.Close() })
	s := &stack{started, calls}
	key, err := kms.NewFromConfig(s.Administrator()).CreateKey(t.Context(), &kms.CreateKeyInput{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Install(t.Context(), build, "Size=small", "KmsKeyArn="+*key.KeyMetadata.Arn),
		s.FillSecrets(t.Context())); err != nil {
		t.Fatal(err)
	}
	m := newMerchant(t, s)
	url, got := receive(t, 0)
	hook := m.call("POST", "/webhooks", map[string]any{"url": url}).want(t, 201)
	at := "/webhooks/" + hook.get("id")
	m.call("POST", at+"/test", nil).want(t, 200)
	verified(t, got, hook.get("secret"), "webhook.test")
	renewed := m.call("POST", at+"/rotate-secret", nil).want(t, 200).get("secret")
	m.call("POST", "/send-payment", map[string]any{"to": recipient, "amount": 7}).want(t, 201)
	verified(t, got, renewed, "payment.confirmed")

	table := s.Outputs["WebhooksTableName"]
	items, err := dynamodb.NewFromConfig(s.Administrator()).Scan(t.Context(), &dynamodb.ScanInput{TableName: &table})
	if err != nil {
		t.Fatal(err)
	}
	sealed := 0
	for _, item := range items.Items {
		for name, value := range item {
			text, _ := value.(*types.AttributeValueMemberS)
			if text == nil {
				continue
			}
			if strings.Contains(text.Value, hook.get("secret")) || strings.Contains(text.Value, renewed) {
				t.Errorf("%s has a secret in clear", name)
			}
			if strings.HasPrefix(text.Value, "sealed_") {
				sealed++
			}
		}
	}
	if sealed != 2 {
		t.Errorf("%d secrets are sealed, want the new and the old one", sealed)
	}
	// What a function meters, and of which version an alarm of a canary is.
	m.call("GET", "/balance/0x1", nil).want(t, 422)
	until(t, "the refusal's metric", time.Minute, func() bool {
		return strings.Contains(strings.Join(s.logged(t, "GetBalance"), "\n"), `"Code":"422","Refusals":1`)
	})
	// What SettlementStoppedAlarm misses when the schedule is dead.
	until(t, "a scheduled run's metric", 2*time.Minute, func() bool {
		return strings.Contains(strings.Join(s.logged(t, "CheckReceipts"), "\n"), `"ScheduledRuns":1`)
	})
	function, live, name := s.Resources["SendPaymentFunction"], "live", s.Resources["SendPaymentErrorsAlarm"]
	alias, err := lambda.NewFromConfig(s.Administrator()).GetAlias(t.Context(), &lambda.GetAliasInput{FunctionName: &function, Name: &live})
	if err != nil {
		t.Fatal(err)
	}
	alarms, err := cloudwatch.NewFromConfig(s.Administrator()).DescribeAlarms(t.Context(),
		&cloudwatch.DescribeAlarmsInput{AlarmNames: []string{name}})
	if err != nil || len(alarms.MetricAlarms) != 1 {
		t.Fatalf("%s: %v", name, err)
	}
	if d := alarms.MetricAlarms[0].Dimensions[1]; *d.Name != "Version" || *d.Value != function+":"+*alias.FunctionVersion {
		t.Errorf("a canary watches %s %s, the alias is of version %s", *d.Name, *d.Value, *alias.FunctionVersion)
	}
}
