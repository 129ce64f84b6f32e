// Package interpose stands between an engine and its ports. It passes every call
// of a store or of a node to a function, which may count it, delay it, let it
// fail, or lose its answer. It makes no fault of its own.
package interpose

import (
	"context"
	"errors"
)

// A Call is one call of a port.
type Call struct {
	Op   string // the method's name: "Reserve"
	Args string // its payment, wallet or nonce, for people: "pay_1 of 0001"
}

// An Around makes a call by calling apply, at most once, on any goroutine. It may
// call apply after it has returned, for a call whose answer is lost. If it
// returns an error, the caller gets that error in place of the port's answer;
// otherwise it must have called apply. Many goroutines call an Around at once.
type Around func(ctx context.Context, c Call, apply func(context.Context)) error

// errNotApplied reports an Around that returned no error and did not call apply.
var errNotApplied = errors.New("interpose: call was answered and not applied")

// two is an answer that consists of two values.
type two[A, B any] struct {
	a A
	b B
}

// ask makes the call do through around. The answer is the zero T if around
// returns an error.
func ask[T any](ctx context.Context, around Around, op, args string, do func(context.Context) (T, error)) (T, error) {
	answer := &struct {
		value T
		err   error
	}{err: errNotApplied}
	err := around(ctx, Call{op, args}, func(ctx context.Context) { answer.value, answer.err = do(ctx) })
	if err != nil {
		var lost T
		return lost, err
	}
	return answer.value, answer.err
}
