//go:build sandbox

package operator

import "errors"

// OnAWS are the names of commands that this program lacks: see aws.go.
type OnAWS struct {
	Preflight absent `cmd:"" passthrough:"" help:"Not in this program: read docs/deploy.md."`
	Doctor    absent `cmd:"" passthrough:"" help:"Not in this program: read docs/deploy.md."`
}

type absent struct {
	Args []string `arg:"" optional:""`
}

func (absent) Run() error {
	return errors.New("a stack of make run has no doctor and no preflight: practise on make stage (docs/operate.md), " +
		"or, for a stack on AWS, run go build -o .cache/bin/remit ./cmd/remit, and .cache/bin/remit")
}
