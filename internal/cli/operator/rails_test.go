package operator_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/operatortest"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// twoRails returns a stack with a ledger's rail and another on chain 7, whose token has the same symbol. It has a
// wallet and a payment on each; the second rail's node can be killed.
func twoRails(t *testing.T) (local *deployed.Local, words map[string]string, kill func()) {
	l, tables, node := operatortest.NewLedger(t), memory.NewPayments(), httptest.NewServer(operatortest.WellNode(
		operatortest.Node{"eth_chainId": `"result":"0x7"`, "eth_getTransactionReceipt": `"result":null`, "eth_getLogs": `"result":[]`,
			"eth_getBlockByNumber 0x2bc": strings.Replace(operatortest.Block("1"), "0x3de", "0x2bc", 1)}))
	t.Cleanup(node.Close)
	config := stack.Config{ChainID: l.Chain.ID(), Token: l.Chain.Token(), Network: "local", ConfirmationRule: chain.ConfirmationRule{Depth: 1},
		BlockTime: time.Second, Own: stack.Own{Window: 16, FeeLimit: operatortest.Fees.Cap}}
	other := settings.Rail{ChainID: 7, Token: token.Token{Contract: token.Address{7},
		Symbol: config.Token.Symbol, Decimals: 6}, Network: "seven", Confirmation: "finalized"}
	l.Fill(tables, l.Payments)
	for a, next := range l.Nonces {
		must.OK(t, tables.Open(t.Context(), wallet.Wallet{ID: wallet.ID{ChainID: config.ChainID, Address: a}, NextNonce: next, Ceiling: next + 64,
			Balance: token.Units(1e6), Gas: token.Units(1e18)}, config.Token.Contract))
	}
	for _, r := range []settings.Rail{{ChainID: config.ChainID, Token: config.Token, Network: "local"}, other} {
		must.OK(t, tables.SetSettings(t.Context(), settings.Default(r)))
	}
	second := wallet.ID{ChainID: 7, Address: token.Address{0x99}}
	must.OK(t, tables.Register(t.Context(), wallet.Registration{ID: second, Token: other.Token.Contract, State: wallet.Active}))
	must.OK(t, tables.Open(t.Context(), wallet.Wallet{ID: second}, other.Token.Contract))
	r := payment.Request{Merchant: "mer_1", Mode: "test", IdempotencyKey: "seven", Asset: other.Coin(),
		To: operatortest.Payee, Amount: token.Units(8)}
	p := payment.New(payment.KeyID("mer_1", "test", "seven"), r, other.Token, "seven", operatortest.Nine).
		AssignedTo(second.Address, chain.Tx{ChainID: 7, To: other.Token.Contract, Data: chain.TransferData(r.To, r.Amount)})
	_, _, err := tables.Create(t.Context(), p)
	must.OK(t, err)
	must.OK(t, tables.Commit(t.Context(), must.Get(p.Commit(chain.Signed{Hash: chain.Hash{7}, Raw: []byte{1}}, operatortest.Nine))(t)))
	return &deployed.Local{Tables: deployed.Tables{Payments: tables, AuditLog: tables, Webhooks: memory.NewWebhooks(),
			Keys: new(memory.APIKeys)},
			Config: config, Nodes: map[uint64][]string{config.ChainID: l.URLs, 7: {node.URL}},
			Hint:  func(context.Context) error { return errors.New("no run") },
			Keyed: func() map[token.Address]token.Coin { return nil }},
		map[string]string{"one": l.Keys[0].Address().String(), "two": second.Address.String(), "payee": operatortest.Payee.String(),
			"asset": config.Coin().String(), "other": other.Coin().String(), "payment": string(p.ID)}, node.Close
}

// TestRails runs commands for a stack with two rails one after another. Then the second one's nodes are gone.
func TestRails(t *testing.T) {
	local, words, kill := twoRails(t)
	tabletest.Run(t, words, func(t *testing.T, c tabletest.Case) {
		line := c.In[0]
		if after, dead := strings.CutPrefix(line, "dead: "); dead {
			kill()
			line = after
		}
		out, err := operatortest.Local(t.Context(), local, strings.Fields(line)...)
		for want := range strings.SplitSeq(c.Want, " & ") {
			got := out
			if text, refused := strings.CutPrefix(want, "!"); refused {
				got, want = fmt.Sprint(err), text
			} else if !strings.Contains(c.Want, "!") && err != nil {
				t.Error(err)
			}
			if text, absent := strings.CutPrefix(want, "not "); strings.Contains(got, text) == absent {
				t.Errorf("remit %s: %q, %v; want %q", line, out, err, want)
			}
		}
	})
}
