package scale_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"remit/internal/stack"
)

// TestQuorum: while one of two nodes is down, the quorum strict confirms no payment within two
// hours, and answering confirms all.
func TestQuorum(t *testing.T) {
	if *curves {
		fmt.Printf("goos: %s\ngoarch: %s\ncpu: virtual time\n", runtime.GOOS, runtime.GOARCH)
	}
	for _, row := range []struct {
		quorum string
		share  float64
	}{{"strict", 0}, {"answering", 100}} {
		after, err := stack.ParseQuorum(row.quorum, "")
		if err != nil {
			t.Fatal(err)
		}
		o := run{Load: on("base", 1, 10).Planned(), scale: 1, length: 200 * time.Second, nodes: 2, down: true, silent: after}.simulate(t)
		confirmed := 100 * float64(len(o.confirmed)) / float64(o.made)
		if confirmed != row.share || o.made < 150 || o.twice > 0 {
			t.Errorf("%s: %d payments made, %.0f %% confirmed, %d paid twice; want %.0f %%", row.quorum, o.made, confirmed, o.twice, row.share)
		}
		fmt.Printf("BenchmarkQuorum/quorum=%s 1 %d payments %.4g confirmed-%%\n", row.quorum, o.made, confirmed)
	}
}
