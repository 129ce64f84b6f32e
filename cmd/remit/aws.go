//go:build !sandbox

package main

import "github.com/remit-payouts/remit/internal/cli/operator/check"

// onAWS is left out of the program of `make run`, with the clients of AWS.
type onAWS struct {
	Preflight check.Preflight `cmd:"" help:"Find problems before a deployment." example:"Mode=live"`
}

func misread(err error) error { return err }
