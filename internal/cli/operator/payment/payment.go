// Package payment has the commands that show, redact, export and restore payments.
package payment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/cli/operator/change"
	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	deliveries "github.com/remit-payouts/remit/internal/cli/operator/webhook"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// Commands is `remit payment`.
type Commands struct {
	Show   show                   `cmd:"" help:"Show a payment in full, as JSON." example:"pay_1"`
	Redact change.Command[redact] `cmd:"" help:"Erase a payment's reference and metadata." example:"pay_1"`
}

type name struct {
	What     string `arg:"" help:"A transaction hash, a payment id (pay_…), or an Idempotency-Key."`
	Merchant string `help:"Merchant of the Idempotency-Key, mer_…"`
}

func (c name) find(ctx context.Context, d *deployed.Deployment) (p payment.Payment, dos dossier, err error) {
	hash, notHash := chain.ParseHash(c.What)
	switch {
	case strings.HasPrefix(c.What, "pay_"):
		p, err = d.Payments.Payment(ctx, payment.ID(c.What))
	case notHash == nil:
		p, err = d.Payments.PaymentByHash(ctx, hash)
	case c.Merchant == "" && strings.HasPrefix(c.What, "0x"):
		err = fmt.Errorf("%s is not a transaction hash; use 0x and 64 hex digits", c.What)
	case c.Merchant == "":
		err = errors.New("an Idempotency-Key belongs to a merchant; add --merchant mer_…")
	default:
		p, err = d.Payments.Payment(ctx, payment.KeyID(c.Merchant, d.Mode, c.What))
	}
	if err != nil {
		return p, dos, err
	}
	dos = dossier{Row: RowOf(p), State: p.State, Nonce: p.Nonce, Attempts: []attempt{}, Chain: []string{}}
	for _, a := range p.Attempts {
		dos.Attempts = append(dos.Attempts,
			attempt{a.Hash, a.Fees.Tip.String(), a.Fees.Cap.String(), deployed.Stamp(a.At), a.Noop})
	}
	return p, dos, errors.Join(dos.addWallet(ctx, d, p), dos.addDeliveries(ctx, d, p))
}

type redact struct{ name }

// Change erases a payment's reference and metadata once its event, which has them, is published for good.
func (c redact) Change(ctx context.Context, d *deployed.Deployment) (change.Change, error) {
	p, dos, err := c.find(ctx, d)
	bare, unfit := p.Redacted()
	if err = cmp.Or(err, unfit); err == nil && dos.PendingTx {
		err = fmt.Errorf("the outcome of %s is not published yet; try again in a minute", p.ID)
	}
	return change.Write(fmt.Sprintf("The reference and the metadata of %s are erased. This cannot be undone. Amount, "+
		"recipient, Idempotency-Key and hashes stay: they keep it from being paid twice.\nCopies stay with the "+
		"merchant, in the log of its webhooks, whose messages keep the bytes that were signed, and in backups of the "+
		"tables.", p.ID), fmt.Sprint(p.ID, " has neither reference nor metadata"), func(ctx context.Context) error {
		return d.Payments.Redact(ctx, bare)
	}), err
}

type show struct {
	deployed.Target
	name
}

func (c *show) Run(ctx context.Context, d *deployed.Deployment) error {
	p, dos, err := c.find(ctx, d)
	if err != nil {
		return err
	}
	dos.addChain(ctx, d, p)
	d.JSON = true
	return d.Show(dos, "")
}

// Proposals is `remit proposals`.
type Proposals struct {
	deployed.Target
	Merchant string `arg:"" optional:"" help:"Whose, mer_…; without it, all that will be released."`
}

// Run lists a merchant's proposals, the newest first.
func (c *Proposals) Run(ctx context.Context, d *deployed.Deployment) (err error) {
	var all, page []proposal.Proposal
	f := store.ProposalFilter{Merchant: c.Merchant, Mode: d.Mode}
	if c.Merchant == "" {
		all, err = releases(ctx, d, token.Coin{})
	}
	for more := c.Merchant != ""; more && err == nil; more = !f.From.IsZero() {
		page, f.From, err = d.Payments.ListProposals(ctx, f)
		all = append(all, page...)
	}
	if c.Merchant != "" && len(all) == 0 && err == nil {
		_, err = d.KeysOf(ctx, c.Merchant)
	}
	if err != nil {
		return err
	}
	return d.Show(listed(all))
}

func listed(all []proposal.Proposal) (rows []proposal.Public, text string) {
	rows = []proposal.Public{}
	for _, p := range all {
		v, why := p.Public(), ""
		if r := v.Refusal; r != nil && v.Status == proposal.StatusScheduled {
			why = "  " + r.Code
		}
		coin, due := p.Payment.Token, p.DueAt().UTC().Format(time.DateTime)
		rows, text = append(rows, v), text+fmt.Sprintf("%s  %-17s  %s  %s %s  by %s%s\n", v.ID, v.Status, due,
			p.Payment.Amount.Tokens(coin.Decimals), coin.Symbol, v.CreatedBy, why)
	}
	return rows, text
}

