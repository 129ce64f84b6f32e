//go:build !sandbox

package main

import "github.com/remit-payouts/remit/internal/cli/preflight"

// onAWS is left out of the program of `make run`, with the clients of AWS.
type onAWS struct {
	Preflight preflight.Command `cmd:"" help:"Check an account before a deployment, and print the commands that fix each problem." example:"remit preflight --stack remit ChainId=8453 Mode=live"`
}

func misread(err error) error { return err }
