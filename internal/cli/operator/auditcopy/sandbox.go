//go:build sandbox

// Package auditcopy is empty: a stack on one machine keeps no copy.
package auditcopy

import "errors"

// ErrUncopied is never returned.
var ErrUncopied = errors.New("a stack on this machine keeps no copy; ignore this")
