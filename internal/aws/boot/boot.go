// Package boot starts Lambda functions: it reads their environment, configures the AWS SDK, and carries events
// between Lambda and the code: API Gateway's requests to an http.Handler, its questions about keys to an
// authenticator, the schedule's and the queues' events to functions. It knows no payment, no webhook and no route.
package boot

import (
	"log/slog"
	"os"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"
)

// start runs a function whose handler wire builds and adapt wraps. wire reads the environment and calls no other
// service, so its Env holds every error that it can meet. If the function cannot start, it logs every reason and
// exits; Lambda tries again with the next event.
func start[H, L any](wire func(*Env) H, adapt func(H) L) {
	slog.SetDefault(slog.New(Identified(lambdacontext.NewLogHandler())))
	env := Open()
	h := wire(env)
	if err := env.Err(); err != nil {
		slog.Error("cannot start", "err", err)
		os.Exit(1)
	}
	lambda.Start(adapt(h))
}
