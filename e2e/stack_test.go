package e2e_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/apigateway"
	apitypes "github.com/aws/aws-sdk-go-v2/service/apigateway/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cfntypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"

	"remit/internal/devnet"
	"remit/internal/keyring"
)

const (
	stackName        = "remit"
	network          = "devnet"
	confirmationRule = 2
	blockTime        = 500 * time.Millisecond
)

// A stack is the deployed template, and the chain it pays on.
type stack struct {
	*cloud
	chain     *devnet.Chain
	outputs   map[string]string
	resources map[string]string // physical ids by logical ids
}

// url is where API Gateway serves the stage.
func (s *stack) url(path string) string {
	return s.endpoint + "/restapis/" + s.outputs["ApiId"] + "/v1/_user_request_" + path
}

// deployed is the one stack of this test binary.
var deployed = sync.OnceValues(func() (*stack, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	return deploy(ctx, scratch)
})

// scratch is a directory for the files of the deployment.
var scratch string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		var err error
		if scratch, err = os.MkdirTemp("", "remit-e2e-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() { _ = os.RemoveAll(scratch) }()
		return m.Run()
	}())
}

// start returns the stack, deploying it when first asked.
func start(t *testing.T) *stack {
	t.Helper()
	s, err := deployed()
	if err != nil {
		t.Fatalf("deploying: %v", err)
	}
	return s
}

// deploy builds and deploys the template to a fresh cloud, with a chain beside
// it, and stores the secrets that an operator stores: keys and nodes.
func deploy(ctx context.Context, dir string) (*stack, error) {
	c, err := startCloud(ctx, dir)
	if err != nil {
		return nil, err
	}
	chain, err := devnet.Start(context.WithoutCancel(ctx), devnet.Config{Listen: "127.0.0.1:0", BlockTime: blockTime, Wallets: 2, Now: time.Now})
	if err != nil {
		return nil, err
	}
	s := &stack{cloud: c, chain: chain}
	build := filepath.Join(dir, "build")
	if err := c.run(ctx, "make", "build", "ARGS=--build-dir "+build+" --parameter-overrides "+architecture); err != nil {
		return nil, err
	}
	if err := s.install(ctx, build); err != nil {
		return nil, err
	}
	return s, errors.Join(s.throttle(ctx), s.fillSecrets(ctx))
}

var architecture = "Architecture=" + map[string]string{"amd64": "x86_64", "arm64": "arm64"}[runtime.GOARCH]

// install deploys a build, over the one that is there if there is one.
func (s *stack) install(ctx context.Context, build string, parameters ...string) error {
	err := s.run(ctx, "sam", slices.Concat([]string{
		"deploy", "--template-file", filepath.Join(build, "template.yaml"), "--stack-name", stackName, "--resolve-s3",
		"--capabilities", "CAPABILITY_IAM", "--no-confirm-changeset", "--no-fail-on-empty-changeset", "--parameter-overrides",
		architecture, "TraceRule=false", // ministack knows no X-Ray
		"Network=" + network, fmt.Sprintf("ChainId=%d", s.chain.ID()), fmt.Sprintf("TokenAddress=%v", s.chain.Token().Contract),
		"TokenSymbol=" + s.chain.Token().Symbol, fmt.Sprintf("TokenDecimals=%d", s.chain.Token().Decimals),
		fmt.Sprintf("ConfirmationRule=%d", confirmationRule), fmt.Sprintf("BlockTime=%v", blockTime),
	}, parameters)...)
	if err != nil {
		return err
	}
	if err := s.describe(ctx); err != nil {
		return err
	}
	return s.gatewayResponses(ctx)
}

// describe reads the outputs and the resources of the deployment.
func (s *stack) describe(ctx context.Context) error {
	client := cloudformation.NewFromConfig(s.administrator())
	stacks, err := client.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: aws.String(stackName)})
	if err != nil {
		return err
	}
	s.outputs, s.resources = map[string]string{}, map[string]string{}
	for _, o := range stacks.Stacks[0].Outputs {
		s.outputs[*o.OutputKey] = *o.OutputValue
	}
	resources, err := client.DescribeStackResources(ctx, &cloudformation.DescribeStackResourcesInput{StackName: aws.String(stackName)})
	if err != nil {
		return err
	}
	for _, r := range resources.StackResources {
		s.resources[*r.LogicalResourceId] = aws.ToString(r.PhysicalResourceId)
	}
	return nil
}

// gatewayResponses hands over the gateway responses that the template declares.
// ministack reads routes and authorizers from the API's body, but not these; on
// AWS there is nothing to do.
func (s *stack) gatewayResponses(ctx context.Context) error {
	template, err := cloudformation.NewFromConfig(s.administrator()).GetTemplate(ctx,
		&cloudformation.GetTemplateInput{StackName: aws.String(stackName), TemplateStage: cfntypes.TemplateStageProcessed})
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
	client := apigateway.NewFromConfig(s.administrator())
	id := s.outputs["ApiId"]
	for kind, r := range responses {
		in := &apigateway.PutGatewayResponseInput{
			RestApiId: &id, ResponseType: apitypes.GatewayResponseType(kind), ResponseParameters: r.Parameters, ResponseTemplates: r.Templates,
		}
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

// throttle sets the limits of POST /create-api-key that the template's
// parameters default to. ministack does not decode the ~1 that CloudFormation
// wants for the slashes of a path in MethodSettings; by this call it does.
func (s *stack) throttle(ctx context.Context) error {
	const at = "/~1create-api-key/POST/throttling/"
	_, err := apigateway.NewFromConfig(s.administrator()).UpdateStage(ctx, &apigateway.UpdateStageInput{
		RestApiId: aws.String(s.outputs["ApiId"]), StageName: aws.String("v1"),
		PatchOperations: []apitypes.PatchOperation{
			{Op: apitypes.OpReplace, Path: aws.String(at + "rateLimit"), Value: aws.String("1")},
			{Op: apitypes.OpReplace, Path: aws.String(at + "burstLimit"), Value: aws.String("10")},
		},
	})
	return err
}

// fillSecrets stores the wallets' keys and the nodes' URLs.
func (s *stack) fillSecrets(ctx context.Context) error {
	var entries []keyring.Entry
	for _, w := range s.chain.Wallets() {
		key, err := keyring.ParseKey(w.PrivateKey())
		if err != nil {
			return err
		}
		entries = append(entries, keyring.Entry{Key: key})
	}
	nodes, err := json.Marshal(map[string][]string{"urls": {s.chain.URL()}})
	if err != nil {
		return err
	}
	return errors.Join(
		s.putSecret(ctx, "WalletSecretArn", string(keyring.Encode(entries))),
		s.putSecret(ctx, "RpcSecretArn", string(nodes)))
}

func (s *stack) putSecret(ctx context.Context, output, value string) error {
	_, err := secretsmanager.NewFromConfig(s.administrator()).PutSecretValue(ctx,
		&secretsmanager.PutSecretValueInput{SecretId: aws.String(s.outputs[output]), SecretString: &value})
	return err
}
