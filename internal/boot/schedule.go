package boot

import (
	"context"
	"encoding/json"
)

// A Run is one run of a scheduled function.
type Run func(ctx context.Context) error

// Schedule runs a function that a schedule starts, and that messages of a
// queue may start sooner. The content of neither event matters: the function
// does one thing.
func Schedule(wire func(*Env) Run) { start(wire, Starts) }

// Starts adapts run to any event. Several messages in one event are one start.
// An error fails the invocation: the schedule counts it, the queue starts the
// function again while its message lives.
func Starts(run Run) func(context.Context, json.RawMessage) error {
	return func(ctx context.Context, _ json.RawMessage) error { return run(ctx) }
}