// releases returns the proposals of an asset, zero for any, that a run would release now, or once they are due.
func releases(ctx context.Context, d *deployed.Deployment, asset token.Coin) (all []proposal.Proposal, err error) {
	due, err := d.Payments.Due(ctx, time.Now().Add(proposal.MaxAhead+proposal.MaxLife), math.MaxInt32)
	for _, named := range due {
		p, err := d.Payments.Proposal(ctx, named.ID)
		if err != nil && !errors.Is(err, store.ErrNotFound) { // a torn copy may have the place in the list alone
			return nil, err
		}
		state := p.Payment.State
		open := p.Payment.Proposal && !p.Waits() && !state.Signed() && !state.UsedUp()
		if open && (asset == token.Coin{} || asset == p.Payment.Coin()) {
			all = append(all, p)
		}
	}
	return all, err
}

type dossier struct {
	Row
	State      payment.State         `json:"state"`
	Nonce      uint64                `json:"nonce"`
	Attempts   []attempt             `json:"attempts"`
	Reserve    *reservation          `json:"reservation"`
	PendingTx  bool                  `json:"pending_tx_stored"`
	Deliveries []deliveries.Delivery `json:"deliveries"`
	Chain      []string              `json:"chain"`
}

type attempt struct {
	Hash chain.Hash     `json:"hash"`
	Tip  string         `json:"tip_wei"`
	Cap  string         `json:"cap_wei"`
	At   deployed.Stamp `json:"at"`
	Noop bool           `json:"pays_nothing,omitempty"`
}

type reservation struct {
	Nonce uint64         `json:"nonce"`
	At    deployed.Stamp `json:"at"`
}

func (dos *dossier) addWallet(ctx context.Context, d *deployed.Deployment, p payment.Payment) error {
	id := wallet.ID{ChainID: p.Tx.ChainID, Address: p.Wallet}
	w, err := d.Payments.Wallet(ctx, id)
	if err == nil {
		dos.Progress = w.ProgressOf(p)
	}
	if held, ok := w.Reservations[p.ID]; ok {
		dos.Reserve = &reservation{held.Nonce, deployed.Stamp(held.At)}
	}
	if err == nil && p.State.Signed() {
		pendingTx, unread := d.Payments.PendingTx(ctx, id, p.Nonce)
		dos.PendingTx, err = unread == nil && pendingTx.Payment == p.ID, unread
	}
	if errors.Is(err, wallet.ErrUnknown) { // no nonce was taken yet, or its transaction is no longer pending
		return nil
	}
	return err
}

func (dos *dossier) addDeliveries(ctx context.Context, d *deployed.Deployment, p payment.Payment) (err error) {
	var ours []webhook.Delivery
	if p.Event != nil && p.Merchant != "" {
		endpoints, unread := d.Webhooks.Endpoints(ctx, d.Owner(p.Merchant))
		for _, e := range endpoints {
			sent, failed := d.Webhooks.Deliveries(ctx, e.Owner, e.ID, p.UpdatedAt.Add(-time.Minute), time.Time{}, 1000)
			unread = cmp.Or(unread, failed)
			ours = append(ours, slices.DeleteFunc(sent, func(s webhook.Delivery) bool { return s.Event.ID != p.Event.ID })...)
		}
		err = unread
	}
	dos.Deliveries, _ = deliveries.Deliveries(ours)
	return err
}

// addChain asks every node for every attempt. The error of a node that is down is part of the dossier.
func (dos *dossier) addChain(ctx context.Context, d *deployed.Deployment, p payment.Payment) {
	var nodes chain.Nodes
	on, err := d.Of(ctx, p.Wallet)
	if err == nil {
		nodes, err = on.Nodes(ctx)
	}
	if err != nil {
		dos.Chain = append(dos.Chain, err.Error())
	}
	for _, node := range nodes {
		receipts, err := node.Receipts(ctx, p.Hashes())
		switch {
		case err != nil:
			dos.Chain = append(dos.Chain, fmt.Sprintf("%s: %v", node, err))
		case len(receipts) == 0:
			dos.Chain = append(dos.Chain, fmt.Sprintf("%s: no receipt", node))
		}
		for _, r := range receipts {
			dos.Chain = append(dos.Chain, fmt.Sprintf("%s: %s mined in block %d, %s", node, r.Tx, r.Block, p.Judge(r)))
		}
	}
}

// A Row is a payment as operators list it.
type Row struct {
	ID       payment.ID    `json:"id"`
	Merchant string        `json:"merchant_id"`
	Key      string        `json:"idempotency_key"`
	Wallet   token.Address `json:"paid_by"`
	Decimal  string        `json:"amount_decimal"` // in whole tokens
	payment.Public
	WalletOf string `json:"wallet_of"` // the merchant whose wallet that is; empty: a common one
}

// RowOf returns the row of a payment.
func RowOf(p payment.Payment) Row {
	return Row{p.ID, p.Merchant, p.IdempotencyKey, p.Wallet, p.Amount.Tokens(p.Token.Decimals), p.Public(), p.WalletOf}
}

// Payee describes the recipients of a payment.
func Payee(p payment.Payment) string {
	if p.BatchContract.IsZero() {
		return p.To.String()
	}
	return fmt.Sprintf("%d recipients", len(p.Entries))
}
