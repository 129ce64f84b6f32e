package localaws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/apigateway"
	apitypes "github.com/aws/aws-sdk-go-v2/service/apigateway/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cfntypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	ddbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	eventtypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"

	"github.com/remit-payouts/remit/internal/evm/disburser/install"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
)

// Name of the stack, and parameters of it that differ from the template's.
const (
	StackName        = "remit"
	ConfirmationRule = 2 // blocks
	BlockTime        = 500 * time.Millisecond
)

// EventBus is the bus of Deploy's stack. Its events go to the queue EventQueue.
const (
	EventBus   = "arn:aws:events:us-east-1:000000000000:event-bus/payouts"
	EventQueue = "payouts"
)

// A Stack is the deployed template, and the chain it pays on.
type Stack struct {
	*Cloud
	Chain     *devnet.Chain
	Outputs   map[string]string
	Resources map[string]string // physical ids by logical ids
}

// URL returns where API Gateway serves a path of the API.
func (s *Stack) URL(path string) string {
	return s.Endpoint + "/restapis/" + s.Outputs["ApiId"] + "/v1/_user_request_" + path
}

// Start starts a cloud, and a chain beside it.
func Start(ctx context.Context, config Config) (*Stack, error) {
	cloud, err := startCloud(ctx, config)
	for range 2 { // somebody may take the port before ministack binds it
		if err != nil && ctx.Err() == nil {
			cloud, err = startCloud(ctx, config)
		}
	}
	if err != nil {
		return nil, err
	}
	chain, err := devnet.Start(ctx, devnet.Config{Listen: "127.0.0.1:0", BlockTime: BlockTime, Wallets: 2, Now: time.Now})
	if err != nil {
		cloud.Close()
		return nil, err
	}
	return &Stack{Cloud: cloud, Chain: chain}, nil
}

// Close ends the cloud with all that is deployed there, and the chain.
func (s *Stack) Close() error {
	s.Cloud.Close()
	if err := s.Chain.Close(); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// Deploy starts a stack, builds and deploys the template there with a KMS key, and adds the chain as its rail.
func Deploy(ctx context.Context, config Config) (*Stack, error) {
	s, err := Start(ctx, config)
	if err != nil {
		return nil, err
	}
	if err := s.deploy(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Build returns the directory with the build of the functions, each in one with its logical name.
func (s *Stack) Build() string { return filepath.Join(s.Dir, "build") }

func (s *Stack) deploy(ctx context.Context) error {
	err := s.step("Building the functions: minutes the first time", func() error {
		return s.Run(ctx, "make", "build", "ARGS=--build-dir "+s.Build()+" --parameter-overrides "+Architecture)
	})
	if err != nil {
		return err
	}
	key, err := kms.NewFromConfig(s.Administrator()).CreateKey(ctx, &kms.CreateKeyInput{})
	if err != nil {
		return err
	}
	if err := s.addBus(ctx); err != nil {
		return err
	}
	if err := s.Install(ctx, s.Build(), "KmsKeyArn="+*key.KeyMetadata.Arn, "EventBus="+EventBus); err != nil {
		return err
	}
	return errors.Join(s.throttle(ctx), s.AddRail(ctx, s.Chain, s.Chain.URL()))
}

// addBus makes the bus, and a rule that gives its events to the queue.
func (s *Stack) addBus(ctx context.Context) error {
	buses, name, rule := eventbridge.NewFromConfig(s.Administrator()), EventQueue, aws.String("all")
	_, err := sqs.NewFromConfig(s.Administrator()).CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name})
	if err == nil {
		_, err = buses.CreateEventBus(ctx, &eventbridge.CreateEventBusInput{Name: &name})
	}
	if err == nil {
		_, err = buses.PutRule(ctx, &eventbridge.PutRuleInput{Name: rule, EventBusName: &name, EventPattern: aws.String(`{"source":["remit"]}`)})
	}
	if err == nil {
		_, err = buses.PutTargets(ctx, &eventbridge.PutTargetsInput{Rule: rule, EventBusName: &name, Targets: []eventtypes.Target{
			{Id: rule, Arn: aws.String("arn:aws:sqs:us-east-1:000000000000:" + name)}}})
	}
	return err
}

// Architecture is the parameter of the template for this machine, on which functions run as processes.
var Architecture = "Architecture=" + map[string]string{"amd64": "x86_64", "arm64": "arm64"}[runtime.GOARCH]

// Install deploys a build, over an existing deployment if there is one.
func (s *Stack) Install(ctx context.Context, build string, parameters ...string) error {
	err := s.step("Deploying the template", func() error {
		return s.Run(ctx, "sam", slices.Concat([]string{"deploy"},
			Where(build), []string{"--parameter-overrides"}, s.Parameters(), parameters)...)
	})
	if err != nil {
		return err
	}
	return s.Refresh(ctx)
}

// Where returns the flags of sam deploy that samconfig.toml has for a stage.
func Where(build string) []string {
	return []string{"--template-file", filepath.Join(build, "template.yaml"), "--stack-name", StackName,
		"--resolve-s3", "--capabilities", "CAPABILITY_IAM", "--no-confirm-changeset", "--no-fail-on-empty-changeset"}
}

// Parameters returns the parameters for this machine and its chain.
func (s *Stack) Parameters() []string {
	return []string{Architecture, "RecipientHoldSeconds=2", fmt.Sprintf("Release=%d", time.Now().UnixMilli())}
}

// Closed returns the parameters without which template.yaml deploys no stack with real money.
func Closed() []string {
	return []string{"Environment=prod", "Mode=live", "AlarmTopicArn=arn:aws:sns:us-east-1:000000000000:alarms"}
}

// Refresh reads the deployed outputs and resources, and applies the parts that ministack leaves out of a template.
func (s *Stack) Refresh(ctx context.Context) error {
	client, name := cloudformation.NewFromConfig(s.Administrator()), aws.String(StackName)
	stacks, err := client.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: name})
	if err != nil {
		return err
	}
	s.Outputs, s.Resources = map[string]string{}, map[string]string{}
	for _, o := range stacks.Stacks[0].Outputs {
		s.Outputs[*o.OutputKey] = *o.OutputValue
	}
	resources, err := client.DescribeStackResources(ctx, &cloudformation.DescribeStackResourcesInput{StackName: name})
	if err != nil {
		return err
	}
	for _, r := range resources.StackResources {
		s.Resources[*r.LogicalResourceId] = aws.ToString(r.PhysicalResourceId)
	}
	return errors.Join(s.gatewayResponses(ctx), s.tableSettings(ctx))
}

