package webhook

import "time"

// Schedule is the table.
func Schedule() []time.Duration { return schedule[:] }
