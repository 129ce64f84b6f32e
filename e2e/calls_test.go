package e2e_test

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/remit-payouts/remit/e2e/localaws"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tooltest"
)

// calls records the requests that functions, thieves of their roles and operators make of AWS, on their way there: each
// function names itself in its User-Agent, and its operation in X-Amz-Target.
type calls struct {
	url  string // at which calls are recorded
	mu   sync.Mutex
	seen map[right]bool // under the names that AWS gave functions and resources
	sent map[string]sent
	asks map[string]ask
	gate atomic.Pointer[gate]
}

// A gate holds a function's requests that have a text in them until it is opened.
type gate struct {
	function, text string
	reached        func() // by the first
	open           chan struct{}
}

// hold closes a gate, and returns what waits for a first request at it, and what opens it.
func (c *calls) hold(function, text string) (reached <-chan struct{}, open func()) {
	met := make(chan struct{})
	g := &gate{function, text, sync.OnceFunc(func() { close(met) }), make(chan struct{})}
	c.gate.Store(g)
	return met, sync.OnceFunc(func() { close(g.open) })
}

// pass returns when no gate holds a request.
func (c *calls) pass(r *http.Request, body []byte) {
	g := c.gate.Load()
	if g != nil && strings.Contains(r.UserAgent()+" ", "app/"+g.function+" ") && bytes.Contains(body, []byte(g.text)) {
		g.reached()
		<-g.open
	}
}

// sent is a request as tools/models reads it.
type sent struct {
	Name          string `json:"name"`
	Authorization string `json:"authorization"`
	Method        string `json:"method"`
	URL           string `json:"url"`
	Target        string `json:"target"`
	Type          string `json:"type"`
	Body          []byte `json:"body"`
}

// An ask is a question of a call to IAM, and the answer of the local AWS.
type ask struct {
	who, action, resource string
	partitions            []string // that DynamoDB is to write or read
	allowed               bool
}

// start serves the cloud anew, under its own certificate, and returns the URL.
func (c *calls) start(cloud *localaws.Cloud, keyFile string) (string, error) {
	certificate, err := tls.LoadX509KeyPair(cloud.Bundle, keyFile)
	if err != nil {
		return "", err
	}
	target, err := url.Parse(cloud.Endpoint)
	if err != nil {
		return "", err
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // it is signed
		},
		Transport: cloud.HTTP.Transport,
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		c.pass(r, body)
		answer := httptest.NewRecorder()
		proxy.ServeHTTP(answer, r)
		c.record(r, body, answer.Code < 400 || !bytes.Contains(answer.Body.Bytes(), []byte("AccessDenied")))
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS() // until this process ends
	c.url = strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	return c.url, nil
}

var (
	application = regexp.MustCompile(`\bapp/(\S+)`)
	ofPartition = regexp.MustCompile(`^pk = (:\w+)`)
	digits      = regexp.MustCompile(`[0-9A-Fa-f]`)
	services    = map[string]string{"DynamoDB_20120810": "dynamodb", "AmazonSQS": "sqs", "TrentService": "kms",
		"secretsmanager": "secretsmanager", "AWSEvents": "events"}
	parts = map[string]string{"ConditionCheck": "ConditionCheckItem", "Delete": "DeleteItem", "Get": "GetItem",
		"Put": "PutItem", "Update": "UpdateItem"}
)

// An item has the partition of a request to DynamoDB.
type item map[string]map[string]any

func (i item) partition() []string {
	for _, name := range []string{"pk", "key_hash"} {
		if of, is := i[name]["S"].(string); is {
			return []string{of}
		}
	}
	return nil
}

