// Package boot starts Lambda functions: it reads their environment, configures the AWS SDK, and carries events
// between Lambda and the code: API Gateway's requests to an http.Handler, its questions about keys to an
// authenticator, the schedule's and the queues' events to functions. It knows no payment, no webhook and no route.
package boot

import (
	"log/slog"
	"os"
	"runtime/debug"
	"strconv"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"
)

// Start runs a function whose handler wire builds and adapt wraps: Gateway, Authorize, Batches or Starts. wire reads
// the environment and calls no other service, so its Env holds every error that it can meet. If the function cannot
// start, it logs every reason and exits; Lambda tries again with the next event.
func Start[H, L any](wire func(*Env) H, adapt func(H) L) {
	slog.SetDefault(slog.New(Identified(lambdacontext.NewLogHandler())))
	Collect(os.Getenv("AWS_LAMBDA_FUNCTION_MEMORY_SIZE"))
	env := OpenWith(os.Getenv)
	h := wire(env)
	if err := env.Err(); err != nil {
		slog.Error("cannot start", "err", err)
		os.Exit(1)
	}
	lambda.Start(adapt(h))
}

// Collect sets the garbage collector's target, for a function with that many MB of memory: the live heap is some MB, so
// garbage may grow to four times as much, and so a cycle is rare, but not beyond three quarters of memory.
func Collect(memory string) {
	debug.SetGCPercent(400)
	if mb, err := strconv.Atoi(memory); err == nil {
		debug.SetMemoryLimit(int64(mb) << 20 / 4 * 3)
	}
}
