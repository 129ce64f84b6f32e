package main_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/big"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	ethereum "github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"

	"remit/internal/devnet"
)

var randomly = flag.Float64("random", 60, "seconds of everything at random in TestPageAtRandom")

// A sandbox is the page of a running stack in a browser.
type sandbox struct {
	*tab
	url string
}

// openPage starts a stack and opens its page.
func openPage(t *testing.T, width int64, dark bool, args ...string) sandbox {
	t.Helper()
	_, m := local(t, args...)
	s := sandbox{browser(t, m.url), m.url}
	s.sized(width, dark)
	s.do("opening the page", chromedp.Navigate(m.url+"/"), chromedp.WaitVisible(chromedp.CSS(`#live.on`)))
	t.Cleanup(func() {
		close(s.errors)
		for e := range s.errors {
			t.Errorf("the console has: %s", e)
		}
		if len(s.strangers) > 0 {
			t.Errorf("the page asked others than the stack, first: %v", <-s.strangers)
		}
	})
	return s
}

// sized makes the window so wide, and its colours dark or light.
func (s sandbox) sized(width int64, dark bool) {
	s.Helper()
	scheme := map[bool]string{false: "light", true: "dark"}[dark]
	s.do("sizing the window", chromedp.EmulateViewport(width, 900), chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		return err
	}))
}

// counts are the numbers that the page shows.
type counts struct{ Asked, Once, Twice, Unpaid int }

func (s sandbox) counts() counts {
	s.Helper()
	return show(s.tab, "reading the count", chromedp.Evaluate[counts](`Object.fromEntries(["asked","once","twice","unpaid"].map(n => [n, Number(document.getElementById(n).textContent.replaceAll(",", ""))]))`))
}

// await waits until a condition in JavaScript holds.
func (s sandbox) await(what, condition string) {
	s.Helper()
	for end := time.Now().Add(90 * time.Second); !show(s.tab, what, chromedp.Evaluate[bool](condition)); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("%s: not so after 90 s: %+v\n%s\nThe page shows: %s", what, s.counts(), show(s.tab, "reading the log", chromedp.Evaluate[string](`document.getElementById("log").innerText.slice(0, 4000)`)), s.screenshot())
		}
	}
}

// click presses the button that a CSS selector names.
func (s sandbox) click(selector string) {
	s.Helper()
	s.do("pressing "+selector, chromedp.Click(chromedp.CSS(selector)))
}

// pay fills in the form and presses "Pay".
func (s sandbox) pay(amount string) {
	s.Helper()
	s.do("paying", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := chromedp.Evaluate[bool](fmt.Sprintf(`document.getElementById("said").textContent = "", document.getElementById("amount").value = %q, true`, amount))(ctx, t)
		return err
	}), chromedp.Click(chromedp.CSS(`#do-pay`)))
	s.await("having asked", `document.getElementById("said").textContent.startsWith("Asked for ")`)
}

// settled waits until all that was asked for is paid once, and compares the page's
// numbers with those of the chain, counted here by the amounts of its logs.
func (s sandbox) settled(least int) {
	s.Helper()
	s.await("every payment made once", fmt.Sprintf(`["asked","once","twice","unpaid"].map(n => Number(document.getElementById(n).textContent.replaceAll(",", ""))).every((n, i, c) => i < 2 ? n === c[0] && n >= %d : n === 0) && document.querySelector("#now.calm") !== null`, least))
	var facts devnet.Facts
	m := merchant{t: s.T, url: s.url}
	answer, err := m.api().Call(s.Context(), "GET", "/sandbox", "")
	if err == nil {
		err = json.Unmarshal(answer.Body, &facts)
	}
	if err != nil {
		s.Fatal(err)
	}
	node, err := ethclient.DialContext(s.Context(), facts.RPCURL)
	if err != nil {
		s.Fatal(err)
	}
	defer node.Close()
	var wallets []common.Hash
	for _, w := range facts.Wallets {
		wallets = append(wallets, common.BytesToHash(w.Address[:]))
	}
	shown := s.counts() // before the chain: then a transfer too many would be seen here
	logs, err := node.FilterLogs(s.Context(), ethereum.FilterQuery{FromBlock: new(big.Int), Addresses: []common.Address{common.Address(facts.Token.Address)},
		Topics: [][]common.Hash{{crypto.Keccak256Hash([]byte("Transfer(address,address,uint256)"))}, wallets}})
	if err != nil || len(logs) != shown.Once {
		s.Errorf("the chain has %d transfers out of the wallets (%v), the page shows %+v", len(logs), err, shown)
	}
	payments := map[string]int{}
	for _, l := range logs {
		tx, _, err := node.TransactionByHash(s.Context(), l.TxHash)
		if err != nil {
			s.Fatal(err)
		}
		if payments[string(tx.Data())]++; payments[string(tx.Data())] > 1 {
			s.Errorf("the chain has the payment of %s %d times", l.TxHash, payments[string(tx.Data())])
		}
	}
}

