package e2e_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"gopkg.in/yaml.v3"

	"github.com/remit-payouts/remit/e2e/localaws"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

// A right is an action on a resource of the template: "dynamodb:PutItem" on
// "PaymentsTable", "dynamodb:Query" on "PaymentsTable/index/merchant".
type right struct{ function, action, resource string }

// TestRights compares each function's calls with its rights: a right that no call needs serves only a thief.
func TestRights(t *testing.T) {
	s, spare := start(t), map[right]string{}
	for _, c := range tabletest.Read(t, nil) {
		r := strings.Fields(c.Name)
		spare[right{r[0], r[1], r[2]}] = c.Want
	}
	s.useEverything(t)
	granted := grantedRights(t)
	var used map[right]bool
	unused := func() []right {
		used = s.usedRights()
		var list []right
		for r := range granted {
			if _, known := spare[r]; !used[r] && !known {
				list = append(list, r)
			}
		}
		slices.SortFunc(list, func(a, b right) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		return list
	}
	deadline := time.Now().Add(patience)
	for len(unused()) > 0 && time.Now().Before(deadline) {
		s.invoke(t, "CheckReceipts", sample(t, "check-receipts")) // before the schedule does
		time.Sleep(200 * time.Millisecond)
	}
	for _, r := range unused() {
		t.Errorf("%s may %s on %s and never does", r.function, r.action, r.resource)
	}
	for r := range used {
		// KMS grants more, and policies of stacks with a key or a bus of their own.
		if !granted[r] && !strings.HasPrefix(r.action, "kms:") && r != (right{"DeliverWebhookFunction", "events:PutEvents", localaws.EventBus}) {
			t.Errorf("%s did %s on %s, which template.yaml does not grant", r.function, r.action, r.resource)
		}
	}
	s.simulated(t, 100)
	for r, reason := range spare {
		if !granted[r] {
			t.Errorf("%v is excused (%s) and not granted", r, reason)
		}
	}
}

// useEverything calls every route.
func (s *stack) useEverything(t *testing.T) {
	t.Helper()
	m := newMerchant(t, s)
	m.call("GET", "/api-keys", nil).want(t, 200)
	other := rotated(t, m, m.id(), time.Hour)
	rotated(t, m, m.id(), 2*time.Hour) // it expires earlier already, which stays
	m.call("POST", "/api-keys/"+other.id()+"/revoke", nil).want(t, 200)

	url, got := receive(t, 0)
	hook := m.call("POST", "/webhooks", map[string]any{"url": url}).want(t, 201)
	at := "/webhooks/" + hook.get("id")
	off := "/webhooks/" + m.call("POST", "/webhooks", map[string]any{"url": url}).want(t, 201).get("id")
	m.call("POST", off, map[string]any{"status": "disabled"}).want(t, 200) // every publisher meets it
	m.call("GET", "/webhooks", nil).want(t, 200)
	m.call("POST", "/api-keys", map[string]any{"label": "till 3", "max_amount": 1_000_000}).want(t, 201) // reads assets
	verified(t, got, hook.get("secret"), "api_key.created")
	m.call("POST", "/api-keys/"+m.id()+"/rotate", nil).want(t, 201)
	verified(t, got, hook.get("secret"), "api_key.created")
	m.call("POST", "/recipients", map[string]any{"address": recipient}).want(t, 201)
	verified(t, got, hook.get("secret"), "recipient.created")
	m.call("GET", "/recipients", nil).want(t, 200)
	m.call("POST", at, map[string]any{"description": "till 3"}).want(t, 200)
	m.call("POST", at+"/test", nil).want(t, 200)
	secret := m.call("POST", at+"/rotate-secret", map[string]int{"expires_in_seconds": 0}).want(t, 200).get("secret")
	s.sealed(t, hook.get("secret"), secret)
	verified(t, got, hook.get("secret"), "webhook.test")

	failing, retried := receive(t, 1)
	flaky := m.call("POST", "/webhooks", map[string]any{"url": failing}).want(t, 201)

	careful := m.keyOf(map[string]any{"recipients": "book", "daily_count": 5})
	hash := m.call("POST", "/send-payment", map[string]any{"to": recipient, "amount": 7}, "Idempotency-Key", "rights").want(t,
		201).get("tx_hash")
	verified(t, got, secret, "payment.confirmed")
	verified(t, retried, flaky.get("secret"), "payment.confirmed")
	until(t, "a cancelled delivery", func() bool {
		return strings.Contains(m.call("GET", off+"/deliveries?status=cancelled", nil).want(t, 200).text, "payment.confirmed")
	})
	careful.call("POST", "/send-payment", map[string]any{"to": recipient, "amount": 7}, "Idempotency-Key", "rights").want(t, 201)
	batch := map[string]any{"payments": []map[string]any{{"to": recipient, "amount": 7}, {"to": recipient, "amount": 7}}}
	careful.call("POST", "/send-payments", batch, "Idempotency-Key", "batch").want(t, 201)
	verified(t, got, secret, "payment.confirmed")
	verified(t, retried, flaky.get("secret"), "payment.confirmed")
	if own := careful.call("GET", "/api-keys/self", nil).want(t, 200); !strings.Contains(own.text, `"count":2`) {
		t.Errorf("a batch of two counts for the day: %s", own.text)
	}
	proposing := m.keyOf(map[string]any{"recipients": "book", "scopes": []string{"payments:propose"}})
	proposed := proposing.call("POST", "/proposals", map[string]any{"to": recipient, "amount": 8}, "Idempotency-Key", "proposed").want(t, 201)
	m.call("POST", "/proposals/"+proposed.get("id")+"/approve", nil).want(t, 200)
	until(t, "a release", func() bool {
		s.invoke(t, "ReleaseProposals", sample(t, "release-proposals"))
		return m.call("GET", "/proposals/"+proposed.get("id"), nil).want(t, 200).get("status") == "released"
	})
	m.call("GET", "/proposals", nil).want(t, 200)
	m.call("POST", "/proposals/"+proposed.get("id")+"/cancel", nil).want(t, 409)
	m.call("POST", "/recipients/"+recipient+"/delete", nil).want(t, 200)
	m.call("GET", "/transaction/"+hash, nil).want(t, 200)
	m.call("GET", "/transactions?idempotency_key=rights", nil).want(t, 200)
	m.call("GET", "/transactions?reference=rights", nil).want(t, 200)
	m.call("GET", "/balance/"+recipient, nil).want(t, 200)
	m.call("GET", "/wallets", nil).want(t, 200)
	until(t, "listing the payment", func() bool { return strings.Contains(m.call("GET", "/transactions", nil).want(t, 200).text, hash) })

	var deliveries struct{ Data []struct{ ID string } }
	list := m.call("GET", at+"/deliveries", nil).want(t, 200)
	if err := json.Unmarshal([]byte(list.text), &deliveries); err != nil || len(deliveries.Data) == 0 {
		t.Fatalf("%s: %v", list.text, err)
	}
	m.call("POST", fmt.Sprintf("%s/deliveries/%s/resend", at, deliveries.Data[0].ID), nil).want(t, 200)
	verified(t, got, secret, "payment.confirmed")
	m.call("POST", at+"/resend-failed", map[string]any{"since": time.Now().Add(-time.Hour)}).want(t, 200)

	resembling := m.call("POST", "/recipients", map[string]any{"address": recipient[:6] + "2" + recipient[7:]}).want(t, 201)
	if !strings.Contains(resembling.text, "a recipient that you have paid") {
		t.Errorf("no warning: %s", resembling.text)
	}
	m.call("POST", at+"/deliveries/dlv_0123456789abcdef0123456789abcdef/resend", nil).want(t, 404)
	m.call("POST", at+"/delete", nil).want(t, 200)

	o, funding := newOperator(t), s.Chain.Wallets()[1].Address.String()
	o.ok(nil, "wallet", "funding", "--yes", funding)
	o.ok(nil, "settings", "set", "--yes", "--reason", "every wallet is low", "RefillToken=1000000000000000000000000,1,0")
	s.restart(t, "RefillWallets")
	until(t, "a refill", func() bool {
		s.invoke(t, "RefillWallets", sample(t, "refill-wallets"))
		return s.usedRights()[right{"RefillWalletsFunction", "dynamodb:UpdateItem", "PaymentsTable"}]
	})
	o.ok(nil, "settings", "set", "--yes", "--reason", "the test is over", "RefillToken=")
	o.ok(nil, "wallet", "funding", "--undo", "--yes", funding)
}

func (s *stack) items(t *testing.T, table string) []map[string]types.AttributeValue {
	t.Helper()
	found := must.Get(dynamodb.NewFromConfig(s.Administrator()).Scan(t.Context(),
		&dynamodb.ScanInput{TableName: &table, ConsistentRead: aws.Bool(true)}))(t)
	return found.Items
}

// sealed checks that none of these secrets of webhooks lies in the table in clear.
func (s *stack) sealed(t *testing.T, secrets ...string) {
	t.Helper()
	items, err := json.Marshal(s.items(t, s.Outputs["WebhooksTableName"]))
	for _, secret := range secrets {
		if err != nil || bytes.Contains(items, []byte(secret)) || !bytes.Contains(items, []byte("sealed_")) {
			t.Errorf("a webhook's secret lies in clear: %v", err)
		}
	}
}

// usedRights returns the rights that the calls of functions needed so far.
func (s *stack) usedRights() map[right]bool {
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	used := map[right]bool{}
	for r := range s.calls.seen {
		if r.function = s.logical(r.function); s.Resources[r.function] == "" {
			continue // a copy that another test made of a function
		}
		if strings.HasPrefix(r.resource, s.Outputs["WalletSecrets"]) {
			r.resource = "wallets/*"
		}
		name, index, indexed := strings.Cut(r.resource, "/index/")
		if r.resource = s.logical(name); indexed {
			r.resource += "/index/" + index
		}
		used[r] = true
	}
	return used
}

// logical returns the template's name of a resource that a call named, or that name if the template has none.
func (s *stack) logical(name string) string {
	for logical, physical := range s.Resources {
		if physical != "" && name != "" && (path.Base(physical) == path.Base(name) || strings.Contains(physical, ":secret:"+name)) {
			return logical
		}
	}
	return name
}

// logged returns the lines of a function's log group so far, which others may share.
func (s *stack) logged(t *testing.T, function string) []string {
	t.Helper()
	group := map[string]string{"CheckReceipts": "Settlement", "RefillWallets": "Settlement",
		"ReleaseProposals": "Settlement", "DeliverWebhook": "Delivery"}[function]
	return s.linesOf(t, s.Resources[cmp.Or(group, "Requests")+"LogGroup"])
}

func (s *stack) linesOf(t *testing.T, group string) []string {
	t.Helper()
	var lines []string
	pages := cloudwatchlogs.NewFilterLogEventsPaginator(cloudwatchlogs.NewFromConfig(s.Administrator()),
		&cloudwatchlogs.FilterLogEventsInput{LogGroupName: &group})
	for pages.HasMorePages() {
		page, err := pages.NextPage(context.WithoutCancel(t.Context())) // also when the test is over
		if err != nil {
			t.Fatalf("reading %s: %v", group, err)
		}
		for _, e := range page.Events {
			lines = append(lines, aws.ToString(e.Message))
		}
	}
	return lines
}

// grantedRights reads them from the policies of the functions' roles, except rights that serve only
// the runtime, such as logs and event sources.
func grantedRights(t *testing.T) map[right]bool {
	t.Helper()
	text := must.Get(os.ReadFile(root + "/template.yaml"))(t)
	var template struct {
		Resources map[string]struct {
			Type       string `yaml:"Type"`
			Properties struct {
				ManagedPolicyArns []string `yaml:"ManagedPolicyArns"`
				PolicyDocument    struct {
					Statement []yaml.Node `yaml:"Statement"`
				} `yaml:"PolicyDocument"`
			} `yaml:"Properties"`
		} `yaml:"Resources"`
	}
	if err := yaml.Unmarshal(text, &template); err != nil {
		if _, ok := errors.AsType[*yaml.TypeError](err); !ok { // that is of an !If among the ARNs
			t.Fatalf("template.yaml: %v", err)
		}
	}
	granted := map[right]bool{}
	for name, role := range template.Resources {
		function, ok := strings.CutSuffix(name, "Role")
		if role.Type != "AWS::IAM::Role" || !ok || template.Resources[function].Type != "AWS::Serverless::Function" {
			continue
		}
		for _, policy := range role.Properties.ManagedPolicyArns {
			if strings.HasSuffix(policy, "Policy") {
				continue
			}
			for _, statement := range template.Resources[policy].Properties.PolicyDocument.Statement {
				var allow struct {
					Effect   string    `yaml:"Effect"`
					Action   []string  `yaml:"Action"`
					Resource yaml.Node `yaml:"Resource"`
				}
				if err := statement.Decode(&allow); err != nil {
					t.Fatalf("%s: %v", policy, err)
				}
				if allow.Effect == "Deny" {
					continue
				}
				resource := &allow.Resource
				if resource.Kind == yaml.SequenceNode { // !If [OwnPaymentsTable, its own, another]
					resource = resource.Content[1]
				}
				for _, action := range allow.Action {
					granted[right{function, action, resourceName(resource.Value)}] = true
				}
			}
		}
	}
	if len(granted) < 19 {
		t.Fatalf("template.yaml grants only %d rights", len(granted))
	}
	return granted
}

// resourceName returns the logical name in "PaymentsTable.Arn" or "${PaymentsTable.Arn}/index/merchant".
func resourceName(text string) string {
	if strings.HasSuffix(text, "/wallets/*") {
		return "wallets/*"
	}
	text = strings.NewReplacer("${", "", "}", "").Replace(text)
	name, rest, _ := strings.Cut(text, ".")
	_, index, found := strings.Cut(rest, "/")
	if found {
		return name + "/" + index
	}
	return name
}
