package ethrpc_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
)

// TestReasons: the data that a contract reverted with is no instruction.
func TestReasons(t *testing.T) {
	word := func(n int) string { return fmt.Sprintf("%064x", n) }
	of := func(signature string, words ...string) string {
		return fmt.Sprintf("%x", crypto.Keccak256([]byte(signature))[:4]) + strings.Join(words, "")
	}
	text := func(s string) string {
		return of("Error(string)", word(32), word(len(s)), fmt.Sprintf("%x", s), strings.Repeat("00", (32-len(s)%32)%32))
	}
	refused := func(inner string) string {
		return of("Refused(uint256,bytes)", word(3), word(64), word(len(inner)/2), inner)
	}
	for data, want := range map[string]string{
		text("Blacklistable: account is blacklisted"):                    "Blacklistable: account is blacklisted",
		text("a \"quote\"\nand ☂"):                                       "a 'quote'?and ?",
		text(strings.Repeat("x", 5000)):                                  strings.Repeat("x", 130),
		of("Error(string)", word(32), word(6), "41"):                     "", // cut short
		of("Error(string)", strings.Repeat("f", 64), word(6)):            "",
		of("Error(string)", word(32), strings.Repeat("f", 64)):           "",
		of("Panic(uint256)", word(0x11)):                                 "panic 0x11",
		of("ERC20InsufficientBalance(address,uint256,uint256)", word(1)): "ERC20InsufficientBalance",
		of("EnforcedPause()"):                                            "EnforcedPause",
		"deadbeef":                                                       "error 0xdeadbeef",
		"dead":                                                           "",
		refused(text("ERC20: transfer amount exceeds balance")):          "payment 3: ERC20: transfer amount exceeds balance",
		refused(""):                 "payment 3",
		refused(refused(text("x"))): "payment 3: payment 3: x",
	} {
		s := serve(t, map[string]func(request) raw{"eth_call": func(r request) raw {
			if r.arg(1) == "0x8" { // the state after the block before: another transaction paused the token
				return result(`"0x"`)
			}
			return raw(`"error":{"code":3,"message":"execution reverted","data":"0x` + data + `"}`)
		}})
		if got := (chain.Nodes{open(t, s.URL)}).Reason(t.Context(), chain.Call{From: account, To: contract}, 9); got != want {
			t.Errorf("%.80s: %q, want %q", data, got, want)
		}
	}
	both := serve(t, map[string]func(request) raw{"eth_call": func(r request) raw {
		return failure("-32000", "execution reverted: at "+r.arg(1))
	}})
	if got := (chain.Nodes{open(t, both.URL)}).Reason(t.Context(), chain.Call{From: account, To: contract}, 9); got != "at 0x8" {
		t.Errorf("before and after the block: %q, want the reason before it", got)
	}
	for answer, want := range map[raw]string{
		failure("-32000", "execution reverted: Pausable: paused"): "Pausable: paused",
		failure("-32000", "missing trie node"):                    "",
		failure("-32000", "out of gas"):                           "",
		result(`"0x01"`):                                          "",
		"":                                                        "",
	} {
		second := open(t, serve(t, map[string]func(request) raw{"eth_call": always(failure("-32000", "execution reverted: second"))}).URL)
		first := open(t, serve(t, map[string]func(request) raw{"eth_call": always(answer)}).URL)
		if want == "" {
			want = "second"
		}
		if got := (chain.Nodes{first, second}).Reason(t.Context(), chain.Call{From: account, To: contract}, 9); got != want {
			t.Errorf("%s: %q, want %q", answer, got, want)
		}
	}
}

// TestAReasonOnARealNode: the token reverts only at a gas price, so that no estimate shows it.
func TestAReasonOnARealNode(t *testing.T) {
	r := startRig(t)
	p := r.pay(0, devnet.RevertRecipient, 5)
	r.send(p, chain.Accepted)
	r.mine()
	read := must.Get(r.node.Receipts(t.Context(), []chain.Hash{p.Hash}))(t)
	call := chain.Call{From: r.key.Address(), To: r.chain.Token().Contract, Data: chain.TransferData(devnet.RevertRecipient, token.Units(5)),
		Within: 100_000, Fees: r.fees}
	if len(read) != 1 || read[0].Succeeded {
		t.Fatalf("%+v", read)
	}
	if got := (chain.Nodes{r.node}).Reason(t.Context(), call, read[0].Block); got != "TestToken: reverts when mined" {
		t.Errorf("reason %q", got)
	}
}
