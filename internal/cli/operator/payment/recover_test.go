package payment_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/keyring"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/operatortest"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// TestRecoverHoldsEveryRail before it runs any, also one without nodes, and registers each key on its own rail.
func TestRecoverHoldsEveryRail(t *testing.T) {
	l := operatortest.NewLedger(t)
	tables := memory.NewPayments()
	l.Fill(tables, l.Payments)
	config := stack.Config{ChainID: l.Chain.ID(), Token: l.Chain.Token(), Network: "devnet",
		ConfirmationRule: chain.ConfirmationRule{Depth: 1}, Own: stack.Own{Window: 16}}
	other := settings.Rail{ChainID: 7, Token: token.Token{Contract: token.Address{7}, Symbol: "X", Decimals: 2}, Network: "seven"}
	for _, r := range []settings.Rail{{ChainID: config.ChainID, Token: config.Token, Network: "devnet"}, other} {
		must.OK(t, tables.SetSettings(t.Context(), settings.Default(r)))
	}
	id := wallet.ID{ChainID: 7, Address: token.Address{9}}
	keyed := map[token.Address]token.Coin{id.Address: other.Coin()}
	noKey := func(context.Context) (keyring.Key, error) { return keyring.Key{}, errors.New("no key is read") }
	local := &deployed.Local{Tables: deployed.Tables{Payments: tables, AuditLog: tables, Keys: new(memory.APIKeys)},
		Config: config, Nodes: map[uint64][]string{config.ChainID: l.URLs},
		Keyed: func() map[token.Address]token.Coin { return keyed },
		Key:   func(token.Address) keyring.Read { return noKey }}
	for key, required := range map[string]bool{"waits for approval": true, "is scheduled": false} {
		p := proposal.New(proposal.Proposal{Required: required, Life: time.Hour, NotBefore: time.Now().Add(time.Hour)},
			payment.Request{Merchant: "mer_1", Mode: "test", IdempotencyKey: key,
				To: token.Address{1}, Amount: token.Units(5)}, config.Token, config.ChainID, "devnet", time.Now())
		must.Get(tables.Propose(t.Context(), p))(t)
	}
	out, err := operatortest.Local(t.Context(), local, "proposals")
	if !strings.Contains(out, "  scheduled ") || strings.Count(out, "prp_") != 1 {
		t.Errorf("what a run would release: %v\n%s", err, out)
	}
	terminal, file := os.Stderr, filepath.Join(t.TempDir(), "terminal")
	os.Stderr = must.Get(os.Create(file))(t)
	_, err = operatortest.Local(t.Context(), local, "recover", "--rail", "usdc@devnet", "--yes")
	os.Stderr = terminal
	if said := string(must.Get(os.ReadFile(file))(t)); !strings.HasPrefix(said, "x@seven on chain 7: "+id.Address.String()) {
		t.Errorf("the rail is not named: %s", said)
	}
	if w, unread := tables.Wallet(t.Context(), id); err == nil || unread != nil || !w.Suspect() {
		t.Errorf("recover of the first rail: %v; the wallet of the second: %+v, %v", err, w, unread)
	}
	for _, r := range []settings.Rail{other, {ChainID: config.ChainID, Token: config.Token}} {
		if _, registered := must.Get(tables.Wallets(t.Context(), r.Coin()))(t).Find(id.Address); registered != (r == other) {
			t.Errorf("rail %d has the wallet: %t", r.ChainID, registered)
		}
	}
	keyed[token.Address{8}] = token.Coin{ChainID: 8}
	_, err = operatortest.Local(t.Context(), local, "recover", "--yes")
	if err == nil || !strings.Contains(err.Error(), "which is no rail yet") {
		t.Errorf("a key of a rail that was lost: %v", err)
	}
}
