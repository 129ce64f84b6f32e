//go:build screenshots

package main_test

import (
	"bytes"
	bytesof "encoding/binary"
	"flag"
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

// TestScreenshots takes the picture of README from a run with a seed. Hashes, times and
// the machine's speed differ from run to run.
func TestScreenshots(t *testing.T) {
	s := openPage(t, 1280, "", "--block-time", "1s")
	s.random(2041, 15)
	s.settled(10)
	for _, amount := range []string{"10.5", "11.5", "12.5"} {
		s.pay(amount)
	}
	s.click(`[data-break="node-lies"]`)
	s.click(`[data-break="cut-commit"]`)
	s.pay("250.00")
	s.await("a payment without an answer", `document.querySelector("#rows .warned")?.textContent === "no answer"`)
	eval[bool](s, `window.scrollTo(0, 0), true`)
	save(t, "sandbox.png", show(s.tab, "taking a picture", chromedp.CaptureScreenshot()))
}

// TestAnimation takes the animation of README: a payment is cut off after its commit,
// asked for fifty times more, and paid once.
func TestAnimation(t *testing.T) {
	s := openPage(t, 960, "", "--block-time", "1s")
	s.do("sizing the window", chromedp.EmulateViewport(960, 860))
	var f film
	roll := func(frames int) {
		for range frames {
			begin := time.Now()
			shot, err := png.Decode(bytes.NewReader(show(s.tab, "taking a picture", chromedp.CaptureScreenshot())))
			if err != nil {
				t.Fatal(err)
			}
			f.add(shot)
			time.Sleep(max(0, frameMillis*time.Millisecond-time.Since(begin)))
		}
	}
	roll(4)
	eval[bool](s, `document.querySelector('[data-break="cut-commit"]').click(), true`)
	roll(5)
	s.pay("250.00")
	roll(8)
	eval[bool](s, `document.querySelector("#do-fifty").click(), true`)
	roll(26)
	s.await("one payment", `document.getElementById("once").textContent === "1"`)
	roll(8)
	save(t, "cut-off.png", f.encode())
}

func save(t *testing.T, name string, picture []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(*pictures, name), picture, 0o644); err != nil {
		t.Fatal(err)
	}
}

// frameMillis is how long a film shows a frame.
const frameMillis = 400

// A film is an animated PNG that never ends (PNG, third edition, section 11.3.6). Each
// frame holds what differs from the one before.
type film struct {
	last           *image.Paletted
	header         []byte // of the first frame
	body           bytes.Buffer
	frames, chunks uint32
}

func (f *film) add(shot image.Image) {
	colours := append(color.Palette{}, palette.WebSafe...)
	for i := range 39 { // greys, of which the page has most
		colours = append(colours, color.Gray{uint8(255 - i*6)})
	}
	whole := image.NewPaletted(shot.Bounds(), colours)
	draw.Draw(whole, whole.Bounds(), shot, image.Point{}, draw.Src)
	at := whole.Bounds()
	if f.last != nil {
		at = image.Rect(0, 0, 1, 1)
		for i, pixel := range whole.Pix {
			if x, y := i%whole.Stride, i/whole.Stride; pixel != f.last.Pix[i] {
				at = at.Union(image.Rect(x, y, x+1, y+1))
			}
		}
	}
	var own bytes.Buffer
	_ = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&own, whole.SubImage(at))
	if f.last == nil {
		f.header = own.Bytes()[:33] // the signature and IHDR
	}
	var data []byte
	for b := own.Bytes()[33:]; len(b) > 0; {
		size := 12 + bytesof.BigEndian.Uint32(b)
		switch kind := string(b[4:8]); {
		case kind == "IDAT":
			data = append(data, b[8:size-4]...)
		case kind == "PLTE" && f.last == nil:
			f.body.Write(b[:size])
		}
		b = b[size:]
	}
	f.numbered("fcTL", uint32(at.Dx()), uint32(at.Dy()), uint32(at.Min.X), uint32(at.Min.Y), uint16(frameMillis), uint16(1000), uint16(0))
	if f.last == nil {
		chunk(&f.body, "IDAT", data)
	} else {
		f.numbered("fdAT", data)
	}
	f.last = whole
	f.frames++
}

// numbered writes a chunk that has a number.
func (f *film) numbered(kind string, parts ...any) {
	chunk(&f.body, kind, append([]any{f.chunks}, parts...)...)
	f.chunks++
}

func chunk(out *bytes.Buffer, kind string, parts ...any) {
	data := []byte(kind)
	for _, p := range parts {
		data, _ = bytesof.Append(data, bytesof.BigEndian, p)
	}
	_ = bytesof.Write(out, bytesof.BigEndian, uint32(len(data)-4))
	out.Write(data)
	_ = bytesof.Write(out, bytesof.BigEndian, crc32.ChecksumIEEE(data))
}

func (f *film) encode() []byte {
	out := bytes.NewBuffer(f.header)
	chunk(out, "acTL", f.frames, uint32(0))
	out.Write(f.body.Bytes())
	chunk(out, "IEND")
	return out.Bytes()
}
