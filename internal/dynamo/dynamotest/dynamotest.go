// Package dynamotest runs DynamoDB Local for tests. It makes no tables: each test
// makes tables under new names.
package dynamotest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// started is the one process of this test binary. It is kept for the life of the
// binary, since DynamoDB Local ends when the pipe that it holds is closed.
var started = sync.OnceValues(launch)

// Start returns the URL of a DynamoDB Local that all tests of this binary
// share, so every test needs table names of its own. It is started on first use,
// in memory, on a free port, and ends with the test binary, even if that is killed.
// REMIT_TEST_DYNAMODB names one that runs already and is used instead.
//
// A test that cannot have it fails; it is never skipped. Call it outside a
// synctest bubble: it waits for a real process.
func Start(t testing.TB) string {
	t.Helper()
	if running := os.Getenv("REMIT_TEST_DYNAMODB"); running != "" {
		if err := ready(t.Context(), running); err != nil {
			t.Fatalf("REMIT_TEST_DYNAMODB=%s: %v", running, err)
		}
		return running
	}
	local, err := started()
	if err != nil {
		t.Fatalf("starting DynamoDB Local: %v", err)
	}
	return local.endpoint
}

// Client returns a client of the DynamoDB Local that Start returns. Its keys are
// no secret: DynamoDB Local takes any made of letters and digits.
func Client(t testing.TB) *dynamodb.Client {
	t.Helper()
	return dynamodb.New(dynamodb.Options{
		BaseEndpoint: aws.String(Start(t)),
		Region:       "us-east-1",
		Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
}

// Open starts a DynamoDB Local of its own for a program that is not a test. end
// ends it, and so does the end of the program.
func Open() (endpoint string, end func(), err error) {
	p, err := launch()
	if err != nil {
		return "", nil, err
	}
	return p.endpoint, func() {
		_ = p.hold.Close()
		<-p.ended
	}, nil
}

func launch() (*process, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	jars, err := find()
	if err != nil {
		return nil, err
	}
	// The port is free when it is chosen and may be taken when Java binds it.
	for range 3 {
		var p *process
		if p, err = run(ctx, jars); err == nil {
			return p, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("running the jars of %s: %w", jars, err)
}
