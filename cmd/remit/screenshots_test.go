//go:build screenshots

package main_test

import (
	"bytes"
	bytesof "encoding/binary"
	"flag"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/color/palette"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

var pictures = flag.String("pictures", "../../docs/images", "directory of the pictures")

// TestScreenshots takes the pictures of README from a run with a seed, and those of
// other windows to look at into .cache/screenshots. Hashes, times and the machine's
// speed differ from run to run.
func TestScreenshots(t *testing.T) {
	looked := filepath.Join("..", "..", ".cache", "screenshots")
	if err := os.MkdirAll(looked, 0o755); err != nil {
		t.Fatal(err)
	}
	s := openPage(t, 1280, "", "--block-time", "1s")
	picture := func(path string) {
		t.Helper()
		shot := show(s.tab, "taking a picture", chromedp.CaptureScreenshot())
		if err := os.WriteFile(path, shot, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	show(s.tab, "breaking at random", chromedp.Evaluate[bool](`fetch("/page/do", {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify({do: "random", seed: 2041, seconds: 15})}).then(r => r.ok)`, chromedp.EvalAwaitPromise))
	s.await("some payments", `Number(document.getElementById("asked").textContent) > 20`)
	s.settled(20)
	for i := range 3 {
		s.pay(fmt.Sprintf("%d.5", 10+i))
	}
	s.click(`[data-break="node-lies"]`)
	s.click(`[data-break="cut-commit"]`)
	s.pay("250.00")
	s.await("a payment without an answer", `document.querySelector("#rows .warned")?.textContent === "no answer"`)
	for _, row := range []struct {
		width int64
		dark  bool
	}{{1280, false}, {1280, true}, {768, false}, {768, true}, {360, false}, {360, true}} {
		s.sized(row.width, row.dark)
		name := fmt.Sprintf("%d-%v.png", row.width, map[bool]string{false: "light", true: "dark"}[row.dark])
		show(s.tab, "going up", chromedp.Evaluate[bool](`window.scrollTo(0, 0), true`))
		picture(filepath.Join(looked, name))
		whole := show(s.tab, "taking a whole picture", chromedp.FullScreenshot(100))
		if err := os.WriteFile(filepath.Join(looked, "whole-"+name), whole, 0o644); err != nil {
			t.Fatal(err)
		}
		if row.width == 1280 && !row.dark {
			picture(filepath.Join(*pictures, "sandbox.png"))
		}
	}
	s.sized(1280, false)
	s.click("#rows button")
	s.do("opening a payment", chromedp.WaitVisible(chromedp.CSS("#story[open] table")))
	picture(filepath.Join(looked, "story.png"))
}

// TestAnimation takes the animation of README: a payment is cut off after its commit,
// asked for fifty times more, and paid once.
func TestAnimation(t *testing.T) {
	s := openPage(t, 960, "", "--block-time", "1s")
	s.do("sizing the window", chromedp.EmulateViewport(960, 860))
	var film film
	const frame = 400 * time.Millisecond
	roll := func(frames int) {
		for range frames {
			begin := time.Now()
			shot, err := png.Decode(bytes.NewReader(show(s.tab, "taking a picture", chromedp.CaptureScreenshot())))
			if err != nil {
				t.Fatal(err)
			}
			film.add(shot)
			time.Sleep(max(0, frame-time.Since(begin)))
		}
	}
	roll(4)
	show(s.tab, "cutting", chromedp.Evaluate[bool](`document.querySelector('[data-break="cut-commit"]').click(), true`))
	roll(5)
	s.pay("250.00")
	roll(8)
	for range 3 {
		show(s.tab, "asking again", chromedp.Evaluate[bool](`document.querySelector("#do-fifty").click(), true`))
		roll(1)
		break
	}
	roll(25)
	s.await("one payment", `document.getElementById("once").textContent === "1"`)
	roll(8)
	if err := os.WriteFile(filepath.Join(*pictures, "cut-off.png"), film.encode(uint16(frame.Milliseconds())), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A film is an animation, of which each frame holds what differs from the one before.
type film struct {
	last   *image.Paletted
	frames []*image.Paletted
}

// colours are the web's and thirty-nine greys, of which the page has most.
func colours() color.Palette {
	all := append(color.Palette{}, palette.WebSafe...)
	for i := range 39 {
		all = append(all, color.Gray{uint8(255 - i*6)})
	}
	return all
}

func (f *film) add(shot image.Image) {
	whole := image.NewPaletted(shot.Bounds(), colours())
	draw.Draw(whole, whole.Bounds(), shot, image.Point{}, draw.Src)
	changed := whole.Bounds()
	if f.last != nil {
		changed = image.Rectangle{}
		for y := range whole.Rect.Dy() {
			for x := range whole.Rect.Dx() {
				if whole.ColorIndexAt(x, y) != f.last.ColorIndexAt(x, y) {
					changed = changed.Union(image.Rect(x, y, x+1, y+1))
				}
			}
		}
		if changed.Empty() {
			changed = image.Rect(0, 0, 1, 1)
		}
	}
	f.last, f.frames = whole, append(f.frames, whole.SubImage(changed).(*image.Paletted))
}

// encode writes the film as an animated PNG that never ends (PNG, third edition,
// section 11.3.6): the chunks of each frame's own PNG, numbered.
func (f *film) encode(millis uint16) []byte {
	var out bytes.Buffer
	out.WriteString("\x89PNG\r\n\x1a\n")
	chunk := func(kind string, parts ...any) {
		var data bytes.Buffer
		data.WriteString(kind)
		for _, p := range parts {
			_ = bytesof.Write(&data, bytesof.BigEndian, p)
		}
		_ = bytesof.Write(&out, bytesof.BigEndian, uint32(data.Len()-4))
		out.Write(data.Bytes())
		_ = bytesof.Write(&out, bytesof.BigEndian, crc32.ChecksumIEEE(data.Bytes()))
	}
	sequence := uint32(0)
	next := func() uint32 { sequence++; return sequence - 1 }
	for i, frame := range f.frames {
		at, own := frame.Rect, &bytes.Buffer{}
		_ = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(own, frame)
		begun := false
		for b := own.Bytes()[8:]; len(b) > 0; {
			size := bytesof.BigEndian.Uint32(b)
			kind, data := string(b[4:8]), b[8:8+size]
			b = b[12+size:]
			if kind == "IDAT" && !begun {
				begun = true
				chunk("fcTL", next(), uint32(at.Dx()), uint32(at.Dy()), uint32(at.Min.X), uint32(at.Min.Y), millis, uint16(1000), uint16(0))
			}
			switch {
			case kind == "IDAT" && i > 0:
				chunk("fdAT", next(), data)
			case kind == "IHDR" && i == 0:
				chunk(kind, data)
				chunk("acTL", uint32(len(f.frames)), uint32(0))
			case kind != "IEND" && i == 0:
				chunk(kind, data)
			}
		}
	}
	chunk("IEND")
	return out.Bytes()
}
