package dynamo

import (
	"cmp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
)

// Amounts of a paymentItem are decimal text, since a DynamoDB number ends at 38 digits. The recipient and the call
// data of the transaction are not stored: they follow from the token, the request and memo.
type paymentItem struct {
	PK          string            `dynamodbav:"pk"`
	SK          string            `dynamodbav:"sk"`
	MerchantID  string            `dynamodbav:"merchant_id"`
	Mode        string            `dynamodbav:"mode"`
	Key         string            `dynamodbav:"idempotency_key,omitempty"`
	Fingerprint string            `dynamodbav:"fingerprint"`
	To          string            `dynamodbav:"to"`
	Amount      string            `dynamodbav:"amount"`
	Entries     []byte            `dynamodbav:"entries,omitempty"`        // of several: 32 bytes each, as in call data
	References  []string          `dynamodbav:"references,omitempty"`     // of a batch's entries, "" for none
	BatchBy     string            `dynamodbav:"batch_contract,omitempty"` // with entries
	Reference   string            `dynamodbav:"reference,omitempty"`
	Metadata    map[string]string `dynamodbav:"metadata,omitempty"`
	Guarded     bool              `dynamodbav:"guarded,omitempty"`
	Proposal    string            `dynamodbav:"proposal,omitempty"` // JSON, set by Propose and Amend
	WalletOf    string            `dynamodbav:"wallet_of,omitempty"`
	Symbol      string            `dynamodbav:"token_symbol"`
	Decimals    int               `dynamodbav:"token_decimals"`
	Contract    string            `dynamodbav:"token_contract"`
	Network     string            `dynamodbav:"network"`

	Wallet   string `dynamodbav:"wallet"`
	ChainID  uint64 `dynamodbav:"chain_id"`
	Memo     bool   `dynamodbav:"memo"`
	TxGas    uint64 `dynamodbav:"tx_gas"`
	TxTip    string `dynamodbav:"tx_tip"`
	TxCap    string `dynamodbav:"tx_cap"`
	TxL1Fee  string `dynamodbav:"tx_l1_fee,omitempty"`   // absent: 0
	GasUnit  uint64 `dynamodbav:"tx_gas_unit,omitempty"` // absent: 0
	Revision string `dynamodbav:"revision"`

	State    string        `dynamodbav:"state"`
	Nonce    *uint64       `dynamodbav:"nonce,omitempty"`
	Attempts []attemptItem `dynamodbav:"attempts,omitempty"`
	TxHash   string        `dynamodbav:"tx_hash,omitempty"`

	MinedAt        string `dynamodbav:"mined_at,omitempty"`
	Onchain        string `dynamodbav:"onchain_tx_hash,omitempty"`
	Block          uint64 `dynamodbav:"block_number,omitempty"`
	Fee            string `dynamodbav:"network_fee,omitempty"` // wei; absent if the nodes did not agree on it
	FailureCode    string `dynamodbav:"failure_code,omitempty"`
	FailureMessage string `dynamodbav:"failure_message,omitempty"`
	EventID        string `dynamodbav:"event_id,omitempty"`
	EventType      string `dynamodbav:"event_type,omitempty"`
	EventBody      []byte `dynamodbav:"event_body,omitempty"`

	Version   int64  `dynamodbav:"version"`
	CreatedAt string `dynamodbav:"created_at"`
	UpdatedAt string `dynamodbav:"updated_at"`
}

// attemptItem is one element of a payment's attempts. The signed bytes are in the item of the pending transaction
// only: a second copy would cost every commit two write units.
type attemptItem struct {
	Hash string `dynamodbav:"hash"`
	Tip  string `dynamodbav:"tip"`
	Cap  string `dynamodbav:"cap"`
	At   string `dynamodbav:"at"`
	Gas  uint64 `dynamodbav:"gas,omitempty"` // limit; absent: tx_gas
	Noop bool   `dynamodbav:"noop,omitempty"`
}

// encodePayment returns the item of a payment, without attempts and places in lists. An update picks what it changes.
func encodePayment(p payment.Payment) attributes {
	it := paymentItem{
		PK: paymentPrefix + string(p.ID), SK: "payment", MerchantID: p.Merchant, Mode: p.Mode, Key: p.IdempotencyKey,
		Fingerprint: p.Fingerprint, To: p.To.String(), Amount: p.Amount.String(), Reference: p.Reference,
		Metadata: p.Metadata, Symbol: p.Token.Symbol, Decimals: p.Token.Decimals, Contract: p.Token.Contract.String(),
		Network: p.Network, Wallet: p.Wallet.String(), ChainID: p.Tx.ChainID, Memo: p.Memo(), TxGas: p.Tx.Gas,
		TxTip: p.Tx.Fees.Tip.String(), TxCap: p.Tx.Fees.Cap.String(), Revision: p.Revision,
		Guarded: p.Guarded, WalletOf: p.WalletOf, GasUnit: uint64(p.Tx.GasUnit), State: string(p.State),
		Version: p.Version, CreatedAt: moment(p.CreatedAt),
		UpdatedAt: moment(p.UpdatedAt),
	}
	if !p.Tx.L1Fee.IsZero() {
		it.TxL1Fee = p.Tx.L1Fee.String()
	}
	for _, e := range p.Entries {
		it.References = append(it.References, e.Reference)
	}
	if !p.BatchContract.IsZero() {
		it.BatchBy = p.BatchContract.String()
	}
	if len(p.Entries) > 1 {
		for _, e := range p.Entries {
			units := e.Amount.Bytes32()
			it.Entries = slices.Concat(it.Entries, e.To[:], units[entrySize-entryUnits:])
		}
	}
	if p.State.Signed() {
		it.Nonce, it.TxHash = &p.Nonce, p.TxHash.String()
	}
	if !p.Onchain.IsZero() {
		it.Onchain, it.Block = p.Onchain.String(), p.Block
	}
	if p.Fee != nil {
		it.Fee = p.Fee.String()
	}
	if p.Failure != nil {
		it.FailureCode, it.FailureMessage = string(p.Failure.Code), p.Failure.Message
	}
	if p.Event != nil {
		it.EventID, it.EventType, it.EventBody = p.Event.ID, p.Event.Type, p.Event.Body
	}
	return encode(it)
}

