package e2e_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/proof/guidetest"
)

// TestOperatorsPages runs the remit commands of docs/deploy.md, docs/operate.md and docs/disasters.md line by line as
// they are printed, with the ids of a payment in the place of the pages' 0x… and pay_…. A command that asks for
// consent is repeated with --yes, since a test has no terminal.
func TestOperatorsPages(t *testing.T) {
	o := newOperator(t)
	m := newMerchant(t, o.s)
	hook := m.call("POST", "/webhooks", map[string]any{"url": "http://127.0.0.1:1/"}).want(t, 201)
	hash := m.call("POST", "/send-payment", map[string]any{"to": recipient, "amount": 47, "reference": "\x1b[2J\u009b\n"},
		"Idempotency-Key", "inv-2041").want(t, 201).get("tx_hash")
	var paid struct{ ID, State, Wallet string }
	until(t, "confirming", 90*time.Second, func() bool {
		o.ok(&paid, "payment", "show", hash)
		return paid.State == "CONFIRMED"
	})
	o.s.calm(t)
	var spent struct{ Address string } // the wallet that the pages drain and retire
	o.retireEmpty()
	defer o.retireEmpty() // wallets that the pages make
	ids := strings.NewReplacer(".cache/bin/remit", "remit", "--stack remit-dev", "", "--stack remit-prod", "",
		"0x<hash>", hash, "0xfrom…", paid.Wallet, "0xto…", recipient, "0xwallet…", paid.Wallet,
		"0x…", paid.Wallet, "pay_…", paid.ID, "mer_…", m.owner, "we_…", hook.get("id"))
	for _, block := range []struct{ page, start, prints string }{
		{"docs/deploy.md", ".cache/bin/remit doctor --stack remit-dev", "ok   alarms"},
		{"docs/operate.md", "remit keys issue", "payments:write, payments:read, max 5000000, daily 20000000"},
		{"docs/operate.md", "remit merchants list", "suspended: key stolen"},
		{"docs/operate.md", "remit wallet pause", "resumed"},
		{"docs/disasters.md", "remit recover --dry-run", "0 payments put back, 0 "},
		{"docs/operate.md", "remit webhooks failed", "none"},
		{"docs/operate.md", "remit deny add", "court order 17/26"},
		{"docs/operate.md", "remit payment show", "has neither reference nor metadata"},
		{"docs/operate.md", "remit wallet funding", "done"},
		{"docs/operate.md", "remit wallet move", "is no wallet of stack"},
		{"docs/operate.md", "remit batch deploy", "The contract is there, on every node"},
		{"docs/operate.md", "remit wallet drain", "retired"},
		{"docs/operate.md", "remit wallet create", "Fund it"},
		{"docs/deploy.md", ".cache/bin/remit wallet create --stack remit-dev", "Fund it"},
		{"docs/deploy.md", ".cache/bin/remit wallet create --stack remit-prod", "Fund it"},
	} {
		printed := ""
		text := guidetest.Read(t, root, block.page, block.start)
		if strings.HasPrefix(text, "remit wallet drain") { // there is nothing to sweep: cmd/remit does
			o.ok(&spent, "wallet", "create", "--yes")
			text = strings.ReplaceAll(regexp.MustCompile("remit wallet sweep.*\n").ReplaceAllString(text, ""), "0x…", spent.Address)
		}
		for line := range strings.Lines(ids.Replace(text)) {
			var words []string
			for _, word := range regexp.MustCompile(`"[^"]*"|\S+`).FindAllString(line, -1) {
				words = append(words, strings.Trim(word, `"`))
			}
			if words[0] != "remit" {
				t.Fatalf("%s: this test cannot run %s", block.page, line)
			}
			r := o.run(words[1:]...)
			if strings.Contains(r.stderr, "add --yes") {
				printed += r.stdout + r.stderr
				r = o.run(append(words[1:], "--yes")...)
			}
			if r.code != 0 {
				t.Errorf("%s: %s ended with %d: %s", block.page, line, r.code, r.stderr)
			}
			printed += r.stdout
		}
		if !strings.Contains(printed, block.prints) {
			t.Errorf("%s: the lines from %q print no %q:\n%s", block.page, block.start, block.prints, printed)
		}
		if block.start == "remit wallet funding" {
			o.ok(nil, "wallet", "funding", "--undo", "--yes", paid.Wallet)
		}
	}
	if strings.ContainsAny(o.printed.String(), "\x1b\u009b") {
		t.Error("a merchant's words steer the terminal")
	}
	o.unseen()
}
