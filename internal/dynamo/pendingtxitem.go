package dynamo

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"remit/internal/chain"
	"remit/internal/payment"
	"remit/internal/store"
	"remit/internal/wallet"
)

// pendingTxItem is how a pending transaction lies in the table. Fields may be
// added, but the meaning of a field never changes.
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

func encodePendingTx(n wallet.PendingTx) (map[string]types.AttributeValue, error) {
	hashes := make([]string, len(n.Hashes))
	for i, h := range n.Hashes {
		hashes[i] = h.String()
	}
	item, err := attributevalue.MarshalMap(pendingTxItem{
		PK: walletPK(n.ChainID, n.Address.String()), SK: pendingTxSK(n.Nonce),
		Nonce: &n.Nonce, PaymentID: string(n.Payment), Hashes: hashes, Raw: n.Raw,
		Tip: n.Fees.Tip.String(), Cap: n.Fees.Cap.String(), At: instantText(n.At), Since: instantText(n.Since),
		Token: n.Token.String(), Gas: n.Gas.String(),
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the pending transaction at %s: %w", placeOf(n.ID, n.Nonce), err)
	}
	return item, nil
}

// decodePendingTx reads a stored pending transaction of wallet id, or returns
// store.ErrUnreadable.
func decodePendingTx(id wallet.ID, item map[string]types.AttributeValue) (wallet.PendingTx, error) {
	var it pendingTxItem
	if err := attributevalue.UnmarshalMap(item, &it); err != nil {
		return wallet.PendingTx{}, fmt.Errorf("%w: %w", store.ErrUnreadable, err)
	}
	var r reader
	n := wallet.PendingTx{
		ID: id, Payment: payment.ID(it.PaymentID), Raw: it.Raw, At: r.instant("signed_at", it.At), Since: r.instant("since", it.Since),
		Fees:  chain.Fees{Tip: r.amount("tip", it.Tip), Cap: r.amount("fee_cap", it.Cap)},
		Token: r.amount("token_held", it.Token), Gas: r.amount("gas_held", it.Gas),
	}
	if it.Nonce != nil {
		n.Nonce = *it.Nonce
	}
	for _, h := range it.Hashes {
		n.Hashes = append(n.Hashes, r.hash("hashes", h))
	}
	r.require("nonce", it.Nonce != nil && pendingTxSK(n.Nonce) == it.SK)
	r.require("hashes", len(n.Hashes) > 0)
	r.require("raw_bytes", len(n.Raw) > 0)
	if err := r.err(); err != nil {
		return wallet.PendingTx{}, fmt.Errorf("%w: %s of %s: %w", store.ErrUnreadable, it.SK, id.Address, err)
	}
	return n, nil
}

// placeOf names a nonce in errors.
func placeOf(id wallet.ID, nonce uint64) string {
	return fmt.Sprintf("nonce %d of %s", nonce, id.Address)
}
