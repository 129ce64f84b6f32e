// Package browser_test opens the pages of `remit local` in a browser.
package browser_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"image/color"
	"image/png"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tooltest"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
	"github.com/remit-payouts/remit/internal/sandbox/local/localtest"
	sdk "github.com/remit-payouts/remit/sdk/go"
)

// remit is the command that serves the page, built once.
var remit string

func TestMain(m *testing.M) { os.Exit(localtest.Main(m, &remit)) }

// names are functions that find a button, the field of a label, or a counter by the name that a person reads.
const names = `
	const named = name => [...document.querySelectorAll("button")]
		.find(e => e.checkVisibility() && (e.ariaLabel ?? e.innerText.split("\n")[0]) === name);
	const field = name => [...document.querySelectorAll("label")].find(l => l.firstChild.textContent.trim() === name)?.control;
	const number = name => [...document.querySelectorAll("dt")].find(t => t.textContent === name).nextSibling;
	const rows = () => [...document.querySelectorAll("ol[aria-label^='The newest payments'] button")];
	const said = () => named("Pay").closest("form").querySelector("[role=status]");
	const shows = text => document.body.innerText.includes(text);`

// A sandbox is the page of a running stack in a browser.
type sandbox struct {
	*tab
	url string
}

// openAt opens the page that is served at a URL.
func openAt(t *testing.T, url string) sandbox {
	t.Helper()
	s := sandbox{browser(t, url), url}
	s.sized(1280, false)
	command(s, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: names})
	s.do("opening the page", chromedp.Navigate(url), chromedp.WaitVisible(chromedp.CSS(`#live.on, #live.off`)))
	return s
}

func command[P, R any](s sandbox, c cdp.Command[P, R], params P) {
	s.Helper()
	s.do("commanding the browser", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		return must.Err(cdp.Call(ctx, t, c, params))
	}))
}

// eval returns the value of an expression in JavaScript, or of its promise.
func eval[V any](s sandbox, format string, args ...any) V {
	s.Helper()
	return show(s.tab, "evaluating "+format, chromedp.Evaluate[V](fmt.Sprintf(format, args...), chromedp.EvalAwaitPromise))
}

// sized makes the window so wide, and its colours dark or light.
func (s sandbox) sized(width int64, dark bool) {
	s.Helper()
	scheme := map[bool]string{false: "light", true: "dark"}[dark]
	s.do("sizing the window", chromedp.EmulateViewport(width, 900))
	command(s, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

// await waits until a condition in JavaScript holds.
func (s sandbox) await(what, format string, args ...any) {
	s.Helper()
	for end := time.Now().Add(patience); !eval[bool](s, format, args...); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("%s: not so after 90 s: %s\nThe page shows: %s", what,
				eval[string](s, `document.querySelector(".count").innerText + document.getElementById("log").innerText.slice(0, 4000)`), s.screenshot())
		}
	}
}

// click presses the button that a CSS selector names.
func (s sandbox) click(selector string) {
	s.Helper()
	s.do("finding "+selector, chromedp.WaitVisible(chromedp.CSS(selector)))
	eval[bool](s, "document.querySelector(%q).click(), true", selector)
}

// press presses the button of a name, once it may be pressed. A click by its place would miss one that moves meanwhile.
func (s sandbox) press(name string) {
	s.Helper()
	s.await("the button "+name, `(b => b && !b.disabled && (b.click(), true))(named(%q)) || false`, name)
}

// order fills in the form and presses a button. An empty key is the one that the page suggests. It returns the answer
// that stands below the button, after "red" if it is.
func (s sandbox) order(button, key, amount, asset string) string {
	s.Helper()
	before := eval[string](s, `(([key, amount, asset]) => {
		if (key) field("Idempotency-Key").value = key;
		field("Amount").value = amount;
		field("Asset").value = [...field("Asset").options].find(o => o.text === asset).value;
		return said().innerText;
	})([%q, %q, %q])`, key, amount, asset)
	s.press(button)
	s.await("the answer", `![%q, "Asking…"].includes(said().innerText)`, before)
	return eval[string](s, `((r, g, b) => r > 2 * g && r > 2 * b ? "red " : "")(...getComputedStyle(said()).color.match(/\d+/g))
		+ said().innerText`)
}

