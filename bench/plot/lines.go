package plot

import (
	"math"
	"strings"
)

// Lines is a picture of series over the same places along x.
type Lines struct {
	Title        string
	XName, YName string
	X            []float64
	XLabels      []string // written under the places; nil writes their values
	Series       []Series // a NaN leaves a gap
	LogX, LogY   bool
}

// SVG draws the picture.
func (l Lines) SVG() string {
	c := newCanvas(l.Title, "360")
	var all []float64
	for _, s := range l.Series {
		for _, v := range s.Values {
			if !math.IsNaN(v) {
				all = append(all, v)
			}
		}
	}
	y := linear(all)
	if l.LogY {
		y = logarithmic(all)
	}
	x := func(i int) float64 { return left + l.place(i)*(width-left-right) }
	down := func(v float64) float64 { return height - bottom - y.at(v)*(height-top-bottom) }
	for _, mark := range y.marks() {
		c.line(left, down(mark), width-right, down(mark), "g")
		c.text(left-8, down(mark)+4, "end", "", Short(mark))
	}
	c.line(left, height-bottom, width-right, height-bottom, "a")
	for i := range l.X {
		label := Short(l.X[i])
		if l.XLabels != nil {
			label = l.XLabels[i]
		}
		c.text(x(i), height-bottom+18, "middle", "", label)
	}
	c.text(left+(width-left-right)/2, height-12, "middle", "", l.XName)
	c.text(left, top-8, "end", "", l.YName)
	for n, s := range l.Series {
		var points []string
		for i, v := range s.Values {
			if math.IsNaN(v) {
				continue
			}
			points = append(points, px(x(i))+","+px(down(v)))
			c.printf(`<circle cx="%s" cy="%s" r="3" fill="%s"/>`, px(x(i)), px(down(v)), colour(n))
		}
		c.printf(`<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`, strings.Join(points, " "), colour(n))
	}
	c.legend(l.Series)
	return c.end()
}

// place returns where the i-th place lies along x, 0 to 1.
func (l Lines) place(i int) float64 {
	if len(l.X) < 2 {
		return 0.5
	}
	first, last := l.X[0], l.X[len(l.X)-1]
	if l.LogX {
		return math.Log(l.X[i]/first) / math.Log(last/first)
	}
	return (l.X[i] - first) / (last - first)
}
