package hooks

import (
	"container/heap"
	"math/rand/v2"
	"time"
)

// A fleet is how Lambda works an SQS queue off: so many batches at once, each
// of so many messages, whose posts are made side by side; a batch takes as long
// as its slowest post. (AWS Lambda developer guide, "Using Lambda with Amazon
// SQS": MaximumConcurrency, BatchSize.) The times come from a measurement; the
// queue is a model, since no local one works like Amazon's.
type fleet struct {
	batches, size int
	quick         time.Duration // a batch without a hanging post
	hung          time.Duration // one with it
}

// A message waits from an instant on.
type message struct {
	at   time.Duration
	hung bool
}

// ends is when each busy batch place is free again, soonest first.
type ends []time.Duration

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i] < e[j] }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }
func (e *ends) Push(x any)        { *e = append(*e, x.(time.Duration)) }
func (e *ends) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}

// work returns how long each healthy message waited until its post was under
// way, in seconds. Messages are taken in the order of their arrival.
func (f fleet) work(messages []message) []float64 {
	free := make(ends, f.batches)
	heap.Init(&free)
	var waits []float64
	for i := 0; i < len(messages); {
		now := max(heap.Pop(&free).(time.Duration), messages[i].at)
		took := f.quick
		for n := 0; n < f.size && i < len(messages) && messages[i].at <= now; n++ {
			if messages[i].hung {
				took = f.hung
			} else {
				waits = append(waits, (now - messages[i].at).Seconds())
			}
			i++
		}
		heap.Push(&free, now+took)
	}
	return waits
}

// arrivals are n messages at a steady rate a second, or all at once for a rate
// of 0, of which a share hangs.
func arrivals(n int, rate, hung float64, draw *rand.Rand) []message {
	messages := make([]message, n)
	for i := range messages {
		messages[i].hung = draw.Float64() < hung
		if rate > 0 {
			messages[i].at = time.Duration(float64(i) / rate * float64(time.Second))
		}
	}
	return messages
}