// tableSettings gives the stack's own tables the backups and the expiry of items
// that the template declares. ministack takes both by their calls alone.
func (s *Stack) tableSettings(ctx context.Context) error {
	client := dynamodb.NewFromConfig(s.Administrator())
	for logical, name := range s.Resources {
		if !slices.Contains([]string{"ApiKeysTable", "PaymentsTable", "WebhooksTable"}, logical) {
			continue
		}
		_, err := client.UpdateContinuousBackups(ctx, &dynamodb.UpdateContinuousBackupsInput{TableName: &name,
			PointInTimeRecoverySpecification: &ddbtypes.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: aws.Bool(true)}})
		if err == nil && logical != "ApiKeysTable" {
			_, err = client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{TableName: &name,
				TimeToLiveSpecification: &ddbtypes.TimeToLiveSpecification{Enabled: aws.Bool(true), AttributeName: aws.String("ttl")}})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// gatewayResponses hands over the gateway responses that the template declares. ministack reads routes and
// authorizers from the API's body, but not these; on AWS there is nothing to do.
func (s *Stack) gatewayResponses(ctx context.Context) error {
	template, err := cloudformation.NewFromConfig(s.Administrator()).GetTemplate(ctx,
		&cloudformation.GetTemplateInput{StackName: aws.String(StackName), TemplateStage: cfntypes.TemplateStageProcessed})
	if err != nil {
		return err
	}
	var processed struct {
		Resources struct {
			API struct {
				Properties struct {
					Body struct {
						Responses map[string]struct {
							StatusCode any               `json:"statusCode"`
							Parameters map[string]string `json:"responseParameters"`
							Templates  map[string]string `json:"responseTemplates"`
						} `json:"x-amazon-apigateway-gateway-responses"`
					}
				}
			} `json:"Api"`
		}
	}
	if err := json.Unmarshal([]byte(*template.TemplateBody), &processed); err != nil {
		return fmt.Errorf("reading the processed template: %w", err)
	}
	responses := processed.Resources.API.Properties.Body.Responses
	if len(responses) == 0 {
		return errors.New("the processed template declares no gateway responses")
	}
	client := apigateway.NewFromConfig(s.Administrator())
	id := s.Outputs["ApiId"]
	for kind, r := range responses {
		in := &apigateway.PutGatewayResponseInput{RestApiId: &id, ResponseType: apitypes.GatewayResponseType(kind),
			ResponseParameters: r.Parameters, ResponseTemplates: r.Templates}
		if r.StatusCode != nil {
			in.StatusCode = aws.String(fmt.Sprint(r.StatusCode))
		}
		if _, err := client.PutGatewayResponse(ctx, in); err != nil {
			return err
		}
	}
	_, err = client.CreateDeployment(ctx, &apigateway.CreateDeploymentInput{RestApiId: &id, StageName: aws.String("v1")})
	return err
}

// throttle sets the limits of POST /create-api-key that the template's parameters default to. ministack does not
// decode the ~1 that CloudFormation wants for the slashes of a path in MethodSettings; by this call it does.
func (s *Stack) throttle(ctx context.Context) error {
	const at = "/~1create-api-key/POST/throttling/"
	_, err := apigateway.NewFromConfig(s.Administrator()).UpdateStage(ctx, &apigateway.UpdateStageInput{
		RestApiId: aws.String(s.Outputs["ApiId"]), StageName: aws.String("v1"),
		PatchOperations: []apitypes.PatchOperation{
			{Op: apitypes.OpReplace, Path: aws.String(at + "rateLimit"), Value: aws.String("1")},
			{Op: apitypes.OpReplace, Path: aws.String(at + "burstLimit"), Value: aws.String("10")},
		},
	})
	return err
}

// Reauthorize sets for how many seconds the gateway keeps the authorizer's answers. ministack transforms the template
// without its parameters, so that a deployment has the parameter's default whatever it was given.
func (s *Stack) Reauthorize(ctx context.Context, seconds int) error {
	client, api := apigateway.NewFromConfig(s.Administrator()), aws.String(s.Outputs["ApiId"])
	all, err := client.GetAuthorizers(ctx, &apigateway.GetAuthorizersInput{RestApiId: api})
	if err != nil {
		return err
	}
	for _, a := range all.Items {
		_, failed := client.UpdateAuthorizer(ctx, &apigateway.UpdateAuthorizerInput{RestApiId: api,
			AuthorizerId: a.Id, PatchOperations: []apitypes.PatchOperation{{Op: apitypes.OpReplace,
				Path: aws.String("/authorizerResultTtlInSeconds"), Value: aws.String(strconv.Itoa(seconds))}}})
		if _, done := errors.AsType[*smithy.DeserializationError](failed); !done { // ministack quotes the number
			err = errors.Join(err, failed)
		}
	}
	return err
}

// AddRail adds a chain as a rail whose nodes are at url, and its wallets, by an operator's commands, with wide limits.
func (s *Stack) AddRail(ctx context.Context, c *devnet.Chain, url string) error {
	network := "devnet"
	if c != s.Chain {
		network += fmt.Sprint("-", c.ID())
	}
	err := s.Run(ctx, s.Remit, "rails", "add", strconv.FormatUint(c.ID(), 10),
		"--stack", StackName, "--token", c.Token().Contract.String(), "--rpc", url, "--yes", "--reason", "localaws",
		"Network="+network, fmt.Sprint("ConfirmationRule=", ConfirmationRule), fmt.Sprint("BlockTime=", BlockTime),
		"BatchContract="+install.Address().String(), "AmountMinimum=1", "AmountMaximum=1000000000", "DailyLimit=1000000000000")
	for _, w := range c.Wallets() {
		if err == nil {
			err = s.Run(ctx, "/bin/sh", "-c", `echo "$1" | "$0" wallet import --yes --stack "$2" --rail "$3" --file /dev/stdin`,
				s.Remit, w.PrivateKey(), StackName, token.Coin{ChainID: c.ID(), Contract: c.Token().Contract}.String())
		}
	}
	return err
}
