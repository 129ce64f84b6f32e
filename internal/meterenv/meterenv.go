// Package meterenv meters a function by its environment. It knows no metric.
package meterenv

import (
	"os"
	"time"

	"remit/internal/boot"
	"remit/internal/emf"
	"remit/internal/httpapi"
)

// Refusals returns e, which meters what it refuses.
func Refusals(env *boot.Env, e httpapi.Endpoint) httpapi.Endpoint {
	return e.Metered(emf.New(os.Stdout, env.String("STACK"), time.Now), Version(env))
}

// Version is the function and its version that run, as the alarms of canaries name them.
func Version(env *boot.Env) string {
	return env.Optional("AWS_LAMBDA_FUNCTION_NAME", "local") + ":" + env.Optional("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
}
