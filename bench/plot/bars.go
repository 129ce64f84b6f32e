package plot

import "strconv"

// Bars is a picture of lying bars, one for each name, each made of the series'
// parts one behind the other.
type Bars struct {
	Title  string
	XName  string
	Names  []string
	Series []Series
	Format func(float64) string // of the sum behind a bar; nil is Short
}

const barHeight = 26

// SVG draws the picture.
func (b Bars) SVG() string {
	h := top + barHeight*len(b.Names) + bottom
	h = max(h, top+20*len(b.Series)+20)
	c := newCanvas(b.Title, strconv.Itoa(h))
	format := b.Format
	if format == nil {
		format = Short
	}
	sums := make([]float64, len(b.Names))
	for _, s := range b.Series {
		for i, v := range s.Values {
			sums[i] += v
		}
	}
	const begin, span = left + 90, width - left - 90 - right - 60
	scale := linear(sums)
	floor := float64(top + barHeight*len(b.Names))
	for _, mark := range scale.marks() {
		x := begin + scale.at(mark)*span
		c.line(x, top, x, floor, "g")
		c.text(x, floor+18, "middle", "", Short(mark))
	}
	c.text(begin+span/2, floor+40, "middle", "", b.XName)
	for i, name := range b.Names {
		y := float64(top + barHeight*i)
		c.text(begin-8, y+17, "end", "", name)
		x := float64(begin)
		for n, s := range b.Series {
			long := scale.at(s.Values[i]) * span
			c.printf(`<rect x="%s" y="%s" width="%s" height="%d" fill="%s"/>`, px(x), px(y+3), px(long), barHeight-6, colour(n))
			x += long
		}
		c.text(x+6, y+17, "start", "", format(sums[i]))
	}
	if len(b.Series) > 1 {
		c.legend(b.Series)
	}
	return c.end()
}
