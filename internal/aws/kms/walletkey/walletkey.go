// Package walletkey makes wallets' keys in AWS KMS for operators, and lets a stack's roles sign with them.
package walletkey

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/remit-payouts/remit/internal/evm/token"
)

// Tag is the tag of a stack's keys; its value is the stack's name. The functions may sign with such keys alone.
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

// Wallet returns the ARN and the account of a key named by its id, ARN or alias. Of another curve or use it is ErrKey.
func (k Keys) Wallet(ctx context.Context, name string) (arn string, account token.Address, err error) {
	out, err := k.client.GetPublicKey(ctx, &kms.GetPublicKeyInput{KeyId: &name})
	switch {
	case err != nil:
		return "", account, fmt.Errorf("reading the public key of %s: %w", name, err)
	case out.KeySpec != types.KeySpecEccSecgP256k1 || out.KeyUsage != types.KeyUsageTypeSignVerify:
		return "", account, fmt.Errorf("%s: %w: make one of ECC_SECG_P256K1 for SIGN_VERIFY", name, ErrKey)
	}
	account, err = AddressOf(out.PublicKey)
	return *out.KeyId, account, err
}

// SigningRoles returns the logical ids of the signing functions' roles. A grant on a key lets a role sign; no policy.
func SigningRoles() []string {
	return []string{"CheckReceiptsFunctionRole", "SendPaymentFunctionRole", "SendPaymentsFunctionRole", "ReleaseProposalsFunctionRole"}
}

// Signers returns the ARNs of the roles that grants on a key let sign, or the id of a role that is deleted.
func (k Keys) Signers(ctx context.Context, key string) (roles []string, err error) {
	grants, err := k.grants(ctx, key)
	for _, g := range grants {
		if slices.Contains(g.Operations, types.GrantOperationSign) {
			roles = append(roles, aws.ToString(g.GranteePrincipal))
		}
	}
	return roles, err
}

func (k Keys) grants(ctx context.Context, key string) (all []types.GrantListEntry, err error) {
	pages := kms.NewListGrantsPaginator(k.client, &kms.ListGrantsInput{KeyId: &key})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if _, deleted := errors.AsType[*types.NotFoundException](err); deleted {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("listing the grants on %s: %w", key, err)
		}
		all = append(all, page.Grants...)
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
	grants, err := k.grants(ctx, key)
	if err != nil {
		return err
	}
	for _, g := range grants {
		if aws.ToString(g.Name) != grantName(stack) {
			continue
		}
		if _, err := k.client.RevokeGrant(ctx, &kms.RevokeGrantInput{KeyId: &key, GrantId: g.GrantId}); err != nil {
			return fmt.Errorf("ending a grant on %s: %w", key, err)
		}
	}
	return nil
}

// spki precedes the point x, y in the SubjectPublicKeyInfo of a key of the curve secp256k1, in DER (RFC 5480, SEC 2).
const spki = "\x30\x56\x30\x10\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x0a\x03\x42\x00"

// AddressOf returns the account of a secp256k1 key, a SubjectPublicKeyInfo in DER (RFC 5280). Anything else is ErrKey.
func AddressOf(der []byte) (token.Address, error) {
	point, _ := bytes.CutPrefix(der, []byte(spki)) // without it, the whole is no point
	key, err := crypto.UnmarshalPubkey(point)
	if err != nil {
		return token.Address{}, fmt.Errorf("%w: %w", ErrKey, err)
	}
	return token.Address(crypto.PubkeyToAddress(*key)), nil
}
