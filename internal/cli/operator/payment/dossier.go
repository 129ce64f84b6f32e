package payment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/cli/operator/deployed"
	deliveries "github.com/remit-payouts/remit/internal/cli/operator/webhook"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// A dossier is everything that tables and nodes have about one payment.
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

// of returns a payment's data in the tables.
func of(ctx context.Context, d *deployed.Deployment, p payment.Payment) (dossier, error) {
	dos := dossier{Row: RowOf(p), State: p.State, Nonce: p.Nonce, Attempts: []attempt{}, Chain: []string{}}
	for _, a := range p.Attempts {
		dos.Attempts = append(dos.Attempts,
			attempt{a.Hash, a.Fees.Tip.String(), a.Fees.Cap.String(), deployed.Stamp(a.At), a.Noop})
	}
	return dos, errors.Join(dos.addWallet(ctx, d, p), dos.addDeliveries(ctx, d, p))
}

func (dos *dossier) addWallet(ctx context.Context, d *deployed.Deployment, p payment.Payment) error {
	id := wallet.ID{ChainID: p.Tx.ChainID, Address: p.Wallet}
	w, err := d.Payments.Wallet(ctx, id)
	if errors.Is(err, wallet.ErrUnknown) {
		return nil // stored, and no nonce was taken yet
	}
	if err != nil {
		return err
	}
	dos.Progress = w.ProgressOf(p)
	if held, ok := w.Reservations[p.ID]; ok {
		dos.Reserve = &reservation{held.Nonce, deployed.Stamp(held.At)}
	}
	if !p.State.Signed() {
		return nil
	}
	pendingTx, err := d.Payments.PendingTx(ctx, id, p.Nonce)
	dos.PendingTx = err == nil && pendingTx.Payment == p.ID
	if errors.Is(err, wallet.ErrUnknown) {
		return nil
	}
	return err
}

func (dos *dossier) addDeliveries(ctx context.Context, d *deployed.Deployment, p payment.Payment) error {
	var ours []webhook.Delivery
	if p.Event != nil && p.Merchant != "" {
		endpoints, err := d.Webhooks.Endpoints(ctx, d.Owner(p.Merchant))
		if err != nil {
			return err
		}
		for _, e := range endpoints {
			sent, err := d.Webhooks.Deliveries(ctx, e.Owner, e.ID, p.UpdatedAt.Add(-time.Minute), time.Time{}, 1000)
			if err != nil {
				return err
			}
			ours = append(ours, slices.DeleteFunc(sent, func(s webhook.Delivery) bool { return s.Event.ID != p.Event.ID })...)
		}
	}
	dos.Deliveries, _ = deliveries.Deliveries(ours)
	return nil
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
