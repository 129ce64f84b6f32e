package operatortest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/deployment/stack"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/ethrpc"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/keyring"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/sandbox/devnet"
	"github.com/remit-payouts/remit/internal/sandbox/memory"
)

// A Ledger is a stack on a chain of its own: payments from its two wallets, and tables, made anew for each audit.
type Ledger struct {
	*testing.T
	Chain    *devnet.Chain
	Node     *ethrpc.Node
	URLs     []string // of the nodes
	Keys     []keyring.Key
	Nonces   map[token.Address]uint64
	Payments []payment.Payment
	Noops    []wallet.PendingTx
}

// The common parts of a ledger's payments: fees, a recipient, and the time of the first.
var (
	Fees  = chain.Fees{Tip: token.Units(1_000_000_000), Cap: token.Units(20_000_000_000)}
	Payee = token.Address{0: 0x11, 19: 0x11}
	Nine  = time.Date(2026, 1, 2, 9, 0, 0, 0, time.UTC)
)

// NewLedger returns a Ledger with payments that ended in each way, a no-op, and one that is mined and not settled.
func NewLedger(t *testing.T) *Ledger {
	t.Helper()
	now := Nine
	config := devnet.Config{Listen: "127.0.0.1:0", Wallets: 2, Now: func() time.Time { return now }}
	c := must.Get(devnet.Start(t.Context(), config))(t)
	l := &Ledger{T: t, Chain: c, Nonces: map[token.Address]uint64{}}
	t.Cleanup(func() { must.OK(l, c.Close()) })
	l.Node = must.Get(ethrpc.Open(c.URL(), ethrpc.Config{ChainID: c.ID()}))(l)
	l.URLs = []string{c.URL()}
	for _, w := range c.Wallets() {
		l.Keys = append(l.Keys, must.Get(keyring.ParseKey(w.PrivateKey()))(l))
	}
	must.OK(l, c.Own("blacklist", token.Address{0xbb}))
	l.Pay(0, Payee, 5, true)
	l.Pay(1, Payee, 6, true)
	l.Pay(0, token.Address{0xbb}, 7, true) // reverts
	noop := chain.Noop(c.ID(), l.Keys[0].Address(), Fees)
	signed := l.Mine(0, noop)
	l.Noops = append(l.Noops, wallet.PendingTx{ID: wallet.ID{ChainID: c.ID(), Address: noop.To}, Nonce: signed.Nonce,
		Hashes: []chain.Hash{signed.Hash}, Raw: signed.Raw, Fees: Fees})
	now = now.AddDate(0, 0, 1)
	l.Pay(0, Payee, 1_500_000, true)
	l.Pay(1, Payee, 9, false)
	return l
}

// Mine signs a transaction with a wallet's key and puts it into a block.
func (l *Ledger) Mine(from int, tx chain.Tx) chain.Signed {
	l.Helper()
	key := l.Keys[from]
	signed := must.Get(key.Sign(context.Background(), tx, l.Nonces[key.Address()]))(l)
	l.Nonces[key.Address()]++
	must.OK(l, l.Chain.MineExactly(signed.Raw))
	return signed
}

// Transfer is a transfer of the token.
func (l *Ledger) Transfer(to token.Address, units uint64) chain.Tx {
	return chain.Tx{ChainID: l.Chain.ID(), To: l.Chain.Token().Contract,
		Data: chain.TransferData(to, token.Units(units)), Gas: 100_000, Fees: Fees}
}

// Pay makes a payment, and settles it if it is to be.
func (l *Ledger) Pay(from int, to token.Address, units uint64, settled bool) {
	l.Helper()
	key := fmt.Sprint("order-", len(l.Payments))
	r := payment.Request{Merchant: "mer_1", Mode: "test", IdempotencyKey: key, To: to, Amount: token.Units(units), Reference: "=1+1\x1b[2J"}
	at := Nine.Add(time.Duration(len(l.Payments)) * 24 * time.Hour)
	l.Enter(from, payment.New(payment.KeyID("mer_1", "test", key), r, l.Chain.Token(), "local",
		at).AssignedTo(l.Keys[from].Address(), l.Transfer(to, units)), settled)
}

// Move makes an operator's transfer between wallets.
func (l *Ledger) Move(from, to int, coin token.Token, units uint64) {
	l.Helper()
	r := payment.Request{Merchant: payment.Operator, Mode: "test", IdempotencyKey: coin.Symbol,
		To: l.Keys[to].Address(), Amount: token.Units(units)}
	p := payment.New(payment.KeyID(r.Merchant, r.Mode, r.IdempotencyKey), r, coin, "local", Nine)
	tx := l.Transfer(r.To, units)
	if p.Ether() {
		tx.To, tx.Value, tx.Data = r.To, r.Amount, nil
	}
	l.Enter(from, p.AssignedTo(l.Keys[from].Address(), tx), true)
}

// Enter has the chain make p, and the tables settle it if they are to.
func (l *Ledger) Enter(from int, p payment.Payment, settled bool) {
	l.Helper()
	at := p.CreatedAt
	p = must.Get(p.Commit(l.Mine(from, p.Tx), at))(l)
	if settled {
		receipts := must.Get(l.Node.Receipts(l.Context(), p.Hashes()))(l)
		if receipts[0].Succeeded {
			p = must.Get(p.Confirm(receipts[0], at))(l)
		} else {
			p = must.Get(p.Fail(payment.ExecutionReverted, receipts[0], at))(l)
		}
	}
	l.Payments = append(l.Payments, p)
}

// Run runs a command against tables that change has changed.
func (l *Ledger) Run(change func([]payment.Payment) []payment.Payment, args ...string) (string, error) {
	l.Helper()
	tables := memory.NewPayments()
	all := slices.Clone(l.Payments)
	if change != nil {
		all = change(all)
	}
	l.Fill(tables, all)
	config := stack.Config{ChainID: l.Chain.ID(), Token: l.Chain.Token(), Own: stack.Own{Window: 16}}
	must.OK(l, tables.SetSettings(l.Context(), settings.Default(railOf(config))))
	return Local(l.Context(), &deployed.Local{
		Tables: deployed.Tables{Payments: tables, Keys: new(memory.APIKeys)},
		Nodes:  map[uint64][]string{l.Chain.ID(): l.URLs}, Config: config,
		Keyed: func() map[token.Address]token.Coin { return nil },
	}, args...)
}

// Fill puts payments, the no-ops and the wallets into tables.
func (l *Ledger) Fill(tables store.Store, all []payment.Payment) {
	l.Helper()
	for _, p := range all {
		prepared := p
		prepared.State, prepared.Attempts = payment.Prepared, nil
		_, _, err := tables.Create(l.Context(), prepared)
		must.OK(l, err)
		committed := p
		committed.State, committed.Version = payment.Committed, 1
		must.OK(l, tables.Commit(l.Context(), committed))
		if p.State.Final() {
			must.OK(l, tables.Finish(l.Context(), p))
		}
	}
	for _, tx := range l.Noops {
		must.OK(l, tables.PutNoop(l.Context(), tx))
	}
	for _, key := range l.Keys {
		must.OK(l, tables.Register(l.Context(), wallet.Registration{ID: wallet.ID{ChainID: l.Chain.ID(),
			Address: key.Address()}, Token: l.Chain.Token().Contract, State: wallet.Active, Key: wallet.InSecret}))
	}
}
