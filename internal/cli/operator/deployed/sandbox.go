//go:build sandbox

package deployed

import (
	"context"
	"errors"
	"io"

	"github.com/remit-payouts/remit/internal/payments/keyring"
)

func (Target) onAWS(context.Context, io.Writer) (*Deployment, error) {
	return nil, errors.New("this program knows only stacks of make run: set REMIT_STACK to its http://…, " +
		"or, for a stack on AWS, run go build -o .cache/bin/remit ./cmd/remit, and .cache/bin/remit")
}

// Signing returns keys: no key of these stacks is in KMS.
func (*Deployment) Signing(keys *keyring.Ring) *keyring.Ring { return keys }
