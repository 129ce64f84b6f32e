package main_test

import (
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/proof/guidetest"
	"github.com/remit-payouts/remit/internal/proof/must"
)

// TestRecoverPage types the commands of docs/operate.md for the books of a stack on this
// machine, and those of docs/disasters.md when it has lost nothing: they find its payment, put nothing back, and let the wallets pay again.
func TestRecoverPage(t *testing.T) {
	p, m := local(t, "--window", "4", "--wallets", "2")
	hash := m.must("POST", "/send-payment", `{"to":"`+payee+`","amount":1}`)["tx_hash"].(string)
	m.awaitConfirmed([]string{hash})
	t.Setenv("REMIT_STACK", m.URL)
	books := guidetest.Run(t, guidetest.Read(t, "../..", "docs/operate.md", "remit audit"), "remit ", binary+" ", "mer_…", "operator")
	if strings.Count(books, "No difference.") != 2 || strings.Count(books, hash) < 2 {
		t.Errorf("the books show\n%s", books)
	}
	printed := guidetest.Run(t, guidetest.Read(t, "../..", "docs/disasters.md", "remit recover --dry-run"), "remit recover", binary+" recover")
	for _, want := range []string{"nothing was changed", "Every wallet of stack", "2 wallets, 256 nonces used up",
		"1 payments of the tables are on the chain", "0 payments put back, 0 USDC", "the wallets pay again"} {
		if !strings.Contains(printed, want) {
			t.Errorf("the page's commands do not print %q:\n%s", want, printed)
		}
	}
	if printed = guidetest.Run(t, binary+" settings show"); !strings.Contains(printed, "(not confirmed for this table)") {
		t.Errorf("settings that may be older than the loss are still confirmed:\n%s", printed)
	}
	m.must("POST", "/send-payment", `{"to":"`+payee+`","amount":1}`)
	must.OK(t, p.Interrupt())
}
