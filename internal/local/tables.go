package local

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"remit/internal/apikey"
	"remit/internal/dynamo"
	"remit/internal/memory"
	"remit/internal/recipient"
	"remit/internal/store"
	"remit/internal/webhook"
)

// tables are the stores of a stack, in place of AWS's three tables.
type tables struct {
	keys interface {
		apikey.Store
		apikey.Finder
		recipient.Store
	}
	payments interface {
		store.Store
		store.AuditLog
	}
	webhooks webhook.Store
}

// tableTimeout bounds one request to DynamoDB: the SDK sets no bound.
const tableTimeout = 5 * time.Second

// localTables are the names that a stack on one machine gives its tables.
var localTables = dynamo.Tables{APIKeys: "remit-api-keys", Payments: "remit-payments", Webhooks: "remit-webhooks"}

// openTables returns stores in memory, or in DynamoDB at url, whose tables it
// creates if they are absent.
func openTables(ctx context.Context, url string) (*tables, error) {
	if url == "" {
		return &tables{&memory.APIKeys{}, memory.NewPayments(), memory.NewWebhooks()}, nil
	}
	db := dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(url),
		Credentials: credentials.NewStaticCredentialsProvider("remit", "remit", ""),
		HTTPClient:  awshttp.NewBuildableClient().WithTimeout(tableTimeout),
	})
	if err := dynamo.CreateTables(ctx, db, localTables); err != nil {
		return nil, fmt.Errorf("--dynamodb %s: %w", url, err)
	}
	return &tables{
		dynamo.NewAPIKeys(db, localTables.APIKeys),
		dynamo.NewPayments(db, localTables.Payments),
		dynamo.NewWebhooks(db, localTables.Webhooks),
	}, nil
}
