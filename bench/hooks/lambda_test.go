package hooks

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFleetHoldsABatchForItsSlowestPost(t *testing.T) {
	at := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	for _, row := range []struct {
		name     string
		fleet    fleet
		messages []message
		want     []float64
	}{
		{"one at a time, one after the other", fleet{1, 1, at(1), at(15)}, []message{{}, {}, {}}, []float64{0, 1, 2}},
		{"those of a batch do not wait for each other", fleet{1, 10, at(1), at(15)}, []message{{}, {}, {}}, []float64{0, 0, 0}},
		{"nor for one among them that hangs", fleet{1, 10, at(1), at(15)}, []message{{}, {hung: true}, {}}, []float64{0, 0}},
		{"but the next batch does", fleet{1, 2, at(1), at(15)}, []message{{}, {hung: true}, {}}, []float64{0, 15}},
		{"unless another pending transaction is free", fleet{2, 2, at(1), at(15)}, []message{{}, {hung: true}, {}}, []float64{0, 0}},
		{"nobody is posted before he arrives", fleet{1, 1, at(1), at(15)}, []message{{at: at(5)}, {at: at(5.5)}}, []float64{0, 0.5}},
	} {
		if diff := cmp.Diff(row.want, row.fleet.work(row.messages)); diff != "" {
			t.Errorf("%s: %s", row.name, diff)
		}
	}
}
