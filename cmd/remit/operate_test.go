package main_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestOperateALocalStack addresses an operator's commands to a stack of remit local.
func TestOperateALocalStack(t *testing.T) {
	p, m := local(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "key"), []byte("4c0883a69102937d6231471b5dbb6204fe5129617082792ae468d01a3f362318\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	remit := func(line string) (out, complaint string) {
		cmd := exec.CommandContext(t.Context(), binary, strings.Fields(line)...)
		var stdout, stderr bytes.Buffer
		cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = dir, &stdout, &stderr, append(os.Environ(), "REMIT_STACK="+m.url)
		if _, exited := cmd.Run().(*exec.ExitError); exited != strings.Contains(stderr.String(), "remit: ") {
			t.Errorf("remit %s ended with %v and %s", line, cmd.ProcessState, stderr.String())
		}
		return stdout.String(), stderr.String()
	}
	m.join()
	hash := m.must("POST", "/send-payment", `{"to":"`+payee+`","amount":1}`)["tx_hash"].(string)
	m.awaitConfirmed([]string{hash})
	hook := m.must("POST", "/webhooks", `{"url":"http://127.0.0.1:9/"}`)["id"].(string)
	var made, wallet struct {
		Key      string `json:"api_key"`
		ID       string `json:"id"`
		Merchant string `json:"merchant_id"`
		Address  string `json:"address"`
	}
	decode := func(text string, v any) {
		if err := json.Unmarshal([]byte(text), v); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	out, _ := remit("keys create Acme --yes --json")
	decode(out, &made)
	out, _ = remit("wallet create --yes --json")
	decode(out, &wallet)
	facts := m.must("GET", "/sandbox", "")
	paid, _ := remit("payment show --json " + hash)
	var dossier struct {
		Wallet   string
		Merchant string `json:"merchant_id"`
	}
	decode(paid, &dossier)
	for _, step := range []struct{ why, line, want string }{
		{"nothing is done without consent", "wallet create", "say --yes"},
		{"a key that an operator made", "keys list " + made.Merchant, made.ID},
		{"a new wallet holds nothing", "doctor", "1 of 8 checks"},
		{"until it is funded", "chain fund " + wallet.Address + " --token 5 --ether 1 --rpc " + facts["rpc_url"].(string), "was given 5 tokens and 1 ether"},
		{"and then all is well", "doctor", "5 USDC, 1 ether"},
		{"a key from a file, of the directory of the person who types", "wallet import --file key --yes", "0x2c7536E3605D9C16a7a3D7b1898e529396a65c23"},
		{"whom the stack cannot ask", "wallet import --yes", "say --file"},
		{"which pays nothing more", "wallet drain --yes 0x2c7536E3605D9C16a7a3D7b1898e529396a65c23", "done"},
		{"a wallet that pays", "wallet pause --yes --reason audit " + dossier.Wallet, "paused"},
		{"is listed as paused", "wallet list", "audit"},
		{"and resumes", "wallet resume --yes " + dossier.Wallet, "resumed"},
		{"its balances", "wallet balance", "mined"},
		{"a payment", "payment show " + hash, "mined in block"},
		{"an endpoint that nothing was sent to", "webhooks failed " + dossier.Merchant + " " + hook, "none was given up"},
		{"a key that ends", "keys revoke --yes " + made.Merchant + " " + made.ID, "revoked"},
	} {
		if out, complaint := remit(step.line); !strings.Contains(out+complaint, step.want) {
			t.Errorf("%s: remit %s answered %s%s, want %s", step.why, step.line, out, complaint, step.want)
		}
	}
	if _, err := (&merchant{t: t, url: m.url, key: made.Key}).api().Transaction(t.Context(), hash); err == nil {
		t.Error("a revoked key reads")
	}
	if err := p.interrupt(); err != nil {
		t.Error(err)
	}
	if _, complaint := remit("wallet list"); !strings.Contains(complaint, "looking for a stack of remit local at "+m.url) {
		t.Errorf("of a stack that has ended: %s", complaint)
	}
}
