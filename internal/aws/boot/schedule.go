package boot

import (
	"context"
	"encoding/json"
)

// A Run is one run of a scheduled function. hint reports that messages of a queue started it, and not the schedule.
type Run func(ctx context.Context, hint bool) error

// Starts adapts run to any event: one with records is of a queue. No content matters, and several messages in one
// event are one start. An error fails the invocation: the schedule counts it, the queue starts the function again
// while its message lives.
func Starts(run Run) func(context.Context, json.RawMessage) error {
	return func(ctx context.Context, event json.RawMessage) error {
		var queue struct{ Records []json.RawMessage }
		err := json.Unmarshal(event, &queue)
		return run(ctx, err == nil && len(queue.Records) > 0)
	}
}
