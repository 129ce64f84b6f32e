package preflight_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/cli/preflight"
	"github.com/remit-payouts/remit/internal/proof/operatortest"
)

// An account is AWS as far as preflight asks it, and as far as its commands change it.
type account struct {
	*testing.T
	stack     string                                      // its status; "" if there is none
	tables    map[string]*struct{ protected, items bool } // of the stack
	versions  []string                                    // of the stack's function, alias at 8 and template at 9; nil for none
	logRole   bool
	quota     int
	topics    map[string]map[string]string // attributes, by ARN
	buckets   map[string]bool              // with a policy
	trails    map[string]map[string]any    // by ARN: IsLogging, and selectors
	keys      map[string]map[string]any    // metadata and Policy, by ARN
	roles     map[string]bool              // with a policy
	samconfig string                       // the parameters
}

const (
	region = "us-east-1"
	here   = ":us-east-1:123456789012:"
	root   = `{"Sid":"iam","Effect":"Allow","Principal":{"AWS":"arn:aws:iam::123456789012:root"},"Action":"kms:*","Resource":"*"}`
	alarms = "arn:aws:sns" + here + "alarms"
	key    = "arn:aws:kms" + here + "key/1"
)

func newAccount(t *testing.T) *account {
	t.Helper()
	a := &account{
		T: t, tables: map[string]*struct{ protected, items bool }{}, quota: 10, topics: map[string]map[string]string{},
		buckets: map[string]bool{},
		trails:  map[string]map[string]any{}, keys: map[string]map[string]any{}, roles: map[string]bool{},
		samconfig: "Environment=prod Mode=test Size=small AlarmTopicArn=" + alarms + " KmsKeyArn=" + key,
	}
	a.key(key, root)
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	for name, value := range map[string]string{"AWS_REGION": region, "AWS_ACCESS_KEY_ID": "remit", "AWS_SECRET_ACCESS_KEY": "remit",
		"AWS_ENDPOINT_URL": server.URL} {
		t.Setenv(name, value)
	}
	return a
}

// key adds a customer's key with statements.
func (a *account) key(arn string, statements ...string) map[string]any {
	a.keys[arn] = map[string]any{
		"KeyId": arn[strings.LastIndex(arn, "/")+1:], "Arn": arn, "Enabled": true, "KeyState": "Enabled", "KeySpec": "SYMMETRIC_DEFAULT",
		"KeyManager": "CUSTOMER",
		"Policy":     `{"Version":"2012-10-17","Statement":[` + strings.Join(statements, ",") + `]}`,
	}
	return a.keys[arn]
}

// keyOf finds a key by its id or ARN.
func (a *account) keyOf(id string) map[string]any {
	for arn, k := range a.keys {
		if arn == id || strings.HasSuffix(arn, "/"+id) {
			return k
		}
	}
	return nil
}

