package ethrpc_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/keyring"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
)

// A rig is a real geth in this process, and one of its wallets.
type rig struct {
	*testing.T
	chain *devnet.Chain
	node  *ethrpc.Node
	key   keyring.Key
	fees  chain.Fees
}

func startRig(t *testing.T, config devnet.Config) *rig {
	t.Helper()
	config.Listen, config.Wallets, config.Now = "127.0.0.1:0", 2, time.Now
	c := must.Get(devnet.Start(t.Context(), config))(t)
	t.Cleanup(func() { must.OK(t, c.Close()) })
	node := must.Get(ethrpc.Open(c.URL(), ethrpc.Config{ChainID: c.ID()}))(t)
	key := must.Get(keyring.ParseKey(c.Wallets()[0].PrivateKey()))(t)
	r := &rig{T: t, chain: c, node: node, key: key}
	market := must.Get(node.Fees(t.Context()))(t)
	r.fees = chain.QuoteFees(market.BaseFee, market.Tip, token.Amount{})
	if r.fees.Tip.IsZero() || r.fees.Cap.IsZero() {
		t.Fatalf("geth quotes %+v", market)
	}
	return r
}

func (r *rig) pay(nonce uint64, to token.Address, units uint64) chain.Signed {
	r.Helper()
	return r.sign(nonce, chain.Tx{ChainID: r.chain.ID(), To: r.chain.Token().Contract,
		Data: chain.TransferData(to, token.Units(units)), Gas: 100_000, Fees: r.fees})
}

func (r *rig) sign(nonce uint64, tx chain.Tx) chain.Signed {
	r.Helper()
	return must.Get(r.key.Sign(context.Background(), tx, nonce))(r)
}

func (r *rig) send(signed chain.Signed, want chain.Class) {
	r.Helper()
	if reply := r.node.Send(r.Context(), signed.Raw); reply.Class != want {
		r.Errorf("geth says %q: %s, want %s", reply.Detail, reply.Class, want)
	}
}

func TestUnderstandsARealNodesRefusals(t *testing.T) {
	r, nonce := startRig(t, devnet.Config{}), uint64(0)
	first := r.pay(nonce, token.Address{1}, 1)
	r.send(first, chain.Accepted)
	r.send(first, chain.Known)
	r.send(r.pay(nonce, token.Address{2}, 1), chain.Replacement)
	r.send(r.pay(nonce+5, token.Address{1}, 1), chain.Accepted) // geth queues a gap in silence
	must.OK(t, r.chain.Mine())
	r.send(first, chain.NonceTooLow)
	r.send(r.pay(nonce, token.Address{2}, 1), chain.NonceTooLow)

	noop := chain.Noop(r.chain.ID(), r.key.Address(), r.fees)
	dear, large, cheap, foreign, long := noop, noop, noop, noop, noop
	dear.Fees.Cap = token.MaxAmount().Sub(token.Units(1<<40)).ScaleUp(1, 1<<63)
	large.Gas = 1 << 40
	cheap.Fees = chain.Fees{}
	foreign.ChainID++
	long.Data = make([]byte, 200_000)
	for _, row := range []struct {
		name string
		tx   chain.Tx
		want chain.Class
	}{
		{"more than the wallet has", dear, chain.Funds},
		{"more gas than a transaction may have, since Osaka", large, chain.Ambiguous},
		{"no tip", cheap, chain.FeeTooLow},
		{"another chain", foreign, chain.Wrong},
		{"too long", long, chain.Wrong},
		{"too little gas for its data", func() chain.Tx { tx := noop; tx.Data = make([]byte, 100); return tx }(), chain.GasTooLow},
	} {
		t.Run(row.name, func(t *testing.T) { r.send(r.sign(nonce+1, row.tx), row.want) })
	}
	if reply := r.node.Send(t.Context(), []byte{2, 1, 2, 3}); reply.Class != chain.Ambiguous {
		t.Errorf("no transaction at all: %+v", reply)
	}
	must.OK(t, r.chain.Own("blacklist", token.Address{1}))
	for why, data := range map[string][]byte{"more than the wallet has": chain.TransferData(token.Address{2}, token.MaxAmount()),
		"a blacklisted recipient": chain.TransferData(token.Address{1}, token.Units(5))} {
		if _, err := r.node.Estimate(t.Context(), chain.Call{From: r.key.Address(), To: r.chain.Token().Contract, Data: data}); !errors.Is(err,
			chain.ErrReverted) {
			t.Errorf("%s: %v, want ErrReverted", why, err)
		}
	}
}

