package boot

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
)

// awsConfig reads the region and the role's credentials, which Lambda puts into every function's environment. The
// SDK's own loader would do the same after linking every other way to credentials (SSO, profiles, instance metadata):
// 2 MB of a function's binary, and part of each cold start.
//
// Like that loader it honours AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_<SERVICE> and AWS_CA_BUNDLE. Every request names the
// function in its User-Agent, which CloudTrail keeps.
func (e *Env) awsConfig() aws.Config {
	cfg := aws.Config{
		Region:        e.Optional("AWS_REGION", e.lookup("AWS_DEFAULT_REGION")),
		Credentials:   credentials{e.lookup},
		ConfigSources: []any{endpoints{e.lookup}},
		HTTPClient:    bounded(),
		AppID:         e.lookup("AWS_LAMBDA_FUNCTION_NAME"),
	}
	if url := e.lookup("AWS_ENDPOINT_URL"); url != "" {
		cfg.BaseEndpoint = &url
	}
	if file := e.lookup("AWS_CA_BUNDLE"); file != "" {
		client, err := trusting(file)
		if err != nil {
			e.errs = append(e.errs, fmt.Errorf("AWS_CA_BUNDLE: %w", err))
		}
		cfg.HTTPClient = client
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

// endpoints gives a client of the SDK its service's address, if the environment says so for that very service.
type endpoints struct{ lookup func(string) string }

// GetServiceBaseEndpoint is the method by which the SDK's clients query their configuration's sources.
func (s endpoints) GetServiceBaseEndpoint(_ context.Context, sdkID string) (string, bool, error) {
	url := s.lookup("AWS_ENDPOINT_URL_" + strings.ToUpper(strings.ReplaceAll(sdkID, " ", "_")))
	return url, url != "", nil
}

// callTimeout bounds one request to AWS, body included. The SDK sets none, and a connection that died in a Lambda's
// sleep would hang as long as the function. A call that is cut off is tried again; its outcome is unknown.
const callTimeout = 5 * time.Second

func bounded() *awshttp.BuildableClient { return awshttp.NewBuildableClient().WithTimeout(callTimeout) }

// trusting returns a client that trusts the certificates in the PEM file, and no others.
func trusting(file string) (aws.HTTPClient, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("no certificate in %s", file)
	}
	return bounded().WithTransportOptions(func(t *http.Transport) {
		t.TLSClientConfig.RootCAs = roots
	}), nil
}