// ServeHTTP implements http.Handler.
func (a *account) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	form, _ := url.ParseQuery(string(body))
	var in struct{ KeyID, Name, TrailName, TableName string }
	_ = json.Unmarshal(body, &in)
	target := r.Header.Get("X-Amz-Target")
	target = target[strings.LastIndex(target, ".")+1:]
	answer := func(v any) {
		text, _ := json.Marshal(v)
		w.Header().Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE(text)), 10)) // DynamoDB's
		_, _ = w.Write(text)
	}
	fail := func(kind string) {
		text := fmt.Sprintf(map[bool]string{true: `{"__type":%q}`,
			false: "<ErrorResponse><Error><Code>%s</Code></Error></ErrorResponse>"}[target != ""], kind)
		w.Header().Set("X-Amz-Crc32", strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(text))), 10))
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, text)
	}
	switch action := form.Get("Action") + target + r.URL.Path; strings.TrimSuffix(action, "/") {
	case "GetCallerIdentity":
		_, _ = io.WriteString(w, operatortest.Identity)
	case "DescribeStacks":
		if a.stack == "" {
			fail("ValidationError")
			return
		}
		_, _ = io.WriteString(w, operatortest.Stack(a.stack, nil, nil))
	case "ListStackResources":
		tables := []string{"AWS::DynamoDB::Table gone"}
		for _, name := range slices.Sorted(maps.Keys(a.tables)) {
			tables = append(tables, "AWS::DynamoDB::Table "+name)
		}
		if a.versions != nil {
			tables = append(tables, "AWS::Lambda::Function pay", "AWS::Lambda::Version arn:aws:lambda"+here+"function:pay:9")
		}
		_, _ = io.WriteString(w, operatortest.Resources(tables...))
	case "Scan":
		if a.tables[in.TableName] == nil {
			fail("ResourceNotFoundException")
			return
		}
		found, key := map[string]any{"Items": []any{}}, map[string]any{"pk": map[string]any{"S": "1"}}
		switch {
		case !a.tables[in.TableName].items:
		case strings.Contains(string(body), "ExclusiveStartKey"):
			found["Items"] = []any{key}
		default: // an empty page before it
			found["LastEvaluatedKey"] = key
		}
		answer(found)
	case "/2019-09-30/functions/pay/concurrency":
		answer(map[string]any{})
	case "/2015-03-31/functions/pay/aliases/live":
		answer(map[string]any{"FunctionVersion": "8"})
	case "/2015-03-31/functions/pay/versions":
		page, list := map[string]any{}, []any{}
		for _, v := range a.versions { // a page each
			if list = append(list, map[string]any{"Version": v}); v > r.URL.Query().Get("Marker") {
				page = map[string]any{"Versions": list[len(list)-1:], "NextMarker": v}
				break
			}
		}
		answer(page)
	case "/account":
		answer(map[string]any{"cloudwatchRoleArn": map[bool]string{true: "arn:role"}[a.logRole]})
	case "/2016-08-19/account-settings":
		answer(map[string]any{"AccountLimit": map[string]any{"ConcurrentExecutions": a.quota, "UnreservedConcurrentExecutions": a.quota}})
	case "GetTopicAttributes":
		topic := a.topics[form.Get("TopicArn")]
		if topic == nil {
			fail("NotFound")
			return
		}
		_, _ = io.WriteString(w, "<R><GetTopicAttributesResult><Attributes>")
		for name, value := range topic {
			_, _ = fmt.Fprintf(w, "<entry><key>%s</key><value>%s</value></entry>", name,
				strings.NewReplacer("&", "&amp;", "<", "&lt;").Replace(value))
		}
		_, _ = io.WriteString(w, "</Attributes></GetTopicAttributesResult></R>")
	case "DescribeTrails":
		list := []any{}
		for arn := range a.trails {
			list = append(list, map[string]any{"TrailARN": arn, "HomeRegion": region})
		}
		answer(map[string]any{"trailList": list})
	case "GetTrailStatus":
		answer(map[string]any{"IsLogging": a.trails[in.Name]["IsLogging"]})
	case "GetEventSelectors":
		if a.trails[in.TrailName]["denied"] != nil {
			fail("AccessDeniedException")
			return
		}
		answer(a.trails[in.TrailName])
	case "DescribeKey", "GetKeyPolicy":
		k := a.keyOf(in.KeyID)
		if k == nil {
			fail("NotFoundException")
			return
		}
		answer(map[string]any{"KeyMetadata": k, "Policy": k["Policy"]})
	default:
		a.Errorf("asked for %s", action)
	}
}

// fly runs preflight and returns its findings by check, and its commands.
func (a *account) fly() (found map[string]string, commands []string, err error) {
	a.Helper()
	var out bytes.Buffer
	err = (&preflight.Command{Stack: "remit-prod", Template: "../../../template.yaml",
		Parameters: strings.Fields(a.samconfig)}).Run(a.Context(), &out)
	found = map[string]string{}
	for line := range strings.Lines(out.String()) {
		if command, is := strings.CutPrefix(line, "     "); is {
			commands = append(commands, strings.TrimSpace(command))
		} else if what, is := strings.CutPrefix(line, "BAD  "); is {
			name, why, _ := strings.Cut(what, ": ")
			found[name] = strings.TrimSpace(why)
		} else if what, is := strings.CutPrefix(line, "WARN "); is {
			name, why, _ := strings.Cut(what, ": ")
			found["WARN "+name] = strings.TrimSpace(why)
		}
	}
	if (err != nil) != slices.ContainsFunc(slices.Collect(maps.Keys(found)),
		func(name string) bool { return !strings.HasPrefix(name, "WARN") }) || err != nil && !errors.Is(err, preflight.ErrNotReady) {
		a.Errorf("preflight ends with %v and\n%s", err, &out)
	}
	return found, commands, err
}