// fits holds that nothing is wider than the window, and that the counters are in sight beside an element.
func (s sandbox) fits(what, element string) {
	s.Helper()
	if hidden := eval[[]string](s, `[...["requested", "paid once", "paid twice", "unpaid"].map(number), %s].filter(e => {
			const r = e.getBoundingClientRect(), top = document.elementFromPoint(r.left + r.width / 2, r.top + r.height / 2);
			return r.top < 0 || r.bottom > innerHeight || !e.contains(top);
		}).map(e => e.outerHTML.slice(0, 90)).concat(document.documentElement.scrollWidth > innerWidth ? ["the page"] : [])`,
		element); len(hidden) > 0 {
		s.Errorf("%s: out of sight or too wide: %q: %s", what, hidden, s.screenshot())
	}
}

// settled waits until nothing is broken and all that was asked for, so many payments at least, is paid once, for four
// blocks in a row: a block's transactions, the next may replace.
func (s sandbox) settled(least int) {
	s.Helper()
	eval[bool](s, "delete window.since")
	s.await("every payment made once, for four blocks", `(() => {
		const counts = ["asked", "once", "twice", "unpaid"].map(n => Number(document.getElementById(n).textContent.replaceAll(",", "")));
		const block = Number(/block (\d+)/.exec(document.querySelector("#chains small")?.textContent)?.[1] ?? 0);
		const settled = document.querySelector("#broken:empty") && counts.every((n, i) => i < 2 ? n === counts[0] && n >= %d : n === 0);
		window.since = settled ? Math.min(window.since ?? block, block) : Infinity;
		return block >= window.since + 4;
	})()`, least)
}

// inspected holds that axe finds nothing wrong with the page.
func (s sandbox) inspected(what string) {
	s.Helper()
	for _, found := range eval[[]string](s, `axe.run().then(r => r.violations.map(v => v.id + ": " + v.nodes.map(n => n.html + " " + n.failureSummary).join("; ")))`) {
		s.Errorf("%s: axe found %.600s", what, found)
	}
}

// TestPage presses every button of the page alone, pays, asks again, and presses "Mend all": each payment is made
// once. The page is in order for people who cannot see it or who have a phone.
func TestPage(t *testing.T) {
	t.Parallel()
	tooltest.Shell(t) // before a stack is built
	_, api := localtest.Local(t, t.Output(), remit, "--rail=usdc", "--rail=eurc")
	s := openAt(t, api.URL)
	buttons := eval[[]string](s, `[...document.querySelectorAll("[data-break]")].map(b => b.dataset.break)`)
	if len(buttons) < 17 {
		t.Errorf("there are %d things to break: %v", len(buttons), buttons)
	}
	for i, id := range buttons {
		began := time.Now()
		s.click(fmt.Sprintf(`[data-break=%q]`, id))
		s.order("Pay", "", fmt.Sprintf("1.%06d", i), [...]string{"USDC", "EURC"}[i%2])
		if strings.HasPrefix(id, "cut-") || id == "lose" {
			s.await("its effect", `document.querySelector('[data-break=%q]').getAttribute("aria-pressed") === "false"`, id)
		} else {
			s.await("its effect", "Date.now() > %d", began.Add(1500*time.Millisecond).UnixMilli())
		}
		s.press("Repeat it")
		s.press("Mend all")
		s.settled(i + 1)
		t.Logf("%s: %.1f s", id, time.Since(began).Seconds())
	}
	s.await("its event", `document.querySelectorAll("#hooks .ok").length > 0 && document.querySelectorAll("#hooks .wrong").length === 0`)
	s.await("its end", `document.querySelector("#rows li:first-child .end").textContent === "confirmed, paid once" && document.querySelector("#rows li:first-child .what").textContent !== ""`)

	s.order("Propose", "", "2.5", "EURC")
	s.forEverybody()
}

