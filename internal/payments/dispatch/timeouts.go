package dispatch

import "time"

const (
	// reserve is the least time that a function must have left to take a reservation: three slow
	// store writes and a slow broadcast.
	reserve = 6 * time.Second
	// budget is how long the steps from the reservation to the answer may take, on a context that
	// the caller's deadline does not cancel.
	budget = 20 * time.Second
	// broadcastBudget is how long an answer waits for nodes. The bytes are stored by then, and
	// check-receipts sends them again.
	broadcastBudget = 4 * time.Second
	// handlerLife is longer than a handler lives: no other handler is making a payment that old.
	handlerLife = 35 * time.Second
	// duplicateWait is how long a request waits before it reads a payment again that another
	// request may be making: most are committed by then.
	duplicateWait = 300 * time.Millisecond
)
