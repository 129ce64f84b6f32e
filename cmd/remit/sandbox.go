//go:build sandbox

package main

import "fmt"

type onAWS struct{}

// misread returns the error of a command line that cannot be read.
func misread(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w (the program of make run has no commands for AWS; docs/deploy.md builds them)", err)
}