// forEverybody holds that people who cannot see, or have a phone, can use the page and a payment, in both colours.
func (s sandbox) forEverybody() {
	s.Helper()
	axe := must.Get(os.ReadFile(tooltest.Path(s, "axe", ".cache/axe/node_modules/axe-core/axe.min.js")))(s)
	eval[bool](s, "%s; true", axe)
	for _, width := range []int64{1280, 360} {
		for _, dark := range []bool{false, true} {
			s.sized(width, dark)
			s.click(`[data-break="halt"]`)
			s.await("what is broken", `!document.querySelector("#broken:empty")`)
			s.inspected(fmt.Sprintf("%d pixels, dark %v", width, dark))
			s.press("Mend all")
			s.click("#rows button")
			s.do("opening a payment", chromedp.WaitVisible(chromedp.CSS("#timeline[open] table")))
			s.inspected(fmt.Sprintf("a payment, %d pixels, dark %v", width, dark))
			s.press("Close the payment")
		}
	}
	if lost := eval[[]string](s, `[...document.querySelectorAll("button, input, select, a, summary")].filter(e => e.checkVisibility() && !e.closest("dialog, .skip")).filter(e => {
		const r = e.getBoundingClientRect();
		return r.width < 20 || r.left < 0 || r.right > 360;
	}).map(e => e.outerHTML.slice(0, 80)).concat(document.documentElement.scrollWidth > 360 ? ["the page itself"] : [])`); len(lost) > 0 {
		s.Errorf("at 360 pixels these are out of reach: %q", lost)
	}
}

