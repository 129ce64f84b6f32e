package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"remit/internal/kms"
	"remit/internal/wallet"
)

// A listed resource is one of the stack's.
type listed struct{ id, name, kind string } // logical id, physical name, type

// listed returns the stack's resources.
func (a *account) listed(ctx context.Context) (all []listed, err error) {
	found, err := a.resources(ctx)
	for _, r := range found {
		all = append(all, listed{aws.ToString(r.LogicalResourceId), aws.ToString(r.PhysicalResourceId), aws.ToString(r.ResourceType)})
	}
	return all, err
}

// signers returns the ARNs of the roles of the functions that sign.
func (a *account) signers(all []listed) (arns []string, err error) {
	at, err := a.at()
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		if slices.Contains(kms.SigningRoles(), r.id) {
			arns = append(arns, at("iam", "role/"+r.name))
		}
	}
	if len(arns) != len(kms.SigningRoles()) {
		return nil, fmt.Errorf("stack %s has %d of the roles %v: deploy this version's template first", a.stack, len(arns), kms.SigningRoles())
	}
	slices.Sort(arns)
	return arns, nil
}

// inKMS reports whether a wallet's key is in KMS.
func inKMS(key wallet.KeyRef) bool { return strings.HasPrefix(string(key), "arn:") }

// grantSign lets the functions that sign use a key.
func (a *account) grantSign(ctx context.Context, key string) error {
	list, err := a.listed(ctx)
	if err != nil {
		return err
	}
	roles, err := a.signers(list)
	if err != nil {
		return err
	}
	return kms.Open(a.aws).GrantSign(ctx, key, a.stack, roles)
}

// endGrants ends what grantSign has given for a wallet whose key is in KMS.
func (d *deployment) endGrants(ctx context.Context, r wallet.Registration) error {
	a, onAWS := d.platform.(*account)
	if !onAWS || !inKMS(r.Key) {
		return nil
	}
	if err := kms.Open(a.aws).EndGrants(ctx, string(r.Key), a.stack); err != nil {
		return fmt.Errorf("%s is retired, and functions may still sign with its key; run this again with the rights of RemitKeys: %w",
			r.Address, err)
	}
	return nil
}

// grantsFit compares who may sign with each key in KMS with the registry.
func (e *examination) grantsFit(ctx context.Context, a *account) (string, error) {
	_, wallets, err := e.wallets(ctx)
	if err != nil {
		return "", err
	}
	list, err := a.listed(ctx)
	if err != nil {
		return "", err
	}
	roles, err := a.signers(list)
	if err != nil {
		return "", err
	}
	keys := 0
	var wrong []error
	for _, r := range wallets {
		if !inKMS(r.Key) {
			continue
		}
		keys++
		grants, err := kms.Open(a.aws).Grants(ctx, string(r.Key))
		if err != nil {
			return "", err
		}
		may := roles
		if r.State == wallet.Retired {
			may = nil
		}
		if others := kms.Strangers(grants, may); len(others) > 0 {
			wrong = append(wrong, fmt.Errorf("%s may sign for the %s wallet %s", strings.Join(others, ", "), r.State, r.Address))
		}
		if lacking := kms.Lacking(grants, may); len(lacking) > 0 {
			wrong = append(wrong, fmt.Errorf("%s may not sign for %s: remit wallet import --kms %s", strings.Join(lacking, ", "), r.Address, r.Key))
		}
	}
	return fmt.Sprintf("%d keys, signed with by the functions alone", keys), errors.Join(wrong...)
}
