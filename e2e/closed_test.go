package e2e_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/remit-payouts/remit/e2e/localaws"
	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// TestRealMoneyIsClosed: CloudFormation, by the template's Rules, and a function that is deployed
// past them refuse a stack with real money that is open, in one sentence that names the parameter
// to set.
func TestRealMoneyIsClosed(t *testing.T) {
	s := start(t)
	template := must.Get(os.ReadFile(root + "/template.yaml"))(t)
	parameters, _, _ := strings.Cut(string(template), "\nMappings:")
	body := strings.Replace(parameters, "Transform: AWS::Serverless-2016-10-31\n", "", 1) + "\nResources:\n  Queue: {Type: AWS::SQS::Queue}\n"
	for n, c := range []struct {
		why string
		set []string // in place of a closed stack's
		say string   // "" for a deployment that is made
	}{
		{"a closed stack", nil, ""},
		{"a sandbox", []string{"Environment=dev", "Mode=test", "AlarmTopicArn="}, ""},
		{"Base in test mode", []string{"Environment=dev", "Mode=test", "ChainId=8453"}, "set Mode to live"},
		{"production in test mode", []string{"Mode=test"}, "set Mode to live"},
		{"alarms that nobody hears", []string{"AlarmTopicArn="}, "set AlarmTopicArn"},
		{"live on a test network", []string{"Environment=dev", "AlarmTopicArn="}, "set AlarmTopicArn"},
	} {
		chosen := map[string]string{"ChainId": "84532"}
		for _, p := range slices.Concat(localaws.Closed(), c.set) {
			name, value, _ := strings.Cut(p, "=")
			chosen[name] = value
		}
		in := &cloudformation.CreateStackInput{StackName: aws.String(fmt.Sprint("closed-", n)), TemplateBody: &body}
		environment := map[string]string{"AWS_REGION": "us-east-1"}
		for name, value := range chosen {
			in.Parameters = append(in.Parameters, types.Parameter{ParameterKey: &name, ParameterValue: &value})
		}
		for variable, name := range map[string]string{
			"ENVIRONMENT": "Environment", "MODE": "Mode", "CHAIN_ID": "ChainId", "ALARM_TOPIC_ARN": "AlarmTopicArn",
		} {
			environment[variable] = chosen[name]
		}
		env := boot.OpenWith(func(name string) string { return environment[name] })
		boot.Closed(env)
		_, deployed := cloudformation.NewFromConfig(s.Administrator()).CreateStack(t.Context(), in)
		for where, err := range map[string]error{"CloudFormation": deployed, "a function": env.Err()} {
			if (err == nil) != (c.say == "") || err != nil && !strings.Contains(err.Error(), c.say) {
				t.Errorf("%s: %s said %v, want %q", c.why, where, err, c.say)
			}
		}
		if said := fmt.Sprint(deployed); c.say != "" &&
			!strings.Contains(fmt.Sprint(env.Err()), said[strings.LastIndex(said, "failed: ")+len("failed: "):]) {
			t.Errorf("%s: CloudFormation said %v, a function %v", c.why, deployed, env.Err())
		}
	}
}
