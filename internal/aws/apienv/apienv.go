// Package apienv runs the functions of the API and logs their refusals. It knows no metric.
package apienv

import (
	"net/http"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/aws/boot"
	"github.com/remit-payouts/remit/internal/aws/tableenv"
)

// Env is the environment of a function of the API.
type Env = tableenv.Env

// HTTP runs a function of the API, whose endpoint wire builds.
func HTTP(wire func(Env) httpapi.Endpoint) {
	boot.Start(func(env *boot.Env) http.Handler { return Metered(env, wire(Env{Env: env})) }, boot.Gateway)
}

// Metered returns e with a meter of its function and version, as the canaries' alarms name them.
func Metered(env *boot.Env, e httpapi.Endpoint) httpapi.Endpoint {
	version := env.Optional("AWS_LAMBDA_FUNCTION_NAME", "local") + ":" + env.Optional("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
	return e.Metered(Env{Env: env}.Meter(), version)
}
