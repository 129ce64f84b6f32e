// Package interpose stands between an engine and its ports: it hands every
// call of a store or of a node to a function, which may count it, delay it, let
// it fail, or lose its answer. It knows no fault of its own.
package interpose

import (
	"context"
	"errors"
)

// A Call is one call of a port.
type Call struct {
	Op   string // the method's name: "Reserve"
	Args string // who and what it concerns, for people: "pay_1 of 0001"
}

// An Around decides what becomes of a call. It calls apply at most once, from
// any goroutine and whenever it likes, also after it has returned: that is an
// answer that was lost. Its error is returned in the place of the port's
// answer; without an error it must have called apply. It is called from many
// goroutines at once.
type Around func(ctx context.Context, c Call, apply func(context.Context)) error

// errNotApplied reports an Around that let a call through without applying it.
var errNotApplied = errors.New("interpose: call was answered and not applied")

// two is an answer of two values.
type two[A, B any] struct {
	a A
	b B
}

// ask makes a call as around says. An answer that is lost is the zero T.
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
