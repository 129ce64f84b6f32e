package lab

import (
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// errTime reports a time that ps wrote in a form that is not known.
var errTime = errors.New("not a time of ps")

// Processor returns the processor time that a running process has used, as ps
// tells it: minutes:seconds.hundredths.
func Processor(pid int) (time.Duration, error) {
	out, err := exec.Command("ps", "-o", "time=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return 0, fmt.Errorf("reading the processor time: %w", err)
	}
	minutes, seconds, ok := strings.Cut(strings.TrimSpace(string(out)), ":")
	if !ok {
		return 0, errTime
	}
	return time.ParseDuration(minutes + "m" + seconds + "s")
}
