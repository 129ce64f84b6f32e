package dynamo

import (
	"context"
	"fmt"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// Commit implements store.PendingTxs with one transaction: the payment, its pending transaction, its hash, and its
// place among those of its reference, if it has one. The payment's revision goes: no condition compares it any more. A
// caller that repeats Commit after a lost answer gets ErrChanged and reads the payment again.
func (s *Payments) Commit(ctx context.Context, p payment.Payment) error {
	c := change{
		fits: store.FitsPayment(p), key: paymentKey(p.ID),
		still: args{attrState: payment.Prepared, "revision": p.Revision},
		set:   pick(listed(p), attrState, "nonce", "tx_hash", "version", "updated_at", attrListPK, attrListSK, "wallet_of"),
	}
	c.set["attempts"], c.set["revision"] = encodeAttempt(p.LastAttempt()), nil
	return s.transact(ctx, "committing "+string(p.ID), append([]write{
		{c, is(store.ErrChanged)},
		{create(encodePendingTx(store.PendingTxOf(p)), nil), is(store.ErrNonceTaken)},
		putHash(p.TxHash, p.ID),
	}, putReference(p)...)...)
}

func putReference(p payment.Payment) []write {
	if p.Reference == "" {
		return nil
	}
	return []write{{change{item: referenceKey(p)}, nil}}
}

func (s *Payments) AddAttempt(ctx context.Context, p payment.Payment) error {
	tx := store.PendingTxOf(p)
	earlier := tx.Hashes[:len(tx.Hashes)-1]
	c := change{
		fits: store.FitsPayment(p), key: paymentKey(p.ID), still: args{attrState: payment.Committed},
		do: "SET attempts = list_append(attempts, :attempt)", when: "size(attempts) = :count", // none ever goes
		values: args{":attempt": encodeAttempt(p.LastAttempt()), ":count": len(earlier)},
	}
	if last := len(earlier) - 1; last >= 0 {
		c.when, c.values[":last"] = c.when+fmt.Sprintf(" AND attempts[%d].#hash = :last", last), text(earlier[last].String())
	}
	return s.transact(ctx, "adding an attempt to "+string(p.ID), write{c, is(store.ErrChanged)}, bumpPendingTx(tx), putHash(tx.Hash(), p.ID))
}

func (s *Payments) PutNoop(ctx context.Context, tx wallet.PendingTx) error {
	return s.transact(ctx, "putting a no-op at "+placeOf(tx.ID, tx.Nonce),
		write{create(encodePendingTx(tx), store.FitsTx(tx)), is(store.ErrNonceTaken)}, putHash(tx.Hash(), tx.Payment))
}

func (s *Payments) BumpNoop(ctx context.Context, tx wallet.PendingTx) error {
	return s.transact(ctx, "bumping the no-op at "+placeOf(tx.ID, tx.Nonce), bumpPendingTx(tx), putHash(tx.Hash(), tx.Payment))
}

// putHash makes a hash lead to a payment, or to none for a no-op, whose id is
// empty. It needs no condition: the same bytes always lead to the same payment.
func putHash(hash chain.Hash, id payment.ID) write {
	item := txKey(hash.String())
	if id != "" {
		item["payment_id"] = text(id)
	}
	return write{change{item: item}, nil}
}

// bumpPendingTx sets the newest attempt of tx if the stored pending transaction
// has exactly the attempts before it, or it too, else it is refused with ErrChanged.
func bumpPendingTx(tx wallet.PendingTx) write {
	return write{change{
		fits: store.FitsTx(tx), key: pendingTxKey(tx.ID, tx.Nonce), still: args{"payment_id": orNone(tx.Payment)},
		when:   "#hashes IN (:earlier, :all)",
		values: args{":earlier": encodeValue(texts(tx.Hashes[:len(tx.Hashes)-1])), ":all": encodeValue(texts(tx.Hashes))},
		set:    pick(encodePendingTx(tx), "hashes", "raw_bytes", "tip", "fee_cap", "signed_at", "token_held", "gas_held", "has_noop"),
	}, is(store.ErrChanged)}
}

func (s *Payments) PendingTxs(ctx context.Context, id wallet.ID, from uint64) (txs []wallet.PendingTx, unreadable int, err error) {
	txs = []wallet.PendingTx{}
	reading := "reading the pending transactions of " + id.Address.String()
	for item, err := range s.partition(ctx, reading, walletPK(id), pendingTxSK(from), pendingTxPrefix+"~") {
		if err != nil {
			return nil, 0, err
		}
		tx, err := decodePendingTx(id)(item)
		if err != nil {
			unreadable++
			continue
		}
		txs = append(txs, tx)
	}
	return txs, unreadable, nil
}

func (s *Payments) PendingTx(ctx context.Context, id wallet.ID, nonce uint64) (wallet.PendingTx, error) {
	return get(ctx, s.table, pendingTxKey(id, nonce), "the pending transaction at "+placeOf(id, nonce), wallet.ErrUnknown, decodePendingTx(id))
}

func (s *Payments) DeletePendingTx(ctx context.Context, id wallet.ID, nonce uint64) error {
	return s.make(ctx, change{key: pendingTxKey(id, nonce), gone: true}, nil, "deleting the pending transaction at "+placeOf(id, nonce))
}

type pendingTxItem struct {
	PK        string    `dynamodbav:"pk"`
	SK        string    `dynamodbav:"sk"`
	Nonce     *uint64   `dynamodbav:"nonce"`
	PaymentID string    `dynamodbav:"payment_id,omitempty"` // absent for a no-op
	Merchant  string    `dynamodbav:"merchant_id,omitempty"`
	Hashes    []string  `dynamodbav:"hashes"`    // every attempt's, oldest first
	Raw       []byte    `dynamodbav:"raw_bytes"` // the newest attempt
	Tip       string    `dynamodbav:"tip"`
	Cap       string    `dynamodbav:"fee_cap"`
	At        time.Time `dynamodbav:"signed_at"`
	Since     time.Time `dynamodbav:"since"` // when the first attempt was signed
	Token     string    `dynamodbav:"token_held"`
	Gas       string    `dynamodbav:"gas_held"` // wei
	HasNoop   bool      `dynamodbav:"has_noop,omitempty"`
}

func encodePendingTx(tx wallet.PendingTx) attributes {
	return encode(pendingTxItem{
		PK: walletPK(tx.ID), SK: pendingTxSK(tx.Nonce),
		Nonce: &tx.Nonce, PaymentID: string(tx.Payment), Hashes: texts(tx.Hashes), Raw: append([]byte{}, tx.Raw...),
		Tip: tx.Fees.Tip.String(), Cap: tx.Fees.Cap.String(), At: tx.At, Since: tx.Since,
		Token: tx.Amount.String(), Gas: tx.Gas.String(), Merchant: tx.Merchant, HasNoop: tx.HasNoop,
	})
}

// decodePendingTx returns the decoder of pending transactions of wallet id, whose errors are store.ErrUnreadable.
func decodePendingTx(id wallet.ID) func(attributes) (wallet.PendingTx, error) {
	return func(item attributes) (wallet.PendingTx, error) {
		var it pendingTxItem
		r := read(item, &it)
		tx := wallet.PendingTx{
			ID: id, Payment: payment.ID(it.PaymentID), Merchant: it.Merchant, Raw: it.Raw,
			At: it.At, Since: it.Since,
			Fees:   chain.Fees{Tip: r.amount("tip", it.Tip), Cap: r.amount("fee_cap", it.Cap)},
			Amount: r.amount("token_held", it.Token), Gas: r.amount("gas_held", it.Gas), HasNoop: it.HasNoop,
		}
		if it.Nonce != nil {
			tx.Nonce = *it.Nonce
		}
		for _, h := range it.Hashes {
			tx.Hashes = append(tx.Hashes, r.hash("hashes", h))
		}
		r.require("nonce", it.Nonce != nil && pendingTxSK(tx.Nonce) == it.SK)
		r.require("hashes", len(tx.Hashes) > 0)
		r.require("raw_bytes", tx.Raw != nil)
		return readable(r, tx, it.SK+" of "+id.Address.String())
	}
}

func placeOf(id wallet.ID, nonce uint64) string {
	return fmt.Sprintf("nonce %d of %s", nonce, id.Address)
}