// TestRecipientSpendsItsLastCoin: between estimate and block the recipient's balance becomes zero, so that the transfer
// sets it anew. That costs 17,100 gas more under the rules of Osaka and 97,920 under those of Amsterdam. The estimate
// has both cases, and so has the worst case of a transfer: no less is enough for somebody new.
func TestRecipientSpendsItsLastCoin(t *testing.T) {
	for name, amsterdam := range map[string]bool{"Osaka": false, "Amsterdam": true, "Osaka, by call": false, "Amsterdam, by call": true} {
		t.Run(name, func(t *testing.T) {
			r := startRig(t, devnet.Config{Amsterdam: amsterdam})
			holder := r.chain.Wallets()[1]
			call := chain.Call{From: r.key.Address(), To: r.chain.Token().Contract, Data: chain.TransferData(holder.Address, token.Units(5))}
			gas := must.Get(r.node.Estimate(t.Context(), call))(t)
			if strings.HasSuffix(name, "by call") {
				call.ByCall = true
				stranger := call.PaidTo(token.Address{7})
				call.Within = must.Get(chain.Nodes{r.node}.WorstCase(t.Context(), stranger, 0))(t)
				if gas = must.Get(r.node.Estimate(t.Context(), call))(t); gas != call.Within {
					t.Errorf("not executed within %d, but estimated at %d", call.Within, gas)
				}
				for within, executed := range map[uint64]bool{call.Within: true, call.Within * 9 / 10: false} {
					if stranger.Within = within; must.Get(r.node.Estimate(r.Context(), stranger))(r) == within != executed {
						t.Errorf("somebody new, within %d of %d: executed: %t", within, call.Within, !executed)
					}
				}
			}
			key := must.Get(keyring.ParseKey(holder.PrivateKey()))(t)
			all := must.Get(r.chain.Account(t.Context(), holder.Address))(t).Balance
			tx := chain.Tx{ChainID: r.chain.ID(), To: call.To, Data: chain.TransferData(token.Address{9}, all), Gas: 300_000, Fees: r.fees}
			spent := must.Get(key.Sign(context.Background(), tx, 0))(t)
			tx.Data, tx.Gas = call.Data, chain.GasLimit(gas)
			paid := r.sign(0, tx)
			must.OK(t, r.chain.MineExactly(spent.Raw, paid.Raw))
			receipts, err := r.node.Receipts(t.Context(), []chain.Hash{spent.Hash, paid.Hash})
			if err != nil || len(receipts) != 2 || !receipts[0].Succeeded || !receipts[1].Succeeded {
				t.Errorf("estimate %d, limit %d: %+v, %v", gas, tx.Gas, receipts, err)
			}
			if tx.Gas > 2*receipts[1].GasUsed {
				t.Errorf("limit %d ties up more than twice the %d that were used", tx.Gas, receipts[1].GasUsed)
			}
		})
	}
}

// TestL1Fee reads the fee that a chain of the OP stack charges beside gas.
func TestL1Fee(t *testing.T) {
	oracle := []byte{0x60, 4, 0x35, 0x60, 0, 0x35, 0x60, 0xe0, 0x1c, 0x01, 0x60, 0, 0x52, 0x60, 32, 0x60, 0,
		0xf3} // returns its argument and the selector added
	for name, code := range map[string][]byte{"an oracle": oracle, "no oracle": nil, "an oracle that reverts": {0x60, 0, 0x60, 0, 0xfd}} {
		t.Run(name, func(t *testing.T) {
			r := startRig(t, devnet.Config{Contracts: map[token.Address][]byte{{0: 0x42, 19: 0x0f}: code}})
			node := must.Get(ethrpc.Open(r.chain.URL(), ethrpc.Config{ChainID: r.chain.ID(), L1Fee: true}))(t)
			market, err := node.Fees(t.Context())
			if name != "an oracle" {
				if err == nil {
					t.Errorf("Fees = %+v: what is not known is not zero", market)
				}
				return
			}
			if want := token.Units(0xf1c7a58b + 192 + 0x275aedd2 + 300_000); err != nil || market.L1Fee != want || market.BaseFee.IsZero() {
				t.Errorf("Fees = %+v, %v, want an L1 fee of %v", market, err, want)
			}
			if market, err := r.node.Fees(t.Context()); err != nil || !market.L1Fee.IsZero() {
				t.Errorf("Fees of a chain without an L1 fee = %+v, %v", market, err)
			}
		})
	}
}

// TestReasons: the reason of a revert is data.
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
		text("a \"quote\"\nand ☂"):                                       "a \"quote\"?and ?",
		text(strings.Repeat("x", 5000)):                                  strings.Repeat("x", 200),
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
