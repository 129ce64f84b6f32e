package browser_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/remit-payouts/remit/internal/api/httpapi"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tooltest"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
	"github.com/remit-payouts/remit/internal/sandbox/local/localtest"
)

// TestExplorer opens /docs in a browser as a person does: sends a payment by "Try it out" with the key that is filled
// in, and reads it back. It shows remit's version. The page asks no other server than the stack for anything.
func TestExplorer(t *testing.T) {
	tooltest.Shell(t) // before a stack is built
	_, api := localtest.Local(t, t.Output(), remit)
	tab := browser(t, api.URL)
	tab.do("opening /docs", chromedp.Navigate(api.URL+"/docs"), chromedp.WaitVisible(chromedp.CSS(`#operations-Payments-sendPayment`)))
	blocks := show(tab, "counting operations", chromedp.Evaluate[int](`document.querySelectorAll(".opblock").length`))
	if want := len(httpapi.Routes); blocks < want { // and the webhooks that are sent
		t.Errorf("%d operations are shown, want at least %d", blocks, want)
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
		return input.dispatchEvent(new FocusEvent("focusout", {bubbles: true})); // it waits a moment for more keys otherwise
	})()`, input, hash)))
	read := tab.execute("getTransaction", 200)
	if read["tx_hash"] != hash || read["reference"] != "inv-2041" {
		t.Errorf("read back %v, want what was paid: %v", read, paid)
	}
	t.Logf("the page at the end: %s", tab.screenshot())
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

// open opens an operation's form.
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
		chromedp.NoSandbox) // a sandbox needs user namespaces, which root and some systems do not give; the page is our own
	ctx, stopBrowser := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(stopBrowser)
	ctx, stopTab := chromedp.NewContext(ctx)
	t.Cleanup(stopTab)
	b := &tab{t, ctx, make(chan string, 1_000), make(chan string, 1_000)}
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		t.Fatalf("starting %s: %v", path, err)
	}
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
