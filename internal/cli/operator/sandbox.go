//go:build sandbox

package operator

import (
	"context"
	"errors"

	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/payments/keyring"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// OnAWS are no commands: see aws.go.
type OnAWS struct{}

func signing(_ *deployed.Deployment, keys *keyring.Ring) *keyring.Ring { return keys }

func addKMS(*deployed.Deployment, string) (none change.Change, err error) {
	return none, errors.New("a stack on this machine has no KMS; remove --kms")
}

func endGrants(context.Context, *deployed.Account, wallet.Registration) error { return nil }
