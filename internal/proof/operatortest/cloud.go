// Package operatortest has an AWS account with one stack, and a stack in this process, to test operators' commands.
package operatortest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// Identity is the answer to GetCallerIdentity.
const Identity = "<R><GetCallerIdentityResult><Account>123456789012</Account>" +
	"<Arn>arn:aws:iam::123456789012:user/ada</Arn></GetCallerIdentityResult></R>"

// Stack returns the answer to DescribeStacks.
func Stack(status string, outputs, parameters map[string]string) string {
	members := func(kind string, of map[string]string) (all string) {
		for name, value := range of {
			all += fmt.Sprintf("<member><%[1]sKey>%[2]s</%[1]sKey><%[1]sValue>%[3]s</%[1]sValue></member>", kind, name, value)
		}
		return all
	}
	return fmt.Sprintf("<R><DescribeStacksResult><Stacks><member><StackName>remit</StackName><Description>Remit v1</Description><StackId>arn:aws:cloudformation:us-east-1:123456789012:stack/remit</StackId><StackStatus>%s"+
		"</StackStatus><Outputs>%s</Outputs><Parameters>%s</Parameters></member></Stacks></DescribeStacksResult></R>",
		status, members("Output", outputs), members("Parameter", parameters))
}

// Resources returns the answer to ListStackResources, of types (or logical names) and physical names, as "TYPE NAME".
func Resources(all ...string) string {
	members := ""
	for _, r := range all {
		kind, name, _ := strings.Cut(r, " ")
		members += fmt.Sprintf("<member><LogicalResourceId>%[1]s</LogicalResourceId><ResourceType>%[1]s</ResourceType>"+
			"<PhysicalResourceId>%[2]s</PhysicalResourceId></member>", kind, name)
	}
	return "<R><ListStackResourcesResult><StackResourceSummaries>" + members + "</StackResourceSummaries></ListStackResourcesResult></R>"
}

// A Cloud is an AWS account with one stack, on Base Sepolia if Parameters name no other chain, that lacks nothing a
// deployment needs. It has no DynamoDB. Any other call is answered 501.
type Cloud struct {
	Status              string            // of the stack; "" is UPDATE_COMPLETE, "none" no stack
	Outputs, Parameters map[string]string // beside the ones that every stack has
	Nodes               []string          // URLs in the RPC secret; nil: it has no value
	Secrets             map[string]string // by name
	Made                time.Time         // when each of them was
	Breaks              string            // the action that fails once, after it has had its effect
	Identified          func()            // once, when a command asks who runs it
	Published           []string          // messages to the alarm topic
	Deaf                bool              // which takes none

	// Answer is asked first; "" is no answer, and "!CODE" an error.
	Answer func(r *http.Request, action, body string) string

	mu sync.Mutex
}

// with returns the entries of some in place of others' of the same name.
func with(others, some map[string]string) map[string]string {
	all := maps.Clone(others)
	maps.Copy(all, some)
	return all
}

var outputs = map[string]string{"PaymentsTableName": "operator-payments", "ApiKeysTableName": "operator-keys",
	"WebhooksTableName": "operator-webhooks", "WebhookQueueUrl": "http://queue", "WalletSecrets": "remit/wallets/",
	"RpcSecretArn": "nodes", "AuditLogGroupName": "remit-audit"}

var parameters = map[string]string{"Mode": "test"}

// always are answers that no test's state changes.
var always = map[string]string{
	"account":          `{"cloudwatchRoleArn":"arn:role"}`,
	"account-settings": `{"AccountLimit":{"ConcurrentExecutions":1000,"UnreservedConcurrentExecutions":1000}}`,
	"DescribeKey":      `{"KeyMetadata":{"Enabled":true,"KeyManager":"CUSTOMER","KeySpec":"SYMMETRIC_DEFAULT"}}`,
	"GetTopicAttributes": "<R><GetTopicAttributesResult><Attributes><entry><key>Policy</key><value>events.amazonaws.com</value></entry>" +
		"</Attributes></GetTopicAttributesResult></R>",
	"ListStackResources": Resources("AWS::CloudWatch::Alarm remit-A", "AWS::CloudWatch::Alarm remit-B"),
	"PutLogEvents":       "{}",
}