// record notes a request, and the rights that it needs. A transaction needs those of its parts; if it is refused,
// nobody knows for which of several.
func (c *calls) record(r *http.Request, body []byte, allowed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	function := application.FindStringSubmatch(r.UserAgent())
	target := r.Header.Get("X-Amz-Target")
	call := sent{strings.Join(append(function, target), " "),
		r.Header.Get("Authorization"), r.Method, r.RequestURI, target, r.Header.Get("Content-Type"), body}
	c.sent[digits.ReplaceAllString(call.Name+call.Method+call.URL+string(body), "0")] = call
	service, operation, _ := strings.Cut(target, ".")
	if function == nil {
		return // an operator's, or the local AWS's own
	}
	var in struct {
		TableName, IndexName, QueueUrl, SecretId, KeyId string
		Item, Key, ExpressionAttributeValues            item
		KeyConditionExpression                          string
		RequestItems                                    map[string]json.RawMessage
		Entries                                         []struct{ EventBusName string }
		TransactItems                                   []map[string]struct {
			TableName string
			Item, Key item
		}
	}
	if err := json.Unmarshal(body, &in); err != nil {
		operation += " of " + err.Error()
	}
	note := func(operation, resource string, partitions []string) {
		if operation == "SendMessageBatch" { // on AWS the right to send a message is the right to send ten
			operation = "SendMessage"
		}
		action := services[service] + ":" + operation
		c.seen[right{function[1], action, resource}] = true
		kind, _, _ := strings.Cut(strings.Join(partitions, ""), "#")
		c.asks[fmt.Sprint(function[1], action, resource, kind, allowed)] = ask{function[1], action, resource, partitions, allowed}
	}
	for table, text := range in.RequestItems {
		var writes []map[string]struct{ Item, Key item }
		_ = json.Unmarshal(text, &writes) // reads are no list
		var partitions []string
		for _, w := range writes {
			partitions = append(partitions, append(w["PutRequest"].Item.partition(), w["DeleteRequest"].Key.partition()...)...)
		}
		note(operation, table, partitions)
	}
	for _, whole := range in.TransactItems {
		for part, on := range whole {
			if allowed || len(in.TransactItems) == 1 {
				note(parts[part], on.TableName, append(on.Item.partition(), on.Key.partition()...))
			}
		}
	}
	resource := in.TableName + in.QueueUrl + in.SecretId
	if service == "AWSEvents" {
		resource = in.Entries[0].EventBusName
	}
	if in.KeyId != "" {
		resource = "key/*"
	}
	if in.IndexName != "" {
		resource += "/index/" + in.IndexName
	}
	if len(in.RequestItems) == 0 && len(in.TransactItems) == 0 {
		partitions := append(in.Item.partition(), in.Key.partition()...)
		if asked := ofPartition.FindStringSubmatch(in.KeyConditionExpression); asked != nil {
			partitions = append(partitions, fmt.Sprint(in.ExpressionAttributeValues[asked[1]]["S"]))
		}
		note(operation, resource, partitions)
	}
}

// onPaper checks all recorded requests by AWS's models.
func (c *calls) onPaper() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found struct {
		Checked  int
		Findings []string
	}
	all := append(slices.Collect(maps.Values(c.sent)), sent{Name: "planted", Authorization: "/dynamodb/aws4_request",
		Target: "DynamoDB_20120810.GetItem", Body: []byte(`{"TableName": "x", "Key": {"pk": {"T": "x"}}}`)})
	if err := asked(map[string]any{"calls": all}, &found, ".cache/venv/bin/python", "tools/models"); err != nil {
		return err
	}
	wrong := slices.DeleteFunc(slices.Clone(found.Findings), func(f string) bool { return strings.HasPrefix(f, "planted: ") })
	if len(wrong) > 0 || len(found.Findings) == 0 || found.Checked != len(all) {
		return fmt.Errorf("AWS's models of %d requests, one of them with a mistake: %s", len(all), strings.Join(found.Findings, "\n"))
	}
	fmt.Fprintf(os.Stderr, "%d recorded requests are as AWS's models have them.\n", len(all))
	return nil
}

