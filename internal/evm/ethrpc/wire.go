package ethrpc

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

var errAnswer = errors.New("unusable answer")

// A quantity is a JSON-RPC quantity: "0x" and hex digits. Some nodes send leading zeros, which are forbidden.
type quantity struct{ token.Amount }

func (q *quantity) UnmarshalJSON(b []byte) error {
	digits, ok := strings.CutPrefix(string(b), `"0x`)
	digits, closed := strings.CutSuffix(digits, `"`)
	bytes, err := hex.DecodeString(strings.Repeat("0", len(digits)%2) + digits)
	if !ok || !closed || digits == "" || len(digits) > 64 || err != nil {
		return fmt.Errorf("%w: want a hex quantity", errAnswer)
	}
	q.Amount, err = token.AmountFromBytes(bytes)
	return err
}

// A count is a quantity of at most 64 bits.
type count uint64

func (c *count) UnmarshalJSON(b []byte) error {
	var q quantity
	if err := json.Unmarshal(b, &q); err != nil {
		return err
	}
	n, ok := q.Uint64()
	if !ok {
		return fmt.Errorf("%w: %v does not fit 64 bits", errAnswer, q.Amount)
	}
	*c = count(n)
	return nil
}

// An optional is a quantity that decides nothing. It is absent if the node leaves it out or sends
// null, and unreadable in any other form: "0xNaN" was seen (hiero-ledger/hiero-json-rpc-relay#561).
type optional struct {
	token.Amount
	given, unreadable bool
}

// UnmarshalJSON never fails.
func (o *optional) UnmarshalJSON(b []byte) error {
	var q quantity
	o.given = string(b) != "null"
	o.unreadable = o.given && q.UnmarshalJSON(b) != nil
	o.Amount = q.Amount
	return nil
}

func hexOf(n uint64) string { return "0x" + strconv.FormatUint(n, 16) }

// callObject is the first argument of eth_call and eth_estimateGas.
type callObject struct {
	From  string        `json:"from,omitempty"`
	To    string        `json:"to"`
	Value *hexutil.Big  `json:"value,omitempty"`
	Data  hexutil.Bytes `json:"data"`
	Gas   string        `json:"gas,omitempty"` // the most of it
	Cap   *hexutil.Big  `json:"maxFeePerGas,omitempty"`
	Tip   *hexutil.Big  `json:"maxPriorityFeePerGas,omitempty"`
}

func wei(a token.Amount) *hexutil.Big {
	if a.IsZero() {
		return nil
	}
	return (*hexutil.Big)(a.Big())
}

type header struct {
	Number   *count      `json:"number"`
	Hash     *chain.Hash `json:"hash"`
	Time     *count      `json:"timestamp"` // seconds since 1970
	GasLimit *count      `json:"gasLimit"`
}

// block is a header with full transactions. Those of layer 2's own may lack fields.
type block struct {
	header
	Transactions []struct {
		Hash  *chain.Hash     `json:"hash"`
		From  *common.Address `json:"from"`
		Nonce *count          `json:"nonce"`
	} `json:"transactions"`
}

// receipt has a receipt's fields. Pointers are fields that a node may leave out or send as null.
type receipt struct {
	Tx        chain.Hash  `json:"transactionHash"`
	Status    *count      `json:"status"`
	Block     *count      `json:"blockNumber"`
	BlockHash *chain.Hash `json:"blockHash"`
	price
	Logs []logged `json:"logs"`
}

type logged struct {
	Contract common.Address `json:"address"`
	Topics   []chain.Hash   `json:"topics"`
	Data     hexutil.Bytes  `json:"data"`
	Removed  bool           `json:"removed"`
	Index    *count         `json:"logIndex"`
}

func (l logged) event() chain.Log {
	return chain.Log{Contract: token.Address(l.Contract), Topics: l.Topics, Data: l.Data}
}

// maxLogs is the most logs of a receipt of ours: a batch has 100 transfers.
const maxLogs = 4096

// of returns the receipt of tx, and false if tx is not mined: some nodes send one without a block before that.
func (r receipt) of(tx chain.Hash) (chain.Receipt, bool, error) {
	switch {
	case r.Tx != tx:
		return chain.Receipt{}, false, fmt.Errorf("%w: receipt of %v for %v", errAnswer, r.Tx, tx)
	case r.Block == nil || r.BlockHash == nil || r.BlockHash.IsZero():
		return chain.Receipt{}, false, nil
	case r.Status == nil || *r.Status > 1:
		return chain.Receipt{}, false, fmt.Errorf("%w: receipt of %v without a status of 0 or 1", errAnswer, tx)
	case len(r.Logs) > maxLogs:
		return chain.Receipt{}, false, fmt.Errorf("%w: receipt of %v with more than %d logs", errAnswer, tx, maxLogs)
	case r.Logs == nil && *r.Status == 1: // no proof that nothing moved
		return chain.Receipt{}, false, fmt.Errorf("%w: receipt of %v without logs", errAnswer, tx)
	}
	gas, _ := r.GasUsed.Uint64() // 0: unknown
	read := chain.Receipt{Tx: tx, Succeeded: *r.Status == 1, Block: uint64(*r.Block), BlockHash: *r.BlockHash}
	read.GasUsed, read.Fee = gas, r.fee(gas)
	for i, log := range r.Logs {
		if log.Removed {
			continue
		}
		event := log.event()
		if event.Index = uint64(i); log.Index != nil {
			event.Index = uint64(*log.Index)
		}
		read.Logs = append(read.Logs, event)
	}
	return read, true, nil
}
