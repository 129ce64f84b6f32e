package settlementtest_test

import (
	"flag"
	"fmt"
	"testing"
	"testing/synctest"

	"remit/internal/settlement/settlementtest"
)

var (
	seed  = flag.Uint64("seed", 0, "the one seed to run, with its trace")
	seeds = flag.Uint64("seeds", 2000, "how many seeds to run")
	from  = flag.Uint64("from", 1, "the first of them")
)

func TestSeeds(t *testing.T) {
	if *seed != 0 {
		synctest.Test(t, func(t *testing.T) {
			for _, line := range settlementtest.Simulate(*seed, settlementtest.Taming{}, func(l string) { fmt.Println(l) }) {
				t.Error(line)
			}
		})
		return
	}
	for s := *from; s < *from+*seeds; s++ {
		var broken []string
		synctest.Test(t, func(*testing.T) { broken = settlementtest.Simulate(s, settlementtest.Taming{}, nil) })
		for _, line := range broken {
			t.Errorf("seed %d: %s", s, line)
		}
	}
}
