package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	cwtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	smtypes "github.com/aws/aws-sdk-go-v2/service/secretsmanager/types"

	"github.com/remit-payouts/remit/internal/aws/kms/walletkey"
	"github.com/remit-payouts/remit/internal/aws/schema"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/evm/chains"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// isClosed finds the parameters that leave a stack with real money open.
func (e *examination) isClosed(context.Context) (string, error) {
	p := e.Account.Parameters
	err := errors.Join(chains.Deployment{
		Environment: p["Environment"], Mode: p["Mode"], ChainID: e.ChainID, AlarmTopic: p["AlarmTopicArn"],
	}.Open()...)
	return fmt.Sprintf("%s, %s mode", p["Environment"], p["Mode"]), err
}

// isReserved finds a stack in production whose functions share all concurrency.
func (e *examination) isReserved(context.Context) (string, error) {
	switch size := e.Account.Parameters["Size"]; {
	case size != "sandbox":
		return "as " + size + " does", nil
	case e.Account.Parameters["Environment"] == "prod":
		return "", errors.New("the Size is sandbox: a flood of one function's requests can stop payments and settlement")
	default:
		return "none, as none is wanted outside of production", nil
	}
}

// tablesAreKept finds tables without backups or protection, as after a restore.
func (e *examination) tablesAreKept(ctx context.Context) (string, error) {
	t := schema.Tables{APIKeys: e.Account.Outputs["ApiKeysTableName"], Payments: e.Account.Outputs["PaymentsTableName"],
		Webhooks: e.Account.Outputs["WebhooksTableName"]}
	lacks, err := t.Lacks(ctx, dynamodb.NewFromConfig(e.Account.AWS), e.Account.Parameters["Environment"] == "prod")
	if err == nil && len(lacks) > 0 {
		err = errors.New(strings.Join(lacks, "; "))
	}
	return strings.Join([]string{t.APIKeys, t.Payments, t.Webhooks}, ", "), err
}

// secretsAreReplicated checks the copies of the secrets in the second region.
func (e *examination) secretsAreReplicated(ctx context.Context) (string, error) {
	region := e.Account.Parameters["ReplicaRegion"]
	rpc, err := e.Account.Output("RpcSecretArn")
	if err != nil {
		return "", err
	}
	keyed, err := e.Keyed(ctx)
	if err != nil {
		return "", err
	}
	ids := []string{rpc}
	for address := range keyed {
		ids = append(ids, e.Account.Outputs["WalletSecrets"]+address.String())
	}
	for _, id := range ids {
		secret, err := secretsmanager.NewFromConfig(e.Account.AWS).DescribeSecret(ctx, &secretsmanager.DescribeSecretInput{SecretId: &id})
		if err != nil {
			return "", fmt.Errorf("describing %s: %w", id, err)
		}
		if !slices.ContainsFunc(secret.ReplicationStatus, func(r smtypes.ReplicationStatusType) bool {
			return aws.ToString(r.Region) == region && r.Status == smtypes.StatusTypeInSync
		}) {
			return "", fmt.Errorf("%s is not in %s", id, region)
		}
	}
	return fmt.Sprintf("%d in %s", len(ids), region), nil
}

// alarmsExist compares the template's alarms with CloudWatch's.
func (e *examination) alarmsExist(ctx context.Context) (string, error) {
	declared, err := e.Account.Alarms(ctx)
	if err != nil {
		return "", err
	}
	existing, err := e.Account.Alarmed(ctx, declared)
	if err != nil {
		return "", err
	}
	total := len(declared)
	var alarming []string
	for _, alarm := range existing {
		name := aws.ToString(alarm.AlarmName)
		if alarm.StateValue == cwtypes.StateValueAlarm {
			alarming = append(alarming, name)
		}
		delete(declared, name)
	}
	switch {
	case total == 0:
		return "", errors.New("the stack has no alarms")
	case len(declared) > 0:
		return "", fmt.Errorf("%d of %d are missing", len(declared), total)
	case len(alarming) > 0:
		return "", fmt.Errorf("in alarm: %s", strings.Join(alarming, ", "))
	}
	return fmt.Sprintf("%d, none in alarm", total), nil
}

// grantsFit compares who may sign with each key in KMS with the registry.
func (e *examination) grantsFit(ctx context.Context) (string, error) {
	wallets, err := e.Wallets(ctx)
	if err != nil {
		return "", err
	}
	list, err := e.Account.Resources(ctx)
	if err != nil {
		return "", err
	}
	roles, err := e.Account.Signers(list)
	if err != nil {
		return "", err
	}
	keys := 0
	var wrong []error
	for _, r := range wallets {
		if !deployed.InKMS(r.Key) {
			continue
		}
		keys++
		grants, err := walletkey.Open(e.Account.AWS).Grants(ctx, string(r.Key))
		if err != nil {
			return "", err
		}
		may := roles
		if r.State == wallet.Retired {
			may = nil
		}
		if others := walletkey.Strangers(grants, may); len(others) > 0 {
			wrong = append(wrong, fmt.Errorf("%s may sign for the %s wallet %s", strings.Join(others, ", "), r.State, r.Address))
		}
		if lacking := walletkey.Lacking(grants, may); len(lacking) > 0 {
			wrong = append(wrong, fmt.Errorf("%s may not sign for %s: remit wallet import --kms %s", strings.Join(lacking, ", "), r.Address, r.Key))
		}
	}
	return fmt.Sprintf("%d keys, signed with by the functions alone", keys), errors.Join(wrong...)
}
