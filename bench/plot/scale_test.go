package plot

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var near = cmpopts.EquateApprox(1e-9, 1e-9)

func TestLinearScaleBeginsAtZeroAndEndsOnAMark(t *testing.T) {
	for _, row := range []struct {
		values []float64
		marks  []float64
	}{
		{[]float64{3, 10}, []float64{0, 2, 4, 6, 8, 10}},
		{[]float64{11}, []float64{0, 5, 10, 15}},
		{[]float64{0.3}, []float64{0, 0.1, 0.2, 0.3}},
		{nil, []float64{0, 0.2, 0.4, 0.6, 0.8, 1}}, // nothing measured is still a picture
		{[]float64{0}, []float64{0, 0.2, 0.4, 0.6, 0.8, 1}},
	} {
		s := linear(row.values)
		if diff := cmp.Diff(row.marks, s.marks(), near); diff != "" {
			t.Errorf("marks of %v: %s", row.values, diff)
		}
		for _, v := range row.values {
			if v > s.high {
				t.Errorf("%v does not fit below %v", v, s.high)
			}
		}
	}
}

func TestLogarithmicScaleHoldsWholeDecades(t *testing.T) {
	s := logarithmic([]float64{0, 3, 450})
	if diff := cmp.Diff([]float64{1, 10, 100, 1000}, s.marks(), near); diff != "" {
		t.Error(diff)
	}
	for v, want := range map[float64]float64{1: 0, 10: 1.0 / 3, 1000: 1, 0: 0, 5000: 1} {
		if got := s.at(v); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v lies at %v; want %v", v, got, want)
		}
	}
	if one := logarithmic([]float64{10, 10}); one.low >= one.high {
		t.Errorf("a single decade has no length: %+v", one)
	}
}
