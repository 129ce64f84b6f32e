package e2e_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strings"
	"sync"

	"github.com/remit-payouts/remit/e2e/localaws"
)

// calls records the requests that functions make of AWS, on their way there:
// each names its function in its User-Agent, its operation in X-Amz-Target.
type calls struct {
	url  string // at which calls are recorded
	mu   sync.Mutex
	seen map[right]bool // under the names that AWS gave functions and resources
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
		c.record(r.Header, body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS() // until this process ends
	c.url = strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	return c.url, nil
}

var (
	application = regexp.MustCompile(`\bapp/(\S+)`)
	services    = map[string]string{"DynamoDB_20120810": "dynamodb", "AmazonSQS": "sqs", "TrentService": "kms",
		"secretsmanager": "secretsmanager"}
	parts = map[string]string{"ConditionCheck": "ConditionCheckItem", "Delete": "DeleteItem", "Get": "GetItem", "Put": "PutItem",
		"Update": "UpdateItem"}
)

// record notes the rights that a request needs. A transaction needs those of its parts.
func (c *calls) record(header http.Header, body []byte) {
	function := application.FindStringSubmatch(header.Get("User-Agent"))
	service, operation, _ := strings.Cut(header.Get("X-Amz-Target"), ".")
	if function == nil {
		return // the local AWS's own
	}
	var in struct {
		TableName, IndexName, QueueUrl, SecretId, KeyId string
		RequestItems                                    map[string]json.RawMessage
		TransactItems                                   []map[string]struct{ TableName string }
	}
	if err := json.Unmarshal(body, &in); err != nil {
		operation += " of " + err.Error()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	note := func(operation, resource string) {
		if operation == "SendMessageBatch" { // on AWS the right to send a message is the right to send ten
			operation = "SendMessage"
		}
		c.seen[right{function[1], services[service] + ":" + operation, resource}] = true
	}
	for table := range in.RequestItems {
		note(operation, table)
	}
	for _, item := range in.TransactItems {
		for part, on := range item {
			note(parts[part], on.TableName)
		}
	}
	resource := in.TableName + in.QueueUrl + in.SecretId
	if in.KeyId != "" {
		resource = "key/*"
	}
	if in.IndexName != "" {
		resource += "/index/" + in.IndexName
	}
	if len(in.RequestItems) == 0 && len(in.TransactItems) == 0 {
		note(operation, resource)
	}
}