// ServeHTTP implements http.Handler.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text, _ := io.ReadAll(r.Body)
	body := string(text)
	form, _ := url.ParseQuery(body)
	target := r.Header.Get("X-Amz-Target")
	action := cmp.Or(target[strings.LastIndex(target, ".")+1:], form.Get("Action"), path.Base(r.URL.Path))
	var in struct{ SecretID, Name, SecretString string }
	_ = json.Unmarshal(text, &in) // CloudFormation's is a form
	status, answer := http.StatusOK, any(nil)
	fail := func(code string) {
		if status, answer = http.StatusBadRequest, map[string]string{"__type": code}; form.Has("Action") {
			answer = "<ErrorResponse><Error><Code>" + code + "</Code></Error></ErrorResponse>"
		}
	}
	own := ""
	if c.Answer != nil {
		own = c.Answer(r, action, body)
	}
	code, failed := strings.CutPrefix(own, "!")
	switch {
	case failed:
		fail(code)
	case own != "":
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		answer = own
	case action == "DescribeStacks" && c.Status == "none":
		fail("ValidationError")
	}
	if status != http.StatusOK || answer != nil {
		action = "answered"
	}
	if text := always[action]; text != "" {
		action, answer = "answered", text
	}
	switch action {
	case "answered":
	case "DescribeStacks":
		answer = Stack(cmp.Or(c.Status, "UPDATE_COMPLETE"), with(outputs, c.Outputs), with(parameters, c.Parameters))
	case "GetCallerIdentity":
		if meanwhile := c.Identified; meanwhile != nil {
			c.Identified = nil
			meanwhile()
		}
		answer = Identity
	case "Publish":
		if c.Deaf || len(form.Get("Subject")) > 100 { // as SNS
			status = http.StatusForbidden
			break
		}
		c.Published = append(c.Published, form.Get("TopicArn")+" "+form.Get("Message"))
		answer = "<R><PublishResult><MessageId>1</MessageId></PublishResult></R>"
	case "CreateSecret":
		if c.Secrets[in.Name] != "" {
			fail("ResourceExistsException")
			break
		}
		c.Secrets[in.Name], answer = in.SecretString, "{}"
		if c.Breaks == action {
			c.Breaks = ""
			fail("InternalServiceError")
		}
	case "ListSecrets":
		list := []map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(c.Secrets)) {
			list = append(list, map[string]any{"Name": name, "CreatedDate": c.Made.Unix()})
		}
		answer = map[string]any{"SecretList": list}
	case "GetSecretValue":
		if c.Nodes == nil {
			fail("ResourceNotFoundException")
			break
		}
		urls, _ := json.Marshal(map[string]any{fmt.Sprint(Rail().ChainID): map[string]any{"urls": c.Nodes}})
		answer = map[string]string{"SecretString": string(urls)}
	default:
		status = http.StatusNotImplemented
	}
	w.WriteHeader(status)
	if text, is := answer.(string); is {
		_, _ = io.WriteString(w, text)
	} else {
		_ = json.NewEncoder(w).Encode(answer)
	}
}

// A Node answers JSON-RPC with half an object of JSON, by the method, and by its last block or its call's selector.
type Node map[string]string

// Block is a block whose hash has one digit.
func Block(digit string) string {
	return `"result":{"number":"0x3de","hash":"0x` + strings.Repeat(digit, 64) + `"}`
}

// Word is a word of the virtual machine.
func Word(n int) string { return fmt.Sprintf(`"result":"0x%064x"`, n) }

// WellNode is a node of Base at block 1000, with block 700 final.
func WellNode(faults Node) Node {
	n := Node{
		"eth_chainId": `"result":"0x2105"`, "eth_blockNumber": `"result":"0x3e8"`, "eth_getTransactionCount": `"result":"0x0"`,
		"eth_getBalance":                 `"result":"0x0"`,
		"eth_getBlockByNumber finalized": `"result":{"number":"0x2bc"}`, "eth_getBlockByNumber 0x3de": Block("1"),
		"eth_call 0xf1c7a58b": Word(7), "eth_call 0x275aedd2": Word(0),
		"eth_getBlockByNumber 0x0": `"result":{"number":"0x0","hash":"0x` + strings.Repeat("1", 64) + `"}`,
		"eth_feeHistory":           `"result":{"baseFeePerGas":["0x1","0x5f5e100"],"reward":[["0x1"]]}`,
		"eth_maxPriorityFeePerGas": `"result":"0x1"`,
		"eth_call 0x70a08231":      Word(5), "eth_call 0x313ce567": Word(6),
		"eth_call 0x95d89b41": `"result":"0x` + fmt.Sprintf("%064x%064x%-064s", 32, 4, "55534443") + `"`,
	}
	n["eth_call 0x95d89b41"] = strings.ReplaceAll(n["eth_call 0x95d89b41"], " ", "0")
	maps.Copy(n, faults)
	return n
}

// ServeHTTP implements http.Handler.
func (n Node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	type ask struct {
		ID     json.RawMessage
		Method string
		Params []json.RawMessage
	}
	answer := func(a ask) string {
		result, ok := n[a.Method]
		for _, p := range a.Params {
			var call struct{ Input, Data string }
			_ = json.Unmarshal(p, &call)
			key := strings.Trim(string(p), `"`)
			if data := call.Input + call.Data; len(data) >= 10 {
				key = data[:10]
			}
			if exact, found := n[a.Method+" "+key]; found {
				result, ok = exact, true
			}
		}
		if !ok {
			result = `"error":{"code":-32601,"message":"no such method"}`
		}
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, a.ID, result)
	}
	var raw json.RawMessage
	_ = json.NewDecoder(r.Body).Decode(&raw)
	w.Header().Set("Content-Type", "application/json")
	var one ask
	if json.Unmarshal(raw, &one) == nil {
		_, _ = fmt.Fprint(w, answer(one))
		return
	}
	var many []ask
	_ = json.Unmarshal(raw, &many)
	var answers []string
	for _, a := range many {
		answers = append(answers, answer(a))
	}
	_, _ = fmt.Fprintf(w, "[%s]", strings.Join(answers, ","))
}
