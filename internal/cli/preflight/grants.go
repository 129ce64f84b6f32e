package preflight

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/remit-payouts/remit/internal/aws/dynamo"
	"github.com/remit-payouts/remit/internal/aws/kms/walletkey"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
)

// grants finds wallets with keys in KMS for which the functions could no longer sign: no
// policy of this template lets them, and grants from before are missing.
func (f *flight) grants(ctx context.Context) (string, error) {
	chain, err := strconv.ParseUint(f.parameters["ChainId"], 10, 64)
	if err != nil {
		return "", fmt.Errorf("the parameter ChainId: %w", err)
	}
	s, err := f.deployed(ctx)
	if err != nil {
		return "", err
	}
	table := f.table(s, "Payments")
	var roles []string
	resources, err := f.resources(ctx)
	if err != nil {
		return "", err
	}
	for _, r := range resources {
		if r.ID == "PaymentsTable" && table == "" {
			table = r.Name
		}
		if slices.Contains(walletkey.SigningRoles(), r.ID) {
			roles = append(roles, fmt.Sprintf("arn:%s:iam::%s:role/%s", f.partition, f.account, r.Name))
		}
	}
	if table == "" || len(roles) == 0 {
		return "", nil
	}
	wallets, err := dynamo.OpenPayments(f.aws, table).Wallets(ctx, chain)
	if err != nil {
		return "", err
	}
	commands := ""
	for _, w := range wallets {
		if w.State == "retired" || !deployed.InKMS(w.Key) {
			continue
		}
		granted, err := walletkey.Open(f.aws).Grants(ctx, string(w.Key))
		if err != nil {
			return "", err
		}
		if len(walletkey.Lacking(granted, roles)) > 0 {
			commands += fmt.Sprintf("AWS_REGION=%s remit wallet import --stack %s --kms %s\n", f.aws.Region, f.stack, w.Key)
		}
	}
	if commands != "" {
		err = errors.New("functions sign by grants from this version on, and these keys lack them: their wallets' payments would stop")
	}
	return commands, err
}
