package apikey

import (
	"cmp"
	"context"
)

// A Principal is the merchant and key that a request was authenticated with, and the key's rights.
type Principal struct {
	MerchantID string
	KeyID      string
	Mode       Mode
	Hash       Hash // of the key; zero: not known
	Grant      Grant
	Terms      Terms // of the merchant
}

// Root returns the id of the first key of the rotations that led to p's.
func (p Principal) Root() string { return cmp.Or(p.Grant.Root, p.KeyID) }

type principalKey struct{}

// WithPrincipal returns a context that carries p to the handlers.
func WithPrincipal(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// PrincipalFrom returns the principal of ctx. A handler that finds none must refuse: no authenticator saw it.
func PrincipalFrom(ctx context.Context) (Principal, bool) {
	p, ok := ctx.Value(principalKey{}).(Principal)
	return p, ok
}