// TestPage presses every button of the page alone, pays, asks again, and presses "Mend
// all": each payment is made once. The page is in order for people who cannot see it or
// who have a phone, and no list grows without end.
func TestPage(t *testing.T) {
	s := openPage(t, 1280, false)
	buttons := show(s.tab, "finding the buttons", chromedp.Evaluate[[]string](`[...document.querySelectorAll("[data-break]")].map(b => b.dataset.break)`))
	if len(buttons) < 19 {
		t.Errorf("there are %d things to break: %v", len(buttons), buttons)
	}
	for i, id := range buttons {
		began := time.Now()
		s.click(fmt.Sprintf(`[data-break=%q]`, id))
		s.pay(fmt.Sprintf("1.%06d", i))
		if strings.HasPrefix(id, "cut-") || id == "lose" {
			s.await("its effect", fmt.Sprintf(`document.querySelector('[data-break=%q]').getAttribute("aria-pressed") === "false"`, id))
		} else {
			s.await("its effect", fmt.Sprintf("Date.now() > %d", began.Add(1500*time.Millisecond).UnixMilli()))
		}
		s.click("#do-again")
		s.click("#mend")
		s.settled(i + 1)
		t.Logf("%s: %.1f s", id, time.Since(began).Seconds())
	}
	s.pay("2.5")
	s.click("#do-fifty")
	s.settled(len(buttons) + 1)
	if asked := show(s.tab, "reading the last row", chromedp.Text(chromedp.CSS(`#rows li:first-child .what`))); asked == "" {
		t.Error("the row says nothing")
	}
	s.await("its event", `document.querySelectorAll("#hooks .ok").length > 0 && document.querySelectorAll("#hooks .wrong").length === 0`)
	s.await("its end", `document.querySelector("#rows li:first-child .end").textContent === "confirmed, paid once"`)

	axe, err := os.ReadFile("../../.cache/axe/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatalf("%v: run tools/install browser", err)
	}
	s.do("loading axe", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := chromedp.Evaluate[bool](string(axe)+"; true")(ctx, t)
		return err
	}))
	inspect := func(what string) {
		t.Helper()
		for _, found := range show(s.tab, "inspecting "+what, chromedp.Evaluate[[]string](`axe.run().then(r => r.violations.map(v => v.id + ": " + v.nodes.map(n => n.html + " " + n.failureSummary).join("; ")))`, chromedp.EvalAwaitPromise)) {
			t.Errorf("%s: axe found %.600s", what, found)
		}
	}
	for _, width := range []int64{1280, 360} {
		for _, dark := range []bool{false, true} {
			s.sized(width, dark)
			s.click(`[data-break="halt"]`)
			s.await("what is broken", `!document.querySelector("#now.calm")`)
			inspect(fmt.Sprintf("%d pixels, dark %v", width, dark))
			s.click("#mend-now")
			s.click("#rows button")
			s.do("opening a payment", chromedp.WaitVisible(chromedp.CSS("#story[open] table")))
			inspect(fmt.Sprintf("a payment, %d pixels, dark %v", width, dark))
			s.click("#story form button")
		}
	}
	lost := show(s.tab, "looking for what a phone cannot reach", chromedp.Evaluate[[]string](`[...document.querySelectorAll("button, input, select, a, summary")].filter(e => e.checkVisibility() && !e.closest("dialog, .skip")).filter(e => {
		const r = e.getBoundingClientRect();
		return r.width < 20 || r.left < 0 || r.right > 360;
	}).map(e => e.outerHTML.slice(0, 80)).concat(document.documentElement.scrollWidth > 360 ? ["the page itself"] : [])`))
	if len(lost) > 0 {
		t.Errorf("at 360 pixels these are out of reach: %q", lost)
	}
	if rows := show(s.tab, "counting rows", chromedp.Evaluate[int](`document.querySelectorAll("#rows li").length`)); rows != len(buttons)+1 {
		t.Errorf("%d payments are listed, want %d", rows, len(buttons)+1)
	}
}

// TestPageAtRandom lets everything go wrong at random, with three seeds.
func TestPageAtRandom(t *testing.T) {
	for _, seed := range []int{1, 2041, 31337} {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			s := openPage(t, 1280, false)
			began := show(s.tab, "beginning", chromedp.Evaluate[bool](fmt.Sprintf(`fetch("/sandbox/do", {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify({do: "random", seed: %d, seconds: %v})}).then(r => r.ok)`, seed, *randomly), chromedp.EvalAwaitPromise))
			if !began {
				t.Fatal("it does not begin")
			}
			s.await("its beginning", `document.getElementById("do-random").disabled`)
			time.Sleep(time.Duration(*randomly * float64(time.Second)))
			s.settled(int(*randomly) / 2)
			if listed := show(s.tab, "counting rows", chromedp.Evaluate[int](`document.querySelectorAll("#rows li").length`)); listed > 100 {
				t.Errorf("%d payments are listed", listed)
			}
			t.Logf("%+v", s.counts())
		})
	}
}
