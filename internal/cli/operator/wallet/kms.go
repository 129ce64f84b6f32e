//go:build !sandbox

package wallet

import (
	"context"
	"errors"
	"fmt"

	"github.com/remit-payouts/remit/internal/aws/kms/walletkey"
	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// addKMS registers the wallet of a key in KMS. Before that, it makes a key if name is empty, and lets the functions
// sign with it. If it stops after the first, remit wallet import --kms does the rest, also for a registered wallet; a
// merchant's is assigned then. If a call to make a key has no answer, the error describes how to find the key.
func addKMS(d *deployed.Deployment, name, merchant string) (change.Change, error) {
	if d.Account == nil {
		return change.Change{}, errors.New("a stack on this machine has no KMS; remove --kms")
	}
	kind := "the key " + name + " in KMS"
	if name == "" {
		kind = "a new key in KMS, which costs money each month until you schedule its deletion,"
	}
	return change.Change{Consequences: adds(d, kind, merchant), Apply: func(ctx context.Context) (none change.Answer, err error) {
		keys := walletkey.Open(d.Account.AWS)
		if name == "" {
			if name, err = keys.Create(ctx, d.Stack); err != nil {
				return none, fmt.Errorf("%w\nIf a key with the tag %s=%s signs for no wallet of remit wallet list, "+
					"register it with remit wallet import --kms, or schedule its deletion", err, walletkey.Tag, d.Stack)
			}
		}
		arn, address, err := keys.Wallet(ctx, name)
		r := registration(d, address, merchant)
		if r.Key = wallet.KeyRef(arn); err == nil {
			err = register(ctx, d, r)
		}
		if err != nil {
			then := ""
			if merchant != "" { // the import registers it for all
				then = ", then remit wallet drain and assign --merchant " + merchant
			}
			return none, fmt.Errorf("registering %s (again: remit wallet import --kms %[1]s%s): %w", name, then, err)
		}
		return change.Answered(owns(ctx, d, address, merchant), map[string]any{"address": r.Address, "signer": r.Key},
			fmt.Sprintf("%s\nSigned for by %s.\nFund it with %s and gas. Functions notice it within minutes.",
				r.Address, r.Key, d.Asset.Symbol))
	}}, nil
}

// register registers a wallet once the functions may sign with its key in KMS, unless it is retired or has another key.
func register(ctx context.Context, d *deployed.Deployment, r wallet.Registration) error {
	switch on, there, err := d.HolderOf(ctx, r.Address); {
	case err != nil:
		return err
	case on == nil:
	case on.Number != d.Number:
		return fmt.Errorf("wallet %s is registered for %s; choose another wallet", r.Address, on.Name())
	case there.Key != r.Key:
		return fmt.Errorf("wallet %s is registered with another key, %s; choose another wallet", r.Address, there.Key)
	case there.State == wallet.Retired:
		return errRetired(r.Address)
	}
	roles, err := d.Account.Signers(ctx)
	if err != nil {
		return err
	}
	if err := walletkey.Open(d.Account.AWS).GrantSign(ctx, string(r.Key), d.Stack, roles); err != nil {
		return err
	}
	return d.Payments.Register(ctx, r)
}

func endGrants(ctx context.Context, a *deployed.Account, r wallet.Registration) error {
	if a == nil || !deployed.InKMS(r.Key) {
		return nil
	}
	if err := walletkey.Open(a.AWS).EndGrants(ctx, string(r.Key), a.Stack); err != nil {
		return fmt.Errorf("%s is retired; its key may still sign: run this again with RemitKeys: %w", r.Address, err)
	}
	return nil
}
