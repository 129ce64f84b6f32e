package preflight_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestFindingsAreMended: each state of an account that fails a deployment is found, and is
// gone after the commands that are printed, which change the account as AWS would.
func TestFindingsAreMended(t *testing.T) {
	ready := func(a *account) { // but for what a case changes
		a.logRole, a.quota = true, 1000
		for _, command := range []string{
			"aws sns create-topic --region us-east-1 --name alarms",
			`aws sns set-topic-attributes --region us-east-1 --topic-arn ` + alarms +
				` --attribute-name Policy --attribute-value '{"Statement":{"Effect":"Allow","Principal":{"Service":["cloudwatch.amazonaws.com","events.amazonaws.com"]},"Action":"SNS:*","Resource":"*"}}'`,
		} {
			a.run(command)
		}
		a.trails["arn:aws:cloudtrail"+here+"trail/own"] = map[string]any{"IsLogging": true,
			"EventSelectors": []any{map[string]any{"IncludeManagementEvents": true, "ReadWriteType": "All"}}}
		a.key(key, root, `{"Effect":"Allow","Principal":{"Service":"logs.us-east-1.amazonaws.com"},"Action":"kms:*","Resource":"*","Condition":{"ArnLike":{"kms:EncryptionContext:aws:logs:arn":"arn:aws:logs:us-east-1:123456789012:*"}}}`)
	}
	logs := func(statement string) func(*account) { // of the key, beside root
		return func(a *account) { a.key(key, root, statement) }
	}
	const may = `"Principal":{"Service":"logs.us-east-1.amazonaws.com"},"Action":"kms:*","Resource":"*"`
	own := func(a *account) map[string]any { return a.trails["arn:aws:cloudtrail"+here+"trail/own"] }
	selectors := func(name string, text ...any) func(*account) {
		return func(a *account) {
			delete(own(a), "EventSelectors")
			own(a)[name] = text
		}
	}
	stack := func(status string) func(*account) { return func(a *account) { a.stack = status } }
	remains := func(items bool) func(*account) {
		return func(a *account) {
			a.stack = "ROLLBACK_FAILED"
			a.tables["p"], a.tables["w"] = &struct{ protected, items bool }{true, items}, &struct{ protected, items bool }{true, false}
		}
	}
	none := func(*account) {}
	for _, c := range []struct {
		why   string
		empty bool // the account; otherwise it is ready but for
		set   func(*account)
		found string // names of checks, with WARN for checks that stop nothing
		says  string // in one of the findings
		left  string // after the commands
	}{
		{"an empty account", true, none, "CloudTrail,KMS key,alarm topic,concurrency,log role of API Gateway", "no such topic", ""},
		{"left in review", true, stack("REVIEW_IN_PROGRESS"), "CloudTrail,KMS key,alarm topic,concurrency,log role of API Gateway", "", ""},
		{"nothing amiss", false, none, "", "", ""},
		{"deployed before", false, stack("UPDATE_ROLLBACK_COMPLETE"), "", "", ""},
		{"rolled back", false, func(a *account) {
			a.stack, a.versions = "UPDATE_ROLLBACK_COMPLETE", []string{"$LATEST", "10", "11", "7", "8", "9"}
		}, "WARN versions", "has left versions", ""},
		{"updated since", false, func(a *account) { a.stack, a.versions = "UPDATE_COMPLETE", []string{"9"} }, "", "", ""},

		{"a first deployment that failed", false, remains(false), "stack", "only remains", ""},
		{"one whose tables have items", false, remains(true), "stack", "p has items and stays", ""},
		{"cleared by itself", false, stack("ROLLBACK_COMPLETE"), "stack", "", ""},
		{"made and failed", false, stack("CREATE_FAILED"), "stack", "", ""},
		{"not deleted", false, stack("DELETE_FAILED"), "stack", "", ""},
		{"a rollback that failed", false, stack("UPDATE_ROLLBACK_FAILED"), "stack", "stuck", ""},
		{"an update that failed", false, stack("UPDATE_FAILED"), "stack", "", ""},
		{"an update under way", false, stack("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS"), "stack", "being changed", ""},
		{"a creation under way", false, stack("CREATE_IN_PROGRESS"), "stack", "", ""},
		{"going back", false, stack("UPDATE_ROLLBACK_IN_PROGRESS"), "stack", "", ""},
		{"being deleted", false, stack("DELETE_IN_PROGRESS"), "stack", "", ""},

		{"resources of another region", false, func(a *account) {
			a.samconfig = strings.ReplaceAll(a.samconfig, region, "eu-west-1") + " ReplicaRegion=us-east-1"
		}, "region", "", ""},
		{"a topic that one service may use", false, func(a *account) {
			a.topics[alarms]["Policy"] = `{"Statement":[{"Effect":"Allow","Principal":{"Service":"cloudwatch.amazonaws.com"},"Action":"sns:Publish","Resource":"` + alarms + `","Condition":{"StringEquals":{"aws:SourceAccount":"123456789012"}}}]}`
		}, "alarm topic", "events.amazonaws.com may not publish", ""},
		{"a topic for another account", false, func(a *account) {
			a.topics[alarms]["Policy"] = strings.Replace(a.topics[alarms]["Policy"], `"Action"`,
				`"Condition":{"StringEquals":{"aws:SourceAccount":"1"}},"Action"`, 1)
		}, "alarm topic", "", ""},
		{"a policy for another topic", false, func(a *account) {
			a.topics[alarms]["Policy"] = strings.Replace(a.topics[alarms]["Policy"], `"Resource":"*"`, `"Resource":"`+alarms+`2"`, 1)
		}, "alarm topic", "", ""},
		{"a topic without TLS", false, func(a *account) {
			a.topics[alarms]["Policy"] = `{"Statement":[{"Effect":"Deny","Principal":"*","Action":"sns:*","Resource":"*","Condition":{"Bool":{"aws:SecureTransport":"false"}}},` + strings.TrimPrefix(strings.Replace(a.topics[alarms]["Policy"], "}}", "}]}", 1), `{"Statement":`)
		}, "", "", ""},
		{"a topic with AWS's key", false, func(a *account) {
			a.topics[alarms]["KmsMasterKeyId"] = "alias/aws/sns"
			a.key("alias/aws/sns")["KeyManager"] = "AWS"
		}, "alarm topic", "managed by AWS", ""},

		{"only the urgent topic", false, func(a *account) {
			a.samconfig = strings.Replace(a.samconfig, "Alarm", "Urgent", 1)
			clear(a.trails)
		}, "CloudTrail", "no trail records", ""},
		{"a trail that stopped", false, func(a *account) { own(a)["IsLogging"] = false }, "CloudTrail", "", ""},
		{"a trail of writes", false, selectors("EventSelectors",
			map[string]any{"IncludeManagementEvents": true, "ReadWriteType": "WriteOnly",
				"DataResources": []any{map[string]any{"Type": "AWS::S3::Object", "Values": []string{"arn:aws:s3"}}}}), "CloudTrail", "", ""},
		{"a trail of data", false, selectors("EventSelectors", map[string]any{"IncludeManagementEvents": false, "ReadWriteType": "All"}),
			"CloudTrail", "", ""},
		{"a trail without secrets", false, selectors("EventSelectors",
			map[string]any{"IncludeManagementEvents": true, "ReadWriteType": "All",
				"ExcludeManagementEventSources": []string{"secretsmanager.amazonaws.com"}}), "CloudTrail", "", ""},
		{"advanced, all", false, selectors("AdvancedEventSelectors",
			map[string]any{"FieldSelectors": []any{map[string]any{"Field": "eventCategory", "Equals": []string{"Management"}}}}), "", "", ""},
		{"advanced, of data and writes", false, selectors("AdvancedEventSelectors",
			map[string]any{"FieldSelectors": []any{map[string]any{"Field": "eventCategory", "Equals": []string{"Data"}}}},
			map[string]any{"FieldSelectors": []any{map[string]any{"Field": "eventCategory", "Equals": []string{"Management"}},
				map[string]any{"Field": "readOnly", "Equals": []string{"false"}}}}), "CloudTrail", "", ""},
		{"a trail that cannot be examined", false, func(a *account) { own(a)["denied"] = true }, "WARN CloudTrail", "cannot be examined",
			"WARN CloudTrail"},

		{"a key for another account's logs", false, logs(`{"Effect":"Allow",` + may +
			`,"Condition":{"ArnLike":{"kms:EncryptionContext:aws:logs:arn":"arn:aws:logs:us-east-1:1:*"}}}`), "KMS key", "does not let logs", ""},
		{"a key for some log groups", false, logs(`{"Effect":"Allow",` + may +
			`,"Condition":{"ArnLike":{"kms:EncryptionContext:aws:logs:arn":"arn:aws:logs:us-east-1:123456789012:log-group:/aws/*"}}}`), "KMS key",
			"", ""},
		{"a key for log groups that may be the stack's", false,
			logs(`{"Effect":"Allow",` + may + `,"Condition":{"ArnLike":{"kms:EncryptionContext:aws:logs:arn":"arn:aws:logs:us-east-1:123456789012:log-group:remit-prod-Req*"}}}`), "WARN KMS key", "kms:EncryptionContext:aws:logs:arn: check that it lets", "WARN KMS key"},
		{"a condition that nobody knows", false, logs(`{"Sid":"org","Effect":"Allow",` + may +
			`,"Condition":{"StringEquals":{"aws:SourceOrgID":"o-1"}}}`), "WARN KMS key", "statement 2 (org) depends on aws:SourceOrgID",
			"WARN KMS key"},
		{"a key that is denied", false, logs(`{"Effect":"Allow",` + may + `},{"Effect":"Deny",` + strings.Replace(may, "kms:*", "kms:Decrypt",
			1) + `}`), "KMS key", "does not let logs", ""},
		{"a key that may be denied", false, logs(`{"Effect":"Allow",` + may + `},{"Effect":"Deny",` + may +
			`,"Condition":{"Null":{"aws:SourceArn":"true"}}}`), "WARN KMS key", "check that", "WARN KMS key"},
		{"a key that is denied to others", false, logs(`{"Effect":"Allow",` + may +
			`},{"Effect":"Deny","NotPrincipal":{"Service":"sqs.amazonaws.com"},"Action":"kms:*","Resource":"*"}`), "WARN KMS key",
			"who it is about", "WARN KMS key"},
		{"a key that leaves nothing to IAM", false, func(a *account) { a.key(key, `{"Effect":"Allow",`+may+`}`) }, "KMS key",
			"does not leave rights to IAM", ""},
		{"a key that is disabled", false, func(a *account) { a.keys[key]["Enabled"], a.keys[key]["KeyState"] = false, "Disabled" }, "KMS key",
			"", ""},
		{"a key that will be deleted", false, func(a *account) { a.keys[key]["Enabled"], a.keys[key]["KeyState"] = false, "PendingDeletion" },
			"KMS key", "about to be deleted", ""},
		{"a key that signs", false, func(a *account) { a.keys[key]["KeySpec"] = "RSA_2048" }, "KMS key", "not a symmetric key", ""},
		{"no such key", false, func(a *account) { delete(a.keys, key) }, "KMS key", "there is no key", ""},
	} {
		t.Run(c.why, func(t *testing.T) {
			a := newAccount(t)
			if !c.empty {
				ready(a)
			}
			c.set(a)
			found, commands, _ := a.fly()
			names := func(found map[string]string) string { return strings.Join(slices.Sorted(maps.Keys(found)), ",") }
			if says := strings.Join(slices.Collect(maps.Values(found)), "\n"); names(found) != c.found || !strings.Contains(says, c.says) {
				t.Errorf("found %v, want %s: %s", found, c.found, c.says)
			}
			for _, command := range commands {
				a.run(command)
			}
			if after, _, _ := a.fly(); names(after) != c.left {
				t.Errorf("after\n%s\nthere is %v, want %s", strings.Join(commands, "\n"), after, c.left)
			}
			if p := a.tables["p"]; p != nil && !p.items {
				t.Error("an empty table stays")
			}
		})
	}
}
