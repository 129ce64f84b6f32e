package report

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// Conditions say what a result was measured on.
type Conditions struct {
	Processor string `json:"processor"`
	Cores     int    `json:"cores"`
	System    string `json:"system"` // operating system and architecture
	Go        string `json:"go"`
	// Load is the average number of running processes over the minute before
	// the benchmark began. Above 0 others had a share of the cores.
	Load string `json:"load"`
}

// Here returns the conditions of this machine at this moment.
func Here() Conditions {
	c := Conditions{
		Processor: "unknown", Cores: runtime.NumCPU(), Load: "unknown",
		System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(),
	}
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
				c.Processor = strings.TrimSpace(value)
				break
			}
		}
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		c.Load, _, _ = strings.Cut(string(load), " ")
	}
	return c
}

// String is one line.
func (c Conditions) String() string {
	return fmt.Sprintf("%s, %d cores, %s, %s, load before %s", c.Processor, c.Cores, c.System, c.Go, c.Load)
}
