//go:build sandbox

package operator

// OnAWS are no commands: see aws.go.
type OnAWS struct{}