// asked gives a value to a program at the root, and reads its output.
func asked(in, out any, program string, args ...string) error {
	text, err := json.Marshal(in)
	if err != nil {
		return err
	}
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stdin, cmd.Stderr = root, bytes.NewReader(text), os.Stderr
	if text, err = cmd.Output(); err != nil {
		return err
	}
	return json.Unmarshal(text, out)
}

// simulated gives each recorded call with each role's policies to a simulator of IAM, which must agree with the local
// AWS about all of them. KMS is left out: grants and policies of keys decide there.
func (s *stack) simulated(t *testing.T, least int) {
	t.Helper()
	tooltest.Path(t, "a simulator of IAM", ".cache/iam/node_modules")
	roles, policies := iam.NewFromConfig(s.Administrator()), map[string][]any{}
	var requests []map[string]any
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	refused, all := 0, slices.Collect(maps.Values(s.Resources))
	for _, a := range s.calls.asks {
		role, thief := strings.CutPrefix(a.who, "thief-")
		if role = cmp.Or(s.Resources[s.logical(a.who)+"Role"], role); !slices.Contains(all, role) || strings.HasPrefix(a.action, "kms:") {
			continue // an operator, or a copy that another test made of a function
		}
		if policies[role] == nil {
			policies[role] = attached(t, roles, role)
		}
		if refused++; a.allowed || !thief {
			refused--
		}
		request := map[string]any{"name": role, "policies": policies[role], "action": a.action,
			"resource": s.arn(a.resource), "allowed": a.allowed}
		if len(a.partitions) > 0 {
			request["context"] = map[string]any{"dynamodb:LeadingKeys": a.partitions}
		}
		requests = append(requests, request)
	}
	var found []string
	mistake := maps.Clone(requests[0])
	mistake["name"], mistake["allowed"] = "planted", mistake["allowed"] == false
	must.OK(t, asked(map[string]any{"requests": append(requests, mistake)}, &found, tooltest.Program(t, "Node.js", "node"),
		"tools/iam/check.mjs"))
	differ := slices.DeleteFunc(slices.Clone(found), func(f string) bool { return strings.HasPrefix(f, "planted: ") })
	if len(differ) == len(found) {
		t.Error("a planted mistake was not found")
	}
	for _, f := range differ {
		t.Errorf("the local AWS and the simulator of IAM do not agree: %s", f)
	}
	if t.Logf("%d requests, %d of them refused", len(requests), refused); len(requests) < least {
		t.Errorf("only %d requests were simulated", len(requests))
	}
}

func attached(t *testing.T, roles *iam.Client, role string) (all []any) {
	t.Helper()
	list := must.Get(roles.ListAttachedRolePolicies(t.Context(), &iam.ListAttachedRolePoliciesInput{RoleName: &role}))(t)
	for _, p := range list.AttachedPolicies {
		policy := must.Get(roles.GetPolicy(t.Context(), &iam.GetPolicyInput{PolicyArn: p.PolicyArn}))(t)
		version := must.Get(roles.GetPolicyVersion(t.Context(), &iam.GetPolicyVersionInput{PolicyArn: p.PolicyArn,
			VersionId: policy.Policy.DefaultVersionId}))(t)
		var document any
		must.OK(t, json.Unmarshal([]byte(must.Get(url.QueryUnescape(*version.PolicyVersion.Document))(t)), &document))
		all = append(all, document)
	}
	return all
}

// arn returns the ARN of a resource that a call named.
func (s *stack) arn(name string) string {
	at := ":us-east-1:000000000000:"
	switch nodes := s.Outputs["RpcSecretArn"]; {
	case strings.Contains(nodes, name):
		return nodes
	case strings.HasPrefix(name, "arn:"):
		return name
	case strings.HasPrefix(name, "http"):
		return "arn:aws:sqs" + at + path.Base(name)
	case strings.HasPrefix(name, s.Outputs["WalletSecrets"]):
		return "arn:aws:secretsmanager" + at + "secret:" + name + "-abcdef"
	}
	return "arn:aws:dynamodb" + at + "table/" + name
}
