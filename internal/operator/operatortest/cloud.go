// Package operatortest answers for AWS in tests of an operator's commands: what
// CloudFormation, CloudWatch and Secrets Manager say of one stack with two alarms.
package operatortest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/aws/smithy-go/encoding/cbor"
)

// A Cloud is an AWS account with one stack, without DynamoDB. Of its alarms, remit-B is
// in alarm and remit-A is not; another stack's is too. Any other call is answered 501.
type Cloud struct {
	Outputs, Parameters map[string]string
	Nodes               []string // URLs in the RPC secret
}

// ServeHTTP implements http.Handler.
func (c Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	members := func(kind string, of map[string]string) (all string) {
		for name, value := range of {
			all += fmt.Sprintf("<member><%[1]sKey>%[2]s</%[1]sKey><%[1]sValue>%[3]s</%[1]sValue></member>", kind, name, value)
		}
		return all
	}
	switch {
	case strings.Contains(string(body), "Action=DescribeStacks"):
		_, _ = fmt.Fprint(w, "<DescribeStacksResponse><DescribeStacksResult><Stacks><member><StackName>remit</StackName><Outputs>",
			members("Output", c.Outputs),
			"</Outputs><Parameters>", members("Parameter", c.Parameters),
			"</Parameters></member></Stacks></DescribeStacksResult></DescribeStacksResponse>")
	case strings.Contains(string(body), "Action=ListStackResources"):
		const alarm = "<member><ResourceType>AWS::CloudWatch::Alarm</ResourceType><PhysicalResourceId>%s</PhysicalResourceId></member>"
		_, _ = fmt.Fprintf(w, "<ListStackResourcesResponse><ListStackResourcesResult><StackResourceSummaries>"+alarm+alarm+
			"</StackResourceSummaries></ListStackResourcesResult></ListStackResourcesResponse>", "remit-A", "remit-B")
	case strings.HasSuffix(r.URL.Path, "/operation/DescribeAlarms"):
		w.Header().Set("Smithy-Protocol", "rpc-v2-cbor")
		w.Header().Set("Content-Type", "application/cbor")
		all := cbor.List{}
		for _, state := range []string{"A OK", "B ALARM", "other ALARM"} {
			name, value, _ := strings.Cut(state, " ")
			all = append(all, cbor.Map{"AlarmName": cbor.String("remit-" + name), "StateValue": cbor.String(value),
				"StateReason": cbor.String("so it is")})
		}
		_, _ = w.Write(cbor.Encode(cbor.Map{"MetricAlarms": all}))
	case r.Header.Get("X-Amz-Target") == "secretsmanager.GetSecretValue":
		urls, _ := json.Marshal(map[string]any{"urls": c.Nodes})
		_ = json.NewEncoder(w).Encode(map[string]string{"SecretString": string(urls)})
	default:
		w.WriteHeader(http.StatusNotImplemented)
	}
}