// TestAStrangersFirstMinutes: a payment made before the page was opened has its own times; each press of Pay is
// answered where it was pressed, refusals in red with their reason; both assets are paid, and the same order on both is
// paid once; a reload suggests an unused key; on a wide screen and on a phone nothing overflows, and the counters are
// in sight while a fault is pressed; a proposal is paid if it is approved there, and not if it is cancelled.
func TestAStrangersFirstMinutes(t *testing.T) {
	t.Parallel()
	tooltest.Shell(t)
	_, api := localtest.Local(t, t.Output(), remit, "--rail=usdc", "--rail=eurc")
	early := must.Get(api.Pay(t.Context(), "early", sdk.Order{To: "0x2222222222222222222222222222222222222222", Amount: "1"}))(t)
	early = must.Get(api.Wait(t.Context(), early.TxHash))(t)
	s := openAt(t, api.URL)
	took := time.Time(early.UpdatedAt).UnixMilli() - time.Time(early.CreatedAt).UnixMilli()
	s.await("the early payment's end", `rows()[0]?.innerText.includes("confirmed, paid once") ?? false`)
	if shown := eval[[]string](s, `[...rows()[0].innerText.matchAll(/\+[\d.]+ s/g)].map(m => m[0])`); len(shown) != 3 ||
		shown[0] != "+0.00 s" || shown[2] != eval[string](s, "`+${(%d / 1000).toFixed(2)} s`", took) {
		t.Errorf("the payment of before the page took %d ms, and has the times %s", took, shown)
	}
	for _, row := range []struct{ key, amount, asset, want string }{
		{"", "1.5", "USDC", "order-1: 201 pending"},
		{"", "2.5", "EURC", "order-2: 201 pending"},
		{"order-2", "2.5", "USDC", "red order-2: 422 idempotency_key_reused: This Idempotency-Key was used for other"},
		{"order-3", "99999999", "USDC", "red order-3: 400 insufficient_funds: The service cannot cover"},
	} {
		if said := s.order("Pay", row.key, row.amount, row.asset); !strings.HasPrefix(said, row.want) {
			t.Errorf("%s %s of %s is answered %q", row.key, row.amount, row.asset, said)
		}
	}
	s.settled(3)
	for _, want := range []string{"Every payment was made exactly once.", "Counted on the chains themselves: 2 of USDC, 1 of EURC.",
		"USDC, chain 1337 2 transfers,", "EURC, chain 1338 1 transfer,"} {
		s.await(want, `shows(%q)`, want)
	}
	s.do("reloading", chromedp.Navigate(api.URL))
	s.await("the first unused order", `field("Idempotency-Key")?.value === "order-4"`)
	s.await("the refused repeat", `rows().some(r => /2.50 EURC, 2 requests, 1 refused to 0x2222/.test(r.innerText))`)
	faults := eval[[]string](s, `document.querySelectorAll("details").forEach(d => d.open = true),
		[...document.querySelectorAll("button[aria-pressed]")].map(b => b.innerText.split("\n")[0])`)
	for _, width := range []int64{1280, 390} {
		s.sized(width, false)
		for _, fault := range faults {
			eval[bool](s, `named(%q).scrollIntoView({block: "center"}), true`, fault)
			s.press(fault)
			s.fits(fmt.Sprint(width, " pixels, ", fault), fmt.Sprintf(`named(%q)`, fault))
		}
		s.await("what is broken", `number("unpaid").closest("section").innerText.includes("Broken now: ")`)
		s.press("Mend all")
		s.await("nothing broken", `!shows("Broken now")`)
		eval[bool](s, `rows().find(r => r.innerText.startsWith("order-2")).click(), true`)
		s.await("its requests", `document.querySelector("dialog[open]")?.innerText
			.includes("2 requests, 1 answered 201, 1 refused. The last answer: 422 idempotency_key_reused.") ?? false`)
		if eval[bool](s, `document.querySelector("dialog").scrollWidth > document.querySelector("dialog").clientWidth`) {
			t.Errorf("%d pixels: the payment's dialog overflows: %s", width, s.screenshot())
		}
		s.press("Close the payment")
		for does, end := range map[string]string{"Approve": "released", "Cancel": "cancelled"} {
			key := eval[string](s, `field("Idempotency-Key").value`)
			if said := s.order("Propose", "", "1.25", "EURC"); said != key+" is proposed: below, another key approves it." {
				t.Errorf("a proposal is answered %q", said)
			}
			shown := key + ": 1.25 EURC to 0x2222…2222, "
			s.await("the proposal", `shows(%q)`, shown+"awaiting approval")
			buttons := fmt.Sprintf(`...["Approve ", "Cancel "].map(does => named(does + %q))`, key)
			eval[bool](s, `named(%q).scrollIntoView({block: "center"}), true`, "Cancel "+key)
			s.fits(fmt.Sprint(width, " pixels, a proposal"), buttons)
			s.press(does + " " + key)
			s.await("its end", `shows(%q) && %t === rows().some(r => r.innerText.startsWith(%q))`, shown+end, end == "released", key)
		}
	}
	s.settled(5)
}

var draw = flag.Bool("update", false, "draw the picture of README.md")

// TestPicture: the page shows the killed request, the 50 repeats and the one transfer of README's picture.
// -update draws it, with the log in place of the faults.
func TestPicture(t *testing.T) {
	t.Parallel()
	tooltest.Shell(t)
	_, api := localtest.Local(t, t.Output(), remit, "--rail=usdc", "--rail=eurc")
	s := openAt(t, api.URL)
	s.press("After commit")
	s.order("Pay", "", "250.00", "USDC")
	s.press("Repeat it 50 times at once")
	s.press("Run check-receipts now")
	s.settled(1)
	s.sized(1120, false)
	eval[string](s, `document.querySelectorAll("main > .card, .three > * + *").forEach(e => e.style.display = "none"),
		document.querySelector(".three").style.gridTemplateColumns = "1fr"`)
	s.await("the picture", `["1 of USDC, 0 of EURC", "order-1: 50 × 201 pending", "USDC, 51 requests to 0x2222…2222",
		"Kill the next request: after commit", "order-1 got no answer"].every(text => shows(text))`)
	if picture := show(s.tab, "taking a picture", chromedp.FullScreenshot(100)); *draw {
		must.OK(t, os.WriteFile("../../docs/images/cut-off.png", picture, 0o644))
	}
}

