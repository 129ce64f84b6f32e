// Package meterenv runs the functions of the API and meters their refusals. It knows no metric.
package meterenv

import (
	"net/http"
	"os"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/emf"
)

// HTTP runs a function of the API, whose endpoint wire builds.
func HTTP(wire func(*boot.Env) httpapi.Endpoint) {
	boot.HTTP(func(env *boot.Env) http.Handler { return Refusals(env, wire(env)) })
}

// Refusals returns e with a meter of refusals.
func Refusals(env *boot.Env, e httpapi.Endpoint) httpapi.Endpoint {
	return e.Metered(emf.New(os.Stdout, env.String("STACK"), env.Now), Version(env))
}

// Version returns the running function and its version, as the canaries' alarms name them.
func Version(env *boot.Env) string {
	return env.Optional("AWS_LAMBDA_FUNCTION_NAME", "local") + ":" + env.Optional("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
}
