//go:build !sandbox

package operator

import "github.com/remit-payouts/remit/internal/cli/operator/check"

// OnAWS are the commands that call AWS services. `make run` compiles none of their clients.
type OnAWS struct {
	Preflight check.Preflight `cmd:"" help:"Find problems before a deployment." example:"Mode=live"`
	Doctor    check.Doctor    `cmd:"" help:"Find problems of a stack." example:"--stack remit"`
}
