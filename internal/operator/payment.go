package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"remit/internal/chain"
	"remit/internal/payment"
	"remit/internal/store"
	"remit/internal/wallet"
	"remit/internal/webhook"
)

// Payment is `remit payment`.
type Payment struct {
	Show   paymentShow   `cmd:"" help:"Show everything known of a payment: attempts, nonce, pending transaction, deliveries, what the chain says."`
	Redact paymentRedact `cmd:"" help:"Erase the reference and the metadata of a payment that has ended."`
}

// A paymentName is how a person names a payment.
type paymentName struct {
	Target
	What     string `arg:"" help:"A transaction hash, a payment id (pay_…), or an Idempotency-Key."`
	Merchant string `help:"Whose Idempotency-Key it is, mer_…"`
}

type paymentShow struct{ paymentName }

type paymentRedact struct {
	paymentName
	Yes bool `help:"Do not ask."`
}

// Run erases a payment's words, once its event is published: until then the event
// may be published again, in the same bytes. It may be run again.
func (c *paymentRedact) Run(ctx context.Context, d *deployment) error {
	store, err := d.payments()
	if err != nil {
		return err
	}
	p, err := c.find(ctx, d, store)
	if err != nil {
		return err
	}
	bare, err := p.Redacted()
	if err != nil {
		return err
	}
	var now dossier
	if err := d.addWallet(ctx, store, p, &now); err != nil {
		return err
	}
	if now.PendingTx {
		return fmt.Errorf("the end of %s is not published yet: try again in a minute", p.ID)
	}
	if err := d.agree(c.Yes, fmt.Sprintf("The reference and the metadata of %s are erased. This cannot be undone. Amount, "+
		"recipient, Idempotency-Key and hashes stay: they keep it from being paid twice.\n"+
		"Copies stay with the merchant, in the log of its webhooks, whose messages keep the bytes that were signed, and in backups of "+
		"the tables.", p.ID)); err != nil {
		return err
	}
	if err := store.Redact(ctx, bare); err != nil {
		return err
	}
	return d.show(map[string]any{"id": p.ID, "redacted": true}, fmt.Sprint(p.ID, " has neither reference nor metadata"))
}

// A dossier is all that the tables and the nodes tell of one payment.
type dossier struct {
	ID         payment.ID      `json:"id"`
	State      payment.State   `json:"state"`
	Merchant   string          `json:"merchant_id"`
	Key        string          `json:"idempotency_key"`
	Payment    payment.Public  `json:"payment"`
	Wallet     string          `json:"wallet"`
	Nonce      uint64          `json:"nonce"`
	Attempts   []attemptRow    `json:"attempts"`
	Reserve    *reservationRow `json:"reservation"`
	PendingTx  bool            `json:"pending_tx_stored"`
	Deliveries []deliveryRow   `json:"deliveries"`
	Chain      []string        `json:"chain"`
}

type attemptRow struct {
	Hash chain.Hash `json:"hash"`
	Tip  string     `json:"tip_wei"`
	Cap  string     `json:"cap_wei"`
	At   stamp      `json:"at"`
	Noop bool       `json:"pays_nothing,omitempty"`
}

type reservationRow struct {
	Nonce uint64 `json:"nonce"`
	At    stamp  `json:"at"`
}

// Run gathers the dossier.
func (c *paymentShow) Run(ctx context.Context, d *deployment) error {
	store, err := d.payments()
	if err != nil {
		return err
	}
	p, err := c.find(ctx, d, store)
	if err != nil {
		return err
	}
	dos := dossier{ID: p.ID, State: p.State, Merchant: p.Merchant, Key: p.IdempotencyKey, Payment: p.Public(), Wallet: p.Wallet.String(),
		Nonce:    p.Nonce,
		Attempts: []attemptRow{}, Deliveries: []deliveryRow{}, Chain: []string{}}
	for _, a := range p.Attempts {
		dos.Attempts = append(dos.Attempts, attemptRow{a.Hash, a.Fees.Tip.String(), a.Fees.Cap.String(), stamp(a.At), a.Noop})
	}
	if err := d.addWallet(ctx, store, p, &dos); err != nil {
		return err
	}
	if err := d.addDeliveries(ctx, p, &dos); err != nil {
		return err
	}
	d.addChain(ctx, p, &dos)
	return d.show(dos, dos.text(p))
}

func (c *paymentName) find(ctx context.Context, d *deployment, store store.Store) (payment.Payment, error) {
	if strings.HasPrefix(c.What, "pay_") {
		return store.Payment(ctx, payment.ID(c.What))
	}
	if hash, err := chain.ParseHash(c.What); err == nil {
		return store.PaymentByHash(ctx, hash)
	}
	if c.Merchant == "" && strings.HasPrefix(c.What, "0x") {
		return payment.Payment{}, fmt.Errorf("%s is no transaction hash: that is 0x and 64 hex digits", c.What)
	}
	if c.Merchant == "" {
		return payment.Payment{}, errors.New("an Idempotency-Key belongs to a merchant: add --merchant mer_…")
	}
	return store.Payment(ctx, payment.KeyID(c.Merchant, d.mode, c.What))
}

