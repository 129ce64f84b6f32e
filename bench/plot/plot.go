// Package plot draws lines and bars as SVG. Pictures follow the reader's light
// or dark theme and need no script and no font of their own.
package plot

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// A Series is one line of a picture, or one part of its bars.
type Series struct {
	Name   string
	Values []float64
}

// Size of a picture and of what lies around its area, in pixels.
const (
	width  = 720
	height = 360
	left   = 78
	right  = 190
	top    = 44
	bottom = 56
)

// colours tell series apart also for most who see colours differently (Okabe
// and Ito, "Color Universal Design").
var colours = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d31", "#999999"}

func colour(i int) string { return colours[i%len(colours)] }

// style makes text and axes visible on both light and dark pages.
const style = `<style>text{font:12px system-ui,sans-serif;fill:#333}.t{font-weight:600;font-size:14px}.a{stroke:#888}.g{stroke:#8884}` +
	`@media(prefers-color-scheme:dark){text{fill:#ddd}}</style>`

// canvas is a picture being drawn.
type canvas struct{ strings.Builder }

func newCanvas(title, h string) *canvas {
	c := &canvas{}
	c.printf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %s" role="img" aria-label="%s">%s`, width, h, html.EscapeString(title), style)
	c.text(left, 22, "start", "t", title)
	return c
}

func (c *canvas) printf(format string, args ...any) { _, _ = fmt.Fprintf(&c.Builder, format, args...) }

func (c *canvas) text(x, y float64, anchor, class, s string) {
	c.printf(`<text x="%s" y="%s" text-anchor="%s" class="%s">%s</text>`, px(x), px(y), anchor, class, html.EscapeString(s))
}

func (c *canvas) line(x1, y1, x2, y2 float64, class string) {
	c.printf(`<line x1="%s" y1="%s" x2="%s" y2="%s" class="%s"/>`, px(x1), px(y1), px(x2), px(y2), class)
}

func (c *canvas) end() string {
	c.WriteString("</svg>\n")
	return c.String()
}

// px writes a coordinate: a tenth of a pixel is as fine as anybody sees.
func px(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

// legend names the series to the right of the area.
func (c *canvas) legend(series []Series) {
	for i, s := range series {
		y := float64(top + 8 + 20*i)
		c.printf(`<rect x="%d" y="%s" width="12" height="12" rx="2" fill="%s"/>`, width-right+16, px(y), colour(i))
		c.text(width-right+34, y+10, "start", "", s.Name)
	}
}

// Short writes a number for an axis: 1500 is 1.5k.
func Short(v float64) string {
	switch size := math.Abs(v); {
	case size >= 1e6:
		return trim(v/1e6) + "M"
	case size >= 1e3:
		return trim(v/1e3) + "k"
	default:
		return trim(v)
	}
}

func trim(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }
