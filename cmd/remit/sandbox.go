//go:build sandbox

package main

import (
	"fmt"
	"strings"
)

// misread returns the error of a command line that cannot be read.
func misread(err error) error {
	if err == nil || !strings.HasPrefix(err.Error(), "unexpected argument") {
		return err
	}
	return fmt.Errorf("%w (make run's program has no commands for AWS; read docs/deploy.md to build them)", err)
}