// listed is encodePayment with the place in the merchant's list.
func listed(p payment.Payment) attributes {
	item := encodePayment(p)
	item[attrListPK], item[attrListSK] = text(listPK(listPrefix(p.Merchant, p.Mode), string(p.ID))), text(listSK(p.CreatedAt, string(p.ID)))
	return item
}

// The bytes of an entry of several, and those of its amount, which the contract holds to them (disburser.MaxAmount).
const entrySize, entryUnits = 32, 12

// entriesOf reads the entries of a batch. That of one alone has the payment's recipient and amount.
func entriesOf(r *reader, it paymentItem, p payment.Payment) (entries []payment.Entry) {
	if len(it.References) == 1 {
		return []payment.Entry{{To: p.To, Amount: p.Amount, Reference: it.References[0]}}
	}
	r.require("entries", len(it.Entries) == entrySize*len(it.References))
	for i, reference := range it.References {
		if packed := it.Entries[min(entrySize*i, len(it.Entries)):]; len(packed) >= entrySize {
			amount, _ := token.AmountFromBytes(packed[entrySize-entryUnits : entrySize]) // so few bytes fit
			entries = append(entries, payment.Entry{To: token.Address(packed[:entrySize-entryUnits]), Amount: amount, Reference: reference})
		}
	}
	return entries
}

func encodeAttempt(a payment.Attempt) types.AttributeValue {
	return encodeValue([]attemptItem{{
		Hash: a.Hash.String(), Tip: a.Fees.Tip.String(), Cap: a.Fees.Cap.String(), At: moment(a.At), Gas: a.Gas, Noop: a.Noop,
	}})
}

// decodePayment reads a stored payment, or returns store.ErrUnreadable.
func decodePayment(item attributes) (payment.Payment, error) {
	var it paymentItem
	r := read(item, &it)
	p := payment.Payment{
		ID: payment.ID(strings.TrimPrefix(it.PK, paymentPrefix)), Merchant: it.MerchantID, Mode: it.Mode,
		IdempotencyKey: it.Key, Fingerprint: it.Fingerprint,
		To: r.address("to", it.To), Amount: r.amount("amount", it.Amount), Reference: it.Reference,
		Metadata: it.Metadata, Guarded: it.Guarded, Proposal: it.Proposal != "", WalletOf: it.WalletOf,
		Token:   token.Token{Symbol: it.Symbol, Decimals: it.Decimals, Contract: r.address("token_contract", it.Contract)},
		Network: it.Network, Wallet: r.address("wallet", it.Wallet),
		BatchContract: optional(r, "batch_contract", it.BatchBy, token.ParseAddress),
		Tx: chain.Tx{
			ChainID: it.ChainID, Gas: it.TxGas,
			Fees:  chain.Fees{Tip: r.amount("tx_tip", it.TxTip), Cap: r.amount("tx_cap", it.TxCap)},
			L1Fee: r.amount("tx_l1_fee", cmp.Or(it.TxL1Fee, "0")), GasUnit: chain.GasUnit(it.GasUnit),
		},
		Revision: it.Revision, State: payment.State(it.State), Block: it.Block,
		TxHash: r.hash("tx_hash", it.TxHash), Onchain: r.hash("onchain_tx_hash", it.Onchain), MinedAt: r.instant("mined_at", it.MinedAt),
		Version: it.Version, CreatedAt: r.instant("created_at", it.CreatedAt), UpdatedAt: r.instant("updated_at", it.UpdatedAt),
	}
	p.Entries = entriesOf(r, it, p)
	if !p.Wallet.IsZero() { // a proposal's payment has none at first
		call := p.Call(p.Wallet, it.Memo)
		p.Tx.To, p.Tx.Value, p.Tx.Data = call.To, call.Value, call.Data
	}
	if it.Nonce != nil {
		p.Nonce = *it.Nonce
	}
	for _, a := range it.Attempts {
		p.Attempts = append(p.Attempts, payment.Attempt{
			Hash: r.hash("hash", a.Hash), At: r.instant("at", a.At), Gas: a.Gas, Noop: a.Noop,
			Fees: chain.Fees{Tip: r.amount("tip", a.Tip), Cap: r.amount("cap", a.Cap)},
		})
	}
	if it.Fee != "" {
		fee := r.amount("network_fee", it.Fee)
		p.Fee = &fee
	}
	if it.FailureCode != "" {
		p.Failure = &payment.Failure{Code: payment.FailureCode(it.FailureCode), Message: it.FailureMessage}
	}
	if it.EventID != "" {
		p.Event = &payment.Event{ID: it.EventID, Type: it.EventType, Body: it.EventBody}
	}
	r.require("revision", it.Revision != "" || p.State != payment.Prepared)
	r.require("state", slices.Contains(payment.States(), p.State))
	r.require("nonce", !p.State.Signed() || it.Nonce != nil)
	r.require("attempts or tx_hash", !p.State.Signed() || len(p.Attempts) > 0 && p.Attempts[0].Hash == p.TxHash)
	r.require("event", !p.State.Final() || p.Event != nil)
	return readable(r, p, string(p.ID))
}
