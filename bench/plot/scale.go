package plot

import "math"

// A scale turns values into shares of an axis, 0 to 1, and marks it.
type scale struct {
	low, high float64
	log       bool
}

// linear returns a scale from zero that holds all values.
func linear(values []float64) scale {
	high := 0.0
	for _, v := range values {
		high = max(high, v)
	}
	if high == 0 {
		high = 1
	}
	step := nice(high / 5)
	return scale{0, math.Ceil(high/step-1e-9) * step, false}
}

// logarithmic returns a scale that holds all positive values; zero and below
// lie at its low end.
func logarithmic(values []float64) scale {
	low, high := math.Inf(1), 0.0
	for _, v := range values {
		if v > 0 {
			low, high = min(low, v), max(high, v)
		}
	}
	if high == 0 {
		low, high = 1, 10
	}
	low, high = math.Pow(10, math.Floor(math.Log10(low)+1e-9)), math.Pow(10, math.Ceil(math.Log10(high)-1e-9))
	if low == high {
		high = low * 10
	}
	return scale{low, high, true}
}

// at returns where v lies.
func (s scale) at(v float64) float64 {
	v = min(max(v, s.low), s.high)
	if s.log {
		return math.Log(v/s.low) / math.Log(s.high/s.low)
	}
	return (v - s.low) / (s.high - s.low)
}

// marks returns the values to write on the axis.
func (s scale) marks() []float64 {
	var marks []float64
	if s.log {
		for v := s.low; v <= s.high*1.0001; v *= 10 {
			marks = append(marks, v)
		}
		return marks
	}
	step := nice((s.high - s.low) / 5)
	for i := 0; float64(i)*step <= s.high*1.0001; i++ {
		marks = append(marks, float64(i)*step)
	}
	return marks
}

// nice rounds a step up to 1, 2 or 5 times a power of ten.
func nice(step float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(step)))
	for _, n := range []float64{1, 2, 5} {
		if step <= n*power*1.0000001 {
			return n * power
		}
	}
	return 10 * power
}
