package main_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/proof/guidetest"
)

// TestOperateALocalStack types an operator's commands for a stack of remit local.
func TestOperateALocalStack(t *testing.T) {
	p, m := local(t)
	var made struct { // by a command, or known of the payment
		ID       string
		Key      string `json:"api_key"`
		Merchant string `json:"merchant_id"`
		Address  string
		Wallet   string
	}
	dir := t.TempDir()
	remit := func(line string) string {
		cmd := exec.CommandContext(t.Context(), binary, strings.Fields(line)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "REMIT_STACK="+m.URL)
		out, err := cmd.CombinedOutput()
		if _, failed := errors.AsType[*exec.ExitError](err); failed != strings.Contains(string(out), "remit: ") {
			t.Errorf("remit %s: %v, %s", line, err, out)
		}
		if _, answer, ok := strings.Cut(string(out), "{"); ok {
			_ = json.Unmarshal([]byte("{"+answer), &made) // what is no object has nothing to remember
		}
		return string(out)
	}
	hash := m.must("POST", "/send-payment", `{"to":"`+payee+`","amount":1,"reference":"a"}`)["tx_hash"].(string)
	batch := m.must("POST", "/send-payments", `{"payments":[{"to":"`+payee+
		`","amount":1,"reference":"\u001b[2J\u009b\n"}]}`)["tx_hash"].(string)
	m.awaitConfirmed([]string{hash, batch})
	hook := m.must("POST", "/webhooks", `{"url":"http://127.0.0.1:9/"}`)["id"].(string)
	rpc := m.must("GET", "/sandbox", "")["rpc_url"].(string)
	const imported = "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23"
	if err := os.WriteFile(filepath.Join(dir, "key"), []byte("4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "settings.env"), []byte("MerchantShare=50\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	type step struct{ why, line, want string }
	page := func(start string, wants ...string) (steps []step) {
		for i, line := range strings.Split(strings.TrimSpace(guidetest.Read(t, "../..", "docs/operate.md", start)), "\n") {
			line = strings.NewReplacer("mer_…", "$merchant", "0xfrom…", imported, "0xto…", "$address", "0xwallet…",
				"$address").Replace(strings.TrimPrefix(line, "remit "))
			steps = append(steps, step{"docs/operate.md", line, wants[i]})
		}
		return steps
	}
	funding := page("remit wallet funding", "done")[0]
	funding.line = strings.Replace(funding.line, "0x…", imported, 1) + " --yes"
	move := page("remit wallet move", "250 USDC to $address: ")[0]
	move.line += " --yes"
	batches := page("remit batch deploy", "The contract is there, on every node", "remit doctor says what the chain has")
	batches[1].line += " --yes"
	books := page("remit audit", "No difference.", "No difference.", "wallet,day,kind,", "$hash", "$hash")
	for _, step := range slices.Concat([]step{
		{"a batch whose words would steer a terminal", "payment show " + batch, payee + ` "\x1b[2J\u009b\n"`},
		{"as JSON", "payment show --json " + batch, `"\u001b[2J\u009b\n"`},
		{"a payment", "payment show --json $hash", "mined in block"},
	}, books, []step{
		{"what its merchant wrote of it", "payment show --json $hash", `"reference": "a"`},
		{"is erased on request", "payment redact --yes $hash", "$payment has neither reference nor metadata"},
		{"and gone", "payment show --json $hash", `"reference": null`},
		{"an endpoint that nothing was sent to", "webhooks failed $merchant $hook", "none was given up"},
		{"a wallet that pays", "wallet pause --yes --reason audit $wallet", "paused"},
		{"is listed as paused, with who did it", "wallet list", "  audit (by "},
		{"and found", "doctor", "is paused: audit"},
		{"and resumes", "wallet resume --yes $wallet", "resumed"},
		{"nothing is done without consent", "wallet create", "say --yes"},
		{"a new wallet", "wallet create --yes --json", "address"},
		{"holds nothing", "doctor", "2 of 20 checks"},
		{"until it is funded", "chain fund $address --token 5 --ether 1 --rpc " + rpc, "was given 5 tokens and 1 ether"},
		{"and then all is well but for batches", "doctor", "the batch contract may take nothing"},
		batches[0], batches[1],
		{"a key from a file where the operator is", "wallet import --file key --yes", imported},
		{"a transfer from a wallet with nothing", "wallet move " + imported + " --to $address --key a --token 1", "insufficient funds"},
		{"the imported wallet is funded", "chain fund " + imported + " --token 300 --ether 1 --rpc " + rpc, "was given 300 tokens and 1 ether"},
		{"a transfer is shown first", "wallet move " + imported + " --to " + payee + " --key c --token 0.5", "is no wallet of stack"},
		move, move,
		{"its key is for it", "wallet move --yes " + imported + " --to $address --key rebalance-1 --token 251",
			"idempotency key was used for another request"},
		{"a stack that cannot ask for a key", "wallet import --yes", "say --file"},
		{"in the books", "export --merchant operator --csv", "remit wallet move"},
		funding,
		{"and there is one", "wallet funding --yes $address", imported + " is the funding wallet"},
		{"by now the allowance is on the chain", "doctor", "5000 USDC"},
		{"in the file of a pipeline", "settings apply --yes settings.env", "settings.env lacks"},
		{"all of which is in the audit log", "audit-log", "remit wallet move"},
		{"balances", "wallet balance", "$wallet  "},
	}) {
		known := strings.NewReplacer("$hash", hash, "$hook", hook, "$payment", made.ID, "$id", made.ID, "$merchant", made.Merchant, "$address",
			made.Address, "$wallet", made.Wallet)
		if got := remit(known.Replace(step.line)); !strings.Contains(got, known.Replace(step.want)) {
			t.Errorf("%s: remit %s answered %s, want %s", step.why, step.line, got, step.want)
		}
	}
	if err := p.Interrupt(); err != nil {
		t.Error(err)
	}
	if got := remit("wallet list"); !strings.Contains(got, "looking for a stack of remit local at "+m.URL) {
		t.Errorf("of a stack that has ended: %s", got)
	}
}

// TestRecoverPage types the commands of docs/disasters.md for a stack that has lost
// nothing: they find its payment, put nothing back, and let the wallets pay again.
func TestRecoverPage(t *testing.T) {
	p, m := local(t, "--window", "4", "--wallets", "2")
	hash := m.must("POST", "/send-payment", `{"to":"`+payee+`","amount":1}`)["tx_hash"].(string)
	m.awaitConfirmed([]string{hash})
	t.Setenv("REMIT_STACK", m.URL)
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
	if err := p.Interrupt(); err != nil {
		t.Error(err)
	}
}
