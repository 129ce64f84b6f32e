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

	"remit/internal/guidetest"
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
	books := slices.Concat(page("remit audit", "No difference.", "No difference.", "wallet,day,kind,"), page("remit export", "$hash", "$hash"))
	for _, step := range slices.Insert([]step{
		{"a setting", "settings set --yes MerchantShare=40", "settings of payments: version"},
		{"a batch whose words would steer a terminal", "payment show " + batch, payee + ` "\x1b[2J\u009b\n"`},
		{"as JSON", "payment show --json " + batch, `"\u001b[2J\u009b\n"`},
		{"a payment", "payment show --json $hash", "mined in block"},
		{"the same by its id", "payment show $payment", "$hash"},
		{"a recipient that is paid no more", "deny add --yes --reason court 0x1111111111111111111111111111111111111111", "is not paid"},
		{"is listed with the reason", "deny list", "court"},
		{"as JSON too", "deny list --json", `"reason": "court"`},
		{"and may be paid again", "deny remove --yes 0x1111111111111111111111111111111111111111", "may be paid"},
		{"a denial without a reason", "deny add --yes 0x1111111111111111111111111111111111111111", "missing flags: --reason"},
		{"what its merchant wrote of it", "payment show --json $hash", `"reference": "a"`},
		{"is erased on request", "payment redact --yes $hash", "$payment has neither reference nor metadata"},
		{"and gone", "payment show --json $hash", `"reference": null`},
		{"one that does not exist", "payment show 0x" + strings.Repeat("0", 64), "payment not found"},
		{"an endpoint that nothing was sent to", "webhooks failed $merchant $hook", "none was given up"},
		{"one that does not exist", "webhooks failed $merchant we_0", "no such"},
		{"a wallet that pays", "wallet pause --yes --reason audit $wallet", "paused"},
		{"is listed as paused, with who did it", "wallet list", "  audit (by "},
		{"and found", "doctor", "is paused: audit"},
		{"and resumes", "wallet resume --yes $wallet", "resumed"},
		{"nothing is done without consent", "wallet create", "say --yes"},
		{"a new wallet", "wallet create --yes --json", "address"},
		{"holds nothing", "doctor", "2 of 22 checks"},
		{"until it is funded", "chain fund $address --token 5 --ether 1 --rpc " + rpc, "was given 5 tokens and 1 ether"},
		{"and then all is well", "doctor", "5 USDC, 1 ether"},
		{"but for batches", "doctor", "the batch contract may take nothing"},
		{"an allowance is shown first", "batch approve $address --key batches-2 --amount 4999", "Now it may take 0 USDC"},
		batches[0], batches[1],
		{"its key is for it", "batch approve $address --key batches-2 --amount unlimited --yes", "idempotency key was used for another request"},
		{"a key from a file where the operator is", "wallet import --file key --yes", imported},
		{"a transfer from a wallet with nothing", "wallet move " + imported + " --to $address --key a --token 1", "insufficient funds"},
		{"the imported wallet is funded", "chain fund " + imported + " --token 300 --ether 1 --rpc " + rpc, "was given 300 tokens and 1 ether"},
		{"a wallet that pays is not swept", "wallet sweep " + imported + " --to $address --key b", "is not draining"},
		{"a transfer is shown first", "wallet move " + imported + " --to " + payee + " --key c --token 0.5", "is no wallet of stack"},
		{"a transfer of nothing", "wallet move " + imported + " --to $address --key c", "say what to move"},
		{"an amount that is none", "wallet move " + imported + " --to $address --key c --token 0.0000001", "at most 6 digits"},
		{"all ether of a wallet that pays", "wallet move " + imported + " --to $address --key c --ether all", "drain the wallet and sweep it"},
		move, move,
		{"its key is for it", "wallet move --yes " + imported + " --to $address --key rebalance-1 --token 251",
			"idempotency key was used for another request"},
		{"a stack that cannot ask for a key", "wallet import --yes", "say --file"},
		{"in the books", "export --merchant operator --csv", "remit wallet move"},
		funding,
		{"is listed so", "wallet list", imported + "  treasury"},
		{"and there is one", "wallet funding --yes $address", imported + " is the funding wallet"},
		{"which is no wallet to drain", "wallet drain --yes " + imported, "is the funding wallet: remit wallet funding --undo"},
		{"until it pays again", "wallet funding --undo --yes " + imported, "done"},
		{"a wallet that pays nothing more", "wallet drain --yes " + imported, "done"},
		{"is not swept while processes may believe that it pays", "wallet sweep --yes " + imported + " --to $address --key sweep-1",
			"run this again then"},
		{"by now the allowance is on the chain", "doctor", "5000 USDC"},
		{"an operator's key", "keys create Acme --yes --json", "remit_test_"},
		{"is listed", "keys list $merchant", "$id"},
		{"and ends", "keys revoke --yes $merchant $id", "revoked"},
		{"but no other", "keys revoke --yes $merchant key_zzzzzzzzzzzz", "no such API key"},
		{"the merchant", "merchants list", "$merchant   Acme"},
		{"with its key", "merchants show $merchant", "everything"},
		{"one that there is not", "merchants show mer_none", `no merchant "mer_none" has a key: remit merchants list shows all`},
		{"a suspension has a reason", "merchants suspend $merchant --yes", "missing flags: --reason"},
		{"and consent", "merchants suspend $merchant --reason=stolen", "say --yes"},
		{"a suspension", "merchants suspend $merchant --reason=stolen --yes", "suspended: stolen"},
		{"that ends", "merchants resume $merchant --yes", "active"},
		{"a limit of its own", "merchants limit $merchant --max-amount 7 --daily-amount 9 --yes", " 7                     9 "},
		{"limits that contradict each other", "merchants limit $merchant --max-amount 9 --daily-amount 7 --yes",
			"--daily-amount is below --max-amount"},
		{"and the stack's again", "merchants limit $merchant --yes --json", `"max_amount": null`},
		{"is shown", "settings show", "MerchantShare=40"},
		{"and in the file of a pipeline", "settings apply --yes settings.env", "settings.env lacks"},
		{"all of which is in the audit log", "audit-log", "merchants suspend $merchant --reason=stolen --yes"},
		{"a merchant that has lost its key", "keys issue --yes --scopes payments:read --daily-count 3 $merchant",
			"May do: payments:read, 3 a day."},
		{"one that never had any", "keys issue --yes mer_none", "no such API key"},
		{"gets one that says what it may do", "keys list $merchant", "payments:read, 3 a day"},
	}, 3, append(books, step{"balances", "wallet balance", "$wallet  "}, step{"doctor's", "doctor", " USDC"})...) {
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

// TestRecoverPage types the commands of docs/recover.md for a stack that has lost
// nothing: they find its payment, put nothing back, and let the wallets pay again.
func TestRecoverPage(t *testing.T) {
	p, m := local(t, "--window", "4", "--wallets", "2")
	hash := m.must("POST", "/send-payment", `{"to":"`+payee+`","amount":1}`)["tx_hash"].(string)
	m.awaitConfirmed([]string{hash})
	t.Setenv("REMIT_STACK", m.URL)
	printed := guidetest.Run(t, guidetest.Read(t, "../..", "docs/recover.md", "remit recover --dry-run"), "remit recover", binary+" recover")
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
