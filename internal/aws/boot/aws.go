package boot

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"regexp"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
)

// awsConfig reads the region and the role's credentials, which Lambda puts into every function's environment. The
// SDK's own loader would do the same after linking every other way to credentials (SSO, profiles, instance metadata):
// 2 MB of a function's binary, and part of each cold start.
//
// Like that loader it honours AWS_ENDPOINT_URL, which sam local sets. Every request names the function in its
// User-Agent, which CloudTrail keeps.
func (e *Env) awsConfig() aws.Config {
	cfg := aws.Config{
		Region:      e.Optional("AWS_REGION", e.lookup("AWS_DEFAULT_REGION")),
		Credentials: credentials{e.lookup},
		HTTPClient:  bounded(),
		AppID:       e.lookup("AWS_LAMBDA_FUNCTION_NAME"),
		APIOptions:  []func(*middleware.Stack) error{e.noted},
	}
	if url := e.lookup("AWS_ENDPOINT_URL"); url != "" {
		cfg.BaseEndpoint = &url
	}
	return cfg
}

// credentials are of the function's role. Lambda ends the process before they expire.
type credentials struct{ lookup func(string) string }

func (c credentials) Retrieve(context.Context) (aws.Credentials, error) {
	v := aws.Credentials{
		AccessKeyID:     c.lookup("AWS_ACCESS_KEY_ID"),
		SecretAccessKey: c.lookup("AWS_SECRET_ACCESS_KEY"),
		SessionToken:    c.lookup("AWS_SESSION_TOKEN"),
		Source:          "environment",
	}
	if !v.HasKeys() {
		return aws.Credentials{}, errors.New("no AWS credentials in the environment")
	}
	return v, nil
}

// callTimeout bounds an attempt of a call of AWS, body included: healthy ones take milliseconds. The SDK sets none, and
// a connection that died in a Lambda's sleep would hang until the function's own time is over. An attempt that is cut
// off is repeated on another connection; its outcome is unknown.
const callTimeout = 2 * time.Second

// bounded speaks HTTP/1.1, which closes the connection of an attempt that is cut off; HTTP/2 would use it again.
func bounded() *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().WithTimeout(callTimeout).WithTransportOptions(func(t *http.Transport) {
		t.Protocols, t.TLSNextProto, t.TLSClientConfig.NextProtos = new(http.Protocols), nil, nil
		t.Protocols.SetHTTP1(true)
	})
}

// Impatient bounds attempts to a second, for a function that must answer within five.
func (e *Env) Impatient() { e.AWS.HTTPClient = bounded().WithTimeout(time.Second) }

// throttled matches an error of DynamoDB, or the reason of a transaction that it did not try.
var throttled = regexp.MustCompile("Throttl|ThroughputExceeded|RequestLimitExceeded")

// noted logs each attempt that DynamoDB throttles, or that KMS or Secrets Manager fail: AWS has no metric of the
// latter, and one for each table, index and operation of the former. The line is a metric too, in the embedded metric format.
func (e *Env) noted(stack *middleware.Stack) error {
	return stack.Finalize.Insert(middleware.FinalizeMiddlewareFunc("Note", func(ctx context.Context, in middleware.FinalizeInput,
		next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
		out, metadata, err := next.HandleFinalize(ctx, in)
		service, metric := awsmiddleware.GetServiceID(ctx), ""
		switch api, _ := errors.AsType[smithy.APIError](err); {
		case err == nil || api != nil && api.ErrorCode() == "ResourceNotFoundException": // as before nodes are stored
		case service == "DynamoDB" && throttled.MatchString(err.Error()):
			metric = "CallsThrottled"
		case service == "KMS" || service == "Secrets Manager":
			metric = "KeyErrors"
		}
		if metric != "" {
			slog.WarnContext(ctx, "AWS refused a call", "service", service, "operation",
				awsmiddleware.GetOperationName(ctx), "err", err, "Stack", e.lookup("STACK"), metric, 1,
				"_aws", map[string]any{"Timestamp": e.Now().UnixMilli(),
					"CloudWatchMetrics": []any{map[string]any{"Namespace": "Remit", "Dimensions": [][]string{{"Stack"}},
						"Metrics": []any{map[string]string{"Name": metric, "Unit": "Count"}}}}})
		}
		return out, metadata, err
	}), "Retry", middleware.After)
}
