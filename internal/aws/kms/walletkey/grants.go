// Package walletkey makes wallets' keys in AWS KMS for operators, and lets a stack's roles sign with them.
package walletkey

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"
)

// Tag is the tag of a stack's keys; its value is the stack's name. The functions that
// sign may use the keys with their stack's tag, and no others.
const Tag = "remit-stack"

// Keys are the keys of an account and region.
type Keys struct{ client *kms.Client }

// Open returns the keys; KMS is not asked for anything yet.
func Open(cfg aws.Config) Keys { return Keys{kms.NewFromConfig(cfg)} }

// Create makes a key of the curve secp256k1 for a stack. After an error a key without any use may be there.
func (k Keys) Create(ctx context.Context, stack string) (arn string, err error) {
	out, err := k.client.CreateKey(ctx, &kms.CreateKeyInput{
		KeySpec: types.KeySpecEccSecgP256k1, KeyUsage: types.KeyUsageTypeSignVerify,
		Description: aws.String("A wallet of " + stack), Tags: []types.Tag{{TagKey: aws.String(Tag), TagValue: &stack}},
	})
	if err != nil {
		return "", fmt.Errorf("making a key in KMS: %w", err)
	}
	return *out.KeyMetadata.Arn, nil
}

// ErrKey reports a key that signs no transactions.
var ErrKey = errors.New("not a key for signing on the curve secp256k1")

// Public returns the ARN and the public key, a SubjectPublicKeyInfo in DER, of a key
// named by its id, ARN or alias. One that is not for signing on secp256k1 is ErrKey.
func (k Keys) Public(ctx context.Context, name string) (arn string, der []byte, err error) {
	out, err := k.client.GetPublicKey(ctx, &kms.GetPublicKeyInput{KeyId: &name})
	switch {
	case err != nil:
		return "", nil, fmt.Errorf("reading the public key of %s: %w", name, err)
	case out.KeySpec != types.KeySpecEccSecgP256k1 || out.KeyUsage != types.KeyUsageTypeSignVerify:
		return "", nil, fmt.Errorf("%s: %w: make one with KeySpec ECC_SECG_P256K1 and KeyUsage SIGN_VERIFY", name, ErrKey)
	}
	return *out.KeyId, out.PublicKey, nil
}

// SigningRoles returns the logical ids of the signing functions' roles. A grant on a key lets a role sign; no policy.
func SigningRoles() []string {
	return []string{"CheckReceiptsFunctionRole", "SendPaymentFunctionRole", "SendPaymentsFunctionRole", "ReleaseProposalsFunctionRole"}
}

// A Grant lets a role do something with a key.
type Grant struct {
	ID, Name string
	Role     string // its ARN; once it is deleted, an id
	Sign     bool
}

// Grants returns the grants on a key, none of a key that is deleted.
func (k Keys) Grants(ctx context.Context, key string) (all []Grant, err error) {
	pages := kms.NewListGrantsPaginator(k.client, &kms.ListGrantsInput{KeyId: &key})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if _, deleted := errors.AsType[*types.NotFoundException](err); deleted {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("listing the grants on %s: %w", key, err)
		}
		for _, g := range page.Grants {
			all = append(all, Grant{aws.ToString(g.GrantId), aws.ToString(g.Name), aws.ToString(g.GranteePrincipal),
				slices.Contains(g.Operations, types.GrantOperationSign)})
		}
	}
	return all, nil
}

// grantName names the grants of a stack: KMS makes no second grant of that name.
func grantName(stack string) string { return Tag + ":" + stack }

// GrantSign lets roles sign for a stack with a key. After an error some may.
func (k Keys) GrantSign(ctx context.Context, key, stack string, roles []string) error {
	sign, name := []types.GrantOperation{types.GrantOperationSign}, grantName(stack)
	for _, role := range roles {
		in := &kms.CreateGrantInput{KeyId: &key, GranteePrincipal: &role, Operations: sign, Name: &name}
		if _, err := k.client.CreateGrant(ctx, in); err != nil {
			return fmt.Errorf("letting %s sign with %s: %w", role, key, err)
		}
	}
	return nil
}

// EndGrants ends all grants of GrantSign. After an error some may be left.
func (k Keys) EndGrants(ctx context.Context, key, stack string) error {
	grants, err := k.Grants(ctx, key)
	if err != nil {
		return err
	}
	for _, g := range grants {
		if g.Name != grantName(stack) {
			continue
		}
		if _, err := k.client.RevokeGrant(ctx, &kms.RevokeGrantInput{KeyId: &key, GrantId: &g.ID}); err != nil {
			return fmt.Errorf("ending a grant on %s: %w", key, err)
		}
	}
	return nil
}

// Strangers returns who else than roles may sign by grants.
func Strangers(grants []Grant, roles []string) (strangers []string) {
	for _, g := range grants {
		if g.Sign && !slices.Contains(roles, g.Role) {
			strangers = append(strangers, g.Role)
		}
	}
	return strangers
}

// Lacking returns which of roles may not sign by grants.
func Lacking(grants []Grant, roles []string) []string {
	return slices.DeleteFunc(slices.Clone(roles), func(role string) bool {
		return slices.ContainsFunc(grants, func(g Grant) bool { return g.Sign && g.Role == role })
	})
}
