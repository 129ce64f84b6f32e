package webhook

import "time"

// Limits of one attempt.
const (
	SendTimeout   = 15 * time.Second // from the look-up of the name to the end of the answer
	ResponseLimit = 1024             // bytes of an answer that are kept
)

// recordTimeout bounds the write of an attempt, which has this time even when the job's own is over; recordTries
// bounds how often a success is recorded after the attempts that other jobs have just recorded.
const (
	recordTimeout = 5 * time.Second
	recordTries   = 4
)