func (d *deployment) addWallet(ctx context.Context, store store.Store, p payment.Payment, dos *dossier) error {
	id := wallet.ID{ChainID: p.Tx.ChainID, Address: p.Wallet}
	w, err := store.Wallet(ctx, id)
	if errors.Is(err, wallet.ErrUnknown) {
		return nil // stored, and no nonce was taken yet
	}
	if err != nil {
		return err
	}
	if reservation, ok := w.Reservations[p.ID]; ok {
		dos.Reserve = &reservationRow{reservation.Nonce, stamp(reservation.At)}
	}
	if p.State == payment.Prepared {
		return nil
	}
	pendingTx, err := store.PendingTx(ctx, id, p.Nonce)
	dos.PendingTx = err == nil && pendingTx.Payment == p.ID
	if errors.Is(err, wallet.ErrUnknown) {
		return nil
	}
	return err
}

func (d *deployment) addDeliveries(ctx context.Context, p payment.Payment, dos *dossier) error {
	if p.Event == nil || p.Merchant == "" {
		return nil
	}
	hooks, err := d.webhooks()
	if err != nil {
		return err
	}
	endpoints, err := hooks.Endpoints(ctx, d.owner(p.Merchant))
	if err != nil {
		return err
	}
	for _, e := range endpoints {
		sent, err := hooks.Deliveries(ctx, e.Owner, e.ID, p.UpdatedAt.Add(-time.Minute), time.Time{}, 1000)
		if err != nil {
			return err
		}
		ours := slices.DeleteFunc(sent, func(s webhook.Delivery) bool { return s.Event.ID != p.Event.ID })
		dos.Deliveries = append(dos.Deliveries, rowsOf(ours)...)
	}
	return nil
}

// addChain asks every node for every attempt. The error of a node that is down is
// part of the dossier.
func (d *deployment) addChain(ctx context.Context, p payment.Payment, dos *dossier) {
	nodes, _, err := d.nodes(ctx)
	if err != nil {
		dos.Chain = append(dos.Chain, err.Error())
		return
	}
	for _, node := range nodes {
		receipts, err := node.Receipts(ctx, p.Hashes())
		if err != nil {
			dos.Chain = append(dos.Chain, fmt.Sprintf("%s: %v", node, err))
			continue
		}
		if len(receipts) == 0 {
			dos.Chain = append(dos.Chain, fmt.Sprintf("%s: no receipt", node))
		}
		for _, r := range receipts {
			dos.Chain = append(dos.Chain, fmt.Sprintf("%s: %s mined in block %d, %s", node, r.Tx, r.Block, p.Judge(r)))
		}
	}
}

func (dos dossier) text(p payment.Payment) string {
	var b strings.Builder
	row := func(name string, v any) { fmt.Fprintf(&b, "%-16s %v\n", name, v) }
	row("payment", p.ID)
	row("state", p.State)
	row("merchant", p.Merchant)
	row("key", p.IdempotencyKey)
	row("amount", p.Amount.Tokens(p.Token.Decimals)+" "+p.Token.Symbol)
	row("to", payee(p))
	for i, e := range p.Entries {
		row(fmt.Sprintf("entry %d", i), fmt.Sprintf("%s %s to %s %q", e.Amount.Tokens(p.Token.Decimals), p.Token.Symbol, e.To, e.Reference))
	}
	row("from wallet", p.Wallet)
	if !p.Source.IsZero() {
		row("with coins of", p.Source)
	}
	row("created", stamp(p.CreatedAt))
	if p.Failure != nil {
		row("failure", string(p.Failure.Code)+": "+p.Failure.Message)
	}
	if dos.Reserve != nil {
		row("reservation", fmt.Sprintf("nonce %d since %s", dos.Reserve.Nonce, dos.Reserve.At))
	}
	if p.State != payment.Prepared {
		row("nonce", p.Nonce)
		row("pending tx", map[bool]string{true: "stored: it is sent until it is mined and announced",
			false: "gone: settled and announced"}[dos.PendingTx])
	}
	for i, a := range slices.Backward(dos.Attempts) {
		what := map[bool]string{true: ", pays nothing"}[a.Noop]
		row(fmt.Sprintf("attempt %d", i+1), fmt.Sprintf("%s tip %s cap %s wei, %s%s", a.Hash, a.Tip, a.Cap, a.At, what))
	}
	for _, line := range dos.Chain {
		row("chain", line)
	}
	for _, del := range dos.Deliveries {
		row("delivery", fmt.Sprintf("%s to %s: %s, %d attempts", del.ID, del.Endpoint, del.Status, len(del.Attempts)))
	}
	return b.String()
}
