package lab

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of utime and stime in /proc/PID/stat on every Linux that Go
// runs on (proc(5), USER_HZ).
const tick = 10 * time.Millisecond

// Processor returns the processor time that a running process has used.
func Processor(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("reading the processor time: %w", err)
	}
	// The name in parentheses may hold anything; utime and stime are the 14th
	// and 15th field, so the 12th and 13th behind it.
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("reading the processor time: %w", os.ErrInvalid)
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the processor time: %w", err)
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading the processor time: %w", err)
	}
	return time.Duration(user+system) * tick, nil
}
