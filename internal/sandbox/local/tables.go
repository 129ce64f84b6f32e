package local

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/schema"
	"github.com/remit-payouts/remit/internal/merchants/apikey"
	"github.com/remit-payouts/remit/internal/merchants/recipient"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

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

var localTables = schema.Tables{APIKeys: "remit-api-keys", Payments: "remit-payments", Webhooks: "remit-webhooks"}

// openTables returns stores in memory, or in DynamoDB at url, whose tables it
// creates if they are absent, and deletes first if they are to be fresh.
func openTables(ctx context.Context, url string, fresh bool) (*tables, error) {
	if url == "" {
		return &tables{&memory.APIKeys{}, memory.NewPayments(), memory.NewWebhooks()}, nil
	}
	db := dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(url),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "remit", SecretAccessKey: "remit"}, nil
		}),
		HTTPClient: awshttp.NewBuildableClient().WithTimeout(5 * time.Second), // the SDK sets no bound
	})
	var err error
	if fresh {
		err = schema.Delete(ctx, db, localTables)
	}
	if err == nil {
		err = schema.Create(ctx, db, localTables)
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("nothing listens at --dynamodb %s; make dynamodb starts DynamoDB Local on port 8000", url)
	} else if err != nil {
		return nil, fmt.Errorf("--dynamodb %s: %w", url, err)
	}
	return &tables{
		dynamo.NewAPIKeys(db, localTables.APIKeys),
		dynamo.NewPayments(db, localTables.Payments),
		dynamo.NewWebhooks(db, localTables.Webhooks),
	}, nil
}

// fit returns an error if no payment could be made from the tables, as when a wallet
// of theirs has paid on another run's embedded chain, which starts empty with each process.
func (t *tables) fit(ctx context.Context, on rails) error {
	rules, err := t.payments.Rules(ctx)
	if err != nil {
		return err
	}
	for _, r := range rules.Rails {
		if on.of(r.Coin) == nil {
			return fmt.Errorf("the tables have the rail %s too; start it as well, or use other tables", r.Coin)
		}
	}
	for _, r := range on {
		wallets, err := t.payments.Wallets(ctx, r.Coin())
		if err == nil && r.embedded != nil && len(wallets.Working(true)) > 0 {
			err = errors.New("the tables know payments of an embedded chain that is gone; " +
				"add --fresh to delete them, or keep a chain with remit chain and name it with --rpc")
		}
		if err != nil {
			return err
		}
	}
	return nil
}
