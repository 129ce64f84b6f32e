package kms

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"
)

// SigningRoles returns the logical ids of the roles of the functions that sign. A grant on
// its wallet's key lets a role sign; no policy does.
func SigningRoles() []string {
	return []string{"CheckReceiptsFunctionRole", "SendPaymentFunctionRole", "SendPaymentsFunctionRole"}
}

// A Grant lets a role do something with a key.
type Grant struct {
	ID   string
	Name string
	Role string // its ARN; once it is deleted, an id
	Sign bool
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

// grantName names the grants of a stack: KMS makes no second one of that name.
func grantName(stack string) string { return Tag + ":" + stack }

// GrantSign lets roles sign for a stack with a key. After an error some may.
func (k Keys) GrantSign(ctx context.Context, key, stack string, roles []string) error {
	for _, role := range roles {
		_, err := k.client.CreateGrant(ctx, &kms.CreateGrantInput{
			KeyId: &key, GranteePrincipal: &role, Operations: []types.GrantOperation{types.GrantOperationSign}, Name: aws.String(grantName(stack)),
		})
		if err != nil {
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