// TestExplorer opens /docs in a browser as a person does: sends a payment by "Try it out" with the key that is filled
// in, and reads it back. It shows remit's version, and is dark on a dark screen. It asks no other server for anything.
func TestExplorer(t *testing.T) {
	tooltest.Shell(t) // before a stack is built
	_, api := localtest.Local(t, t.Output(), remit)
	tab := browser(t, api.URL)
	tab.do("opening /docs", chromedp.Navigate(api.URL+"/docs"), chromedp.WaitVisible(chromedp.CSS(`#operations-Payments-sendPayment`)))
	blocks := show(tab, "counting operations", chromedp.Evaluate[int](`document.querySelectorAll(".opblock").length`))
	if want := len(httpapi.Routes); blocks < want { // and the webhooks that are sent
		t.Errorf("%d operations are shown, want at least %d", blocks, want)
	}
	for _, dark := range []bool{true, false} { // filters invert its colours, so only a picture shows them
		sandbox{tab, api.URL}.sized(1400, dark)
		picture := must.Get(png.Decode(bytes.NewReader(show(tab, "taking a picture", chromedp.FullScreenshot(100)))))(t)
		size, dim := picture.Bounds().Max, 0
		points := size.X * size.Y / 97
		for i := range points {
			if color.GrayModel.Convert(picture.At(i*97%size.X, i*97/size.X)).(color.Gray).Y < 128 {
				dim++
			}
		}
		if mostly := 2*dim > points; mostly != dark {
			t.Errorf("dark %t: %d of %d points are dark", dark, dim, points)
		}
	}
	text := show(tab, "reading the sandbox's notes", chromedp.TextContent(chromedp.CSS(`.sandbox`)))
	for _, recipient := range devnet.Recipients() {
		if !strings.Contains(text, recipient.Address.String()) {
			t.Errorf("the magic recipient %s is not listed", recipient.Address)
		}
	}
	tab.open("sendPayment")
	paid := tab.execute("sendPayment", 201)
	hash, _ := paid["tx_hash"].(string)
	if paid["status"] != "pending" || len(hash) != 66 {
		t.Fatalf("paid %v", paid)
	}
	const input = `#operations-Payments-getTransaction tr[data-param-name="tx_hash"] input`
	tab.open("getTransaction")
	tab.do("waiting for its form", chromedp.WaitVisible(chromedp.CSS(input)))
	// A change that React hears of, as from a keyboard.
	show(tab, "filling it in", chromedp.Evaluate[bool](fmt.Sprintf(`(() => {
		const input = document.querySelector(%q);
		Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(input, %q);
		input.dispatchEvent(new Event("input", {bubbles: true}));
		return input.dispatchEvent(new FocusEvent("focusout", {bubbles: true})); // else it waits for more keys
	})()`, input, hash)))
	read := tab.execute("getTransaction", 200)
	if read["tx_hash"] != hash || read["reference"] != "inv-2041" {
		t.Errorf("read back %v, want what was paid: %v", read, paid)
	}
	built := must.Get(exec.CommandContext(t.Context(), remit, "--version").Output())(t)
	version := show(tab, "reading the version", chromedp.Text(chromedp.CSS(`.info .title .version`)))
	if "remit "+strings.TrimSpace(version) != strings.TrimSpace(string(built)) {
		t.Errorf("the page is of version %s, this is %s", version, built)
	}
}

// A tab is one page in a browser.
type tab struct {
	*testing.T
	ctx       context.Context
	strangers chan string // URLs outside the stack that the page asked for
	errors    chan string // the page's errors and exceptions
}

// patience ends a test that hangs, and is no limit of the page: in CI's first minute 44 packages compile beside it.
const patience = 90 * time.Second

// do runs actions. If one fails, do takes a picture of the page and ends the test.
func (b *tab) do(what string, actions ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	show(b, what, chromedp.Steps(actions...))
}

