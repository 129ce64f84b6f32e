//go:build !sandbox

package operator

import (
	"github.com/remit-payouts/remit/internal/cli/operator/check"
	"github.com/remit-payouts/remit/internal/cli/operator/rollback"
)

// OnAWS are the commands that call AWS services. `make run` compiles none of their clients.
type OnAWS struct {
	Rollback rollback.Command `cmd:"" help:"Go back to the versions before a deployment."`
	Doctor   check.Doctor     `cmd:"" help:"Find problems of a stack." example:"--stack remit"`
}
