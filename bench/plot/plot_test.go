package plot_test

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"remit/bench/plot"
)

// count returns how often each element occurs, and fails for what is not XML.
func count(t *testing.T, svg string) map[string]int {
	t.Helper()
	found := map[string]int{}
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatalf("%v in %s", err, svg)
		}
		if begin, ok := token.(xml.StartElement); ok {
			found[begin.Name.Local]++
		}
	}
}

func TestLinesDrawEveryMeasuredPointAndLeaveGaps(t *testing.T) {
	svg := plot.Lines{
		Title: "a < b & c", XName: "clients", YName: "ms", X: []float64{1, 2, 4}, LogX: true,
		Series: []plot.Series{{Name: "ours", Values: []float64{1, 2, 3}}, {Name: "theirs", Values: []float64{4, math.NaN(), 5}}},
	}.SVG()
	found := count(t, svg)
	if found["circle"] != 5 || found["polyline"] != 2 {
		t.Errorf("%d points on %d lines; want 5 on 2", found["circle"], found["polyline"])
	}
	if strings.Contains(svg, "NaN") {
		t.Error("a gap is drawn")
	}
}

func TestBarsDrawEveryPartAndItsSum(t *testing.T) {
	svg := plot.Bars{
		Title: "where a dollar goes", XName: "$", Names: []string{"small", "large"},
		Series: []plot.Series{{Name: "a", Values: []float64{1, 2}}, {Name: "b", Values: []float64{0.5, 1500}}},
	}.SVG()
	if found := count(t, svg); found["rect"] != 4+2 { // parts, and the legend's
		t.Errorf("%d rectangles; want 6", found["rect"])
	}
	for _, sum := range []string{">1.5<", ">1.5k<"} {
		if !strings.Contains(svg, sum) {
			t.Errorf("the sum %s is not written", sum)
		}
	}
}

func TestShortNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.25: "0.25", 12: "12", 1500: "1.5k", 2e6: "2M", 0.000012: "1.2e-05"} {
		if got := plot.Short(v); got != want {
			t.Errorf("Short(%v) = %q; want %q", v, got, want)
		}
	}
}
