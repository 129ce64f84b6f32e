//go:build sandbox

package deployed

import (
	"context"
	"errors"
	"io"
)

func (Target) onAWS(context.Context, io.Writer) (*Deployment, error) {
	return nil, errors.New("this program knows only stacks of make run: set REMIT_STACK to its http://…, " +
		"or, for a stack on AWS, run go build -o .cache/bin/remit ./cmd/remit, and .cache/bin/remit")
}
