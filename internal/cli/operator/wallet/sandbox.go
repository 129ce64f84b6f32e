//go:build sandbox

package wallet

import (
	"context"
	"errors"

	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

func addKMS(*deployed.Deployment, string, string) (none change.Change, err error) {
	return none, errors.New("a stack on this machine has no KMS; remove --kms")
}

func endGrants(context.Context, *deployed.Account, wallet.Registration) error { return nil }