// run does what a printed command does to an account. It knows the flags that AWS would
// miss, and fails where AWS would.
func (a *account) run(command string) (printed string) {
	a.Helper()
	words := shellWords(a, command)
	flags, values := map[string]string{}, []string{}
	for i := 0; i < len(words); i++ {
		if name, is := strings.CutPrefix(words[i], "--"); !is {
			values = append(values, words[i])
		} else if i+1 < len(words) && !strings.HasPrefix(words[i+1], "--") {
			flags[name], i = words[i+1], i+1
		} else {
			flags[name] = "true"
		}
	}
	check := func(ok bool) {
		a.Helper()
		if !ok {
			a.Errorf("AWS refuses %s", command)
		}
	}
	if values[0] == "sed" {
		parts := strings.Split(values[2], "|")
		check(len(parts) == 4 && strings.Contains(a.samconfig, parts[1]) && values[3] == "samconfig.toml")
		a.samconfig = strings.ReplaceAll(a.samconfig, parts[1], parts[2])
		return ""
	}
	check(values[0] == "aws" && (flags["region"] == region || values[1] == "iam"))
	trail := func(name string) map[string]any {
		if !strings.HasPrefix(name, "arn:") {
			name = "arn:aws:cloudtrail" + here + "trail/" + name
		}
		return a.trails[name]
	}
	var document any
	for _, name := range []string{"policy", "attribute-value", "assume-role-policy-document"} {
		if strings.HasPrefix(flags[name], "{") || strings.HasPrefix(flags[name], "[") {
			check(json.Unmarshal([]byte(flags[name]), &document) == nil && !strings.Contains(flags[name], "null"))
		}
	}
	table := a.tables[flags["table-name"]]
	switch strings.Join(values[1:3], " ") {
	case "iam create-role":
		check(document != nil)
		a.roles[flags["role-name"]] = false
	case "iam attach-role-policy":
		_, exists := a.roles[flags["role-name"]]
		check(exists)
		a.roles[flags["role-name"]] = true
	case "apigateway update-account":
		a.logRole = strings.HasSuffix(flags["patch-operations"], ":role/apigateway-logs") && a.roles["apigateway-logs"]
	case "service-quotas request-service-quota-increase":
		_, err := fmt.Sscan(flags["desired-value"], &a.quota)
		check(err == nil)
	case "sns create-topic":
		a.topics["arn:aws:sns"+here+flags["name"]] = map[string]string{}
	case "sns set-topic-attributes":
		check(a.topics[flags["topic-arn"]] != nil)
		a.topics[flags["topic-arn"]][flags["attribute-name"]] = flags["attribute-value"]
	case "sns subscribe":
		check(a.topics[flags["topic-arn"]] != nil)
	case "s3 mb":
		a.buckets[strings.TrimPrefix(values[3], "s3://")] = false
	case "s3api put-bucket-policy":
		_, exists := a.buckets[flags["bucket"]]
		check(exists && document != nil)
		a.buckets[flags["bucket"]] = true
	case "cloudtrail create-trail":
		check(a.buckets[flags["s3-bucket-name"]] && trail(flags["name"]) == nil)
		a.trails["arn:aws:cloudtrail"+here+"trail/"+flags["name"]] = map[string]any{"IsLogging": false,
			"EventSelectors": []any{map[string]any{"IncludeManagementEvents": true, "ReadWriteType": "All"}}}
	case "cloudtrail start-logging":
		trail(flags["name"])["IsLogging"] = true
	case "kms put-key-policy":
		a.keyOf(flags["key-id"])["Policy"] = flags["policy"]
	case "kms cancel-key-deletion":
		a.keyOf(flags["key-id"])["KeyState"] = "Disabled"
	case "kms enable-key":
		k := a.keyOf(flags["key-id"])
		check(k["KeyState"] == "Disabled")
		k["Enabled"], k["KeyState"] = true, "Enabled"
	case "kms create-key":
		a.key("arn:aws:kms" + here + "key/2")["Policy"] = flags["policy"]
		return "arn:aws:kms" + here + "key/2"
	case "lambda delete-function":
		i := slices.Index(a.versions, flags["qualifier"])
		check(flags["function-name"] == "pay" && i >= 0 && len(flags["qualifier"]) == 2) // later than 9
		a.versions = slices.Delete(a.versions, i, i+1)
	case "dynamodb update-table":
		table.protected = flags["no-deletion-protection-enabled"] == ""
	case "dynamodb delete-table":
		check(!table.protected && !table.items)
		delete(a.tables, flags["table-name"])
	case "dynamodb wait":
	case "cloudformation delete-stack":
		for _, t := range a.tables {
			check(t.items)
		}
		a.stack = ""
	case "cloudformation continue-update-rollback":
		check(a.stack == "UPDATE_ROLLBACK_FAILED")
		a.stack = "UPDATE_ROLLBACK_COMPLETE"
	case "cloudformation rollback-stack":
		check(a.stack == "UPDATE_FAILED")
		a.stack = "UPDATE_ROLLBACK_COMPLETE"
	case "cloudformation wait":
		ends := map[string]string{"stack-create-complete": "CREATE", "stack-update-complete": "UPDATE",
			"stack-rollback-complete": "UPDATE_ROLLBACK", "stack-delete-complete": ""}[values[3]]
		check(strings.HasPrefix(a.stack, ends))
		if a.stack = ends; ends != "" {
			a.stack += "_COMPLETE"
		}
	default:
		a.Errorf("what does %s do?", command)
	}
	return ""
}

// shellWords splits a line as a shell does, and runs what stands in $( ).
func shellWords(a *account, line string) (words []string) {
	a.Helper()
	if before, rest, is := strings.Cut(line, "$("); is {
		i := strings.LastIndex(rest, ")")
		line = before + a.run(rest[:i]) + rest[i+1:]
	}
	word, quote, within := "", rune(0), false
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, within = c, true
		case quote == 0 && c == ' ':
			if within {
				words = append(words, word)
			}
			word, within = "", false
		default:
			word, within = word+string(c), true
		}
	}
	return append(words, word)
}
