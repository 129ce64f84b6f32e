package dynamo

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"

	"remit/internal/chain"
	"remit/internal/payment"
	"remit/internal/store"
	"remit/internal/wallet"
)

// pendingTxItem is the item of a pending transaction. Fields may be added, but
// none changes its meaning: old items stay readable.
type pendingTxItem struct {
	PK        string   `dynamodbav:"pk"`
	SK        string   `dynamodbav:"sk"`
	Nonce     *uint64  `dynamodbav:"nonce"`
	PaymentID string   `dynamodbav:"payment_id,omitempty"` // absent for a no-op
	Hashes    []string `dynamodbav:"hashes"`               // every attempt's, oldest first
	Raw       []byte   `dynamodbav:"raw_bytes"`            // the newest attempt
	Tip       string   `dynamodbav:"tip"`
	Cap       string   `dynamodbav:"fee_cap"`
	At        string   `dynamodbav:"signed_at"`
	Since     string   `dynamodbav:"since"` // when the first attempt was signed
	Token     string   `dynamodbav:"token_held"`
	Gas       string   `dynamodbav:"gas_held"` // wei
}

func encodePendingTx(tx wallet.PendingTx) (attributes, error) {
	hashes := make([]string, len(tx.Hashes))
	for i, h := range tx.Hashes {
		hashes[i] = h.String()
	}
	item, err := attributevalue.MarshalMap(pendingTxItem{
		PK: walletPK(tx.ChainID, tx.Address.String()), SK: pendingTxSK(tx.Nonce),
		Nonce: &tx.Nonce, PaymentID: string(tx.Payment), Hashes: hashes, Raw: tx.Raw,
		Tip: tx.Fees.Tip.String(), Cap: tx.Fees.Cap.String(), At: instantText(tx.At), Since: instantText(tx.Since),
		Token: tx.Amount.String(), Gas: tx.Gas.String(),
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the pending transaction at %s: %w", placeOf(tx.ID, tx.Nonce), err)
	}
	return item, nil
}

// decodePendingTx reads a stored pending transaction of wallet id, or returns
// store.ErrUnreadable.
func decodePendingTx(id wallet.ID, item attributes) (wallet.PendingTx, error) {
	var it pendingTxItem
	if err := attributevalue.UnmarshalMap(item, &it); err != nil {
		return wallet.PendingTx{}, fmt.Errorf("%w: %w", store.ErrUnreadable, err)
	}
	var r reader
	tx := wallet.PendingTx{
		ID: id, Payment: payment.ID(it.PaymentID), Raw: it.Raw, At: r.instant("signed_at", it.At), Since: r.instant("since", it.Since),
		Fees:   chain.Fees{Tip: r.amount("tip", it.Tip), Cap: r.amount("fee_cap", it.Cap)},
		Amount: r.amount("token_held", it.Token), Gas: r.amount("gas_held", it.Gas),
	}
	if it.Nonce != nil {
		tx.Nonce = *it.Nonce
	}
	for _, h := range it.Hashes {
		tx.Hashes = append(tx.Hashes, r.hash("hashes", h))
	}
	r.require("nonce", it.Nonce != nil && pendingTxSK(tx.Nonce) == it.SK)
	r.require("hashes", len(tx.Hashes) > 0)
	r.require("raw_bytes", len(tx.Raw) > 0)
	if err := r.err(); err != nil {
		return wallet.PendingTx{}, fmt.Errorf("%w: %s of %s: %w", store.ErrUnreadable, it.SK, id.Address, err)
	}
	return tx, nil
}

// placeOf names a nonce in errors.
func placeOf(id wallet.ID, nonce uint64) string {
	return fmt.Sprintf("nonce %d of %s", nonce, id.Address)
}