// show is do for an action with a result.
func show[V any](b *tab, what string, action chromedp.Action[V]) V {
	b.Helper()
	ctx, stop := context.WithTimeout(b.ctx, patience)
	defer stop()
	value, err := chromedp.Run(ctx, action)
	if err != nil {
		b.Fatalf("%s: %v\nThe page shows: %s", what, err, b.screenshot())
	}
	return value
}

func operation(name, selector string) chromedp.CSS {
	return chromedp.CSS("#operations-Payments-" + name + " " + selector)
}

func (b *tab) open(name string) {
	b.Helper()
	b.do("opening "+name, chromedp.Click(operation(name, `.opblock-summary-control`)), chromedp.Click(operation(name, `.try-out__btn`)))
}

// execute executes an operation. It returns the body that the page then shows, after it has compared the status.
func (b *tab) execute(name string, status int) (value map[string]any) {
	b.Helper()
	const answer = `.live-responses-table tbody .response-col_`
	b.do("executing "+name, chromedp.Click(operation(name, `button.execute`)), chromedp.WaitVisible(operation(name, answer+`status`)))
	code := show(b, "reading the status", chromedp.Text(operation(name, answer+`status`)))
	body := show(b, "reading the body", chromedp.TextContent(operation(name, answer+`description .highlight-code code`)))
	if err := json.Unmarshal([]byte(body), &value); err != nil || !strings.HasPrefix(strings.TrimSpace(code), fmt.Sprint(status)) {
		b.Fatalf("%s shows %s: %q: %v", name, code, body, err)
	}
	return value
}

// screenshot writes a picture of the page to a file and returns its path.
func (b *tab) screenshot() string {
	b.Helper()
	const path = "../../.cache/explorer.png"
	ctx, stop := context.WithTimeout(b.ctx, 20*time.Second)
	defer stop()
	picture, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err == nil {
		err = os.WriteFile(path, picture, 0o644)
	}
	if err != nil {
		return fmt.Sprintf("(no picture: %v)", err)
	}
	return path
}

// browser starts a headless Chromium with one tab, which lists every URL that the page asks for outside home.
func browser(t *testing.T, home string) *tab {
	t.Helper()
	tooltest.Shell(t)
	path := must.Get(filepath.Abs("../../tools/browser/chromium"))(t)
	if probe := exec.CommandContext(t.Context(), path, "--version"); probe.Run() != nil && probe.ProcessState.ExitCode() == 69 {
		tooltest.Path(t, "Chromium", ".cache/browser/chromium") // which is not there
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.WindowSize(1400, 2400),
		chromedp.NoSandbox) // a sandbox needs user namespaces, which root does not give; the page is our own
	ctx, stopBrowser := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(stopBrowser)
	ctx, stopTab := chromedp.NewContext(ctx)
	t.Cleanup(stopTab)
	b := &tab{t, ctx, make(chan string, 1_000), make(chan string, 1_000)}
	must.OK(t, chromedp.Do(ctx, chromedp.Navigate("about:blank")))
	must.OK(t, chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			if u, err := url.Parse(e.Request.URL); err != nil || u.Scheme != "data" && u.Scheme != "blob" && "http://"+u.Host != home {
				b.strangers <- e.Request.URL
			}
		case *runtime.EventExceptionThrown:
			b.errors <- fmt.Sprintf("%s %+v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception)
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.ConsoleAPICalledTypeError {
				b.errors <- e.Args[0].Value.String()
			}
		case *log.EventEntryAdded:
			if e.Entry.Level == log.EntryLevelError {
				b.errors <- e.Entry.Text
			}
		}
	}))
	t.Cleanup(func() {
		for len(b.errors) > 0 { // the tab may still write to it
			t.Errorf("the console has: %s", <-b.errors)
		}
		if len(b.strangers) > 0 {
			t.Errorf("the page asked others than the stack, first: %v", <-b.strangers)
		}
	})
	return b
}
