package ethrpc

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// maxSpan is the initial limit of blocks in one request for logs. Infura accepts it (INFURA/infura#237); others
// accept less, or fewer logs: Alchemy 2,000, 500 or 10 by plan, Tenderly's gateway 2,000.
const maxSpan = 10_000

type logFilter struct {
	From    string         `json:"fromBlock"`
	To      string         `json:"toBlock"`
	Address string         `json:"address"`
	Topics  [][]chain.Hash `json:"topics"`
}

// A placed is a log of eth_getLogs with its place on the chain.
type placed struct {
	logged
	Tx        chain.Hash  `json:"transactionHash"`
	Block     *count      `json:"blockNumber"`
	BlockHash *chain.Hash `json:"blockHash"`
}

// Transfers implements chain.Node. Providers refuse ranges with too many blocks or logs with messages and codes of
// their own, or by a timeout. So a range is halved after any error, and the accepted length is remembered as long as
// the process lives. If a single block is refused, that is an error.
func (n *Node) Transfers(ctx context.Context, coin token.Address, wallets []token.Address, first, last uint64) ([]chain.LoggedTransfer,
	error) {
	var all []chain.LoggedTransfer
	for first <= last && len(wallets) > 0 { // no wallets would be a filter for all
		end := min(last, first+n.span.Load()-1)
		var logs []placed
		err := n.each(ctx, call("eth_getLogs", &logs, logFilter{hexOf(first), hexOf(end), coin.String(), chain.TransferTopics(wallets)}))
		if err != nil && end > first && ctx.Err() == nil {
			n.span.Store((end - first + 1) / 2)
			n.config.Log.InfoContext(ctx, "node takes shorter ranges of logs", "node", n.host, "blocks", n.span.Load(), "err", err)
			continue
		}
		if err == nil && logs == nil { // null, which is no list
			err = fmt.Errorf("eth_getLogs: %w", errNoResult)
		}
		for i := 0; i < len(logs) && err == nil; i++ {
			var found chain.LoggedTransfer
			found, err = transferOf(logs[i], coin, wallets, first, end)
			if err == nil && !found.Amount.IsZero() && !n.config.Gas.Moves(found.Transfer) {
				all = append(all, found)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("reading the transfers of blocks %d to %d: %w", first, end, err)
		}
		first = end + 1
	}
	slices.SortFunc(all, func(a, b chain.LoggedTransfer) int {
		return cmp.Or(cmp.Compare(a.Block, b.Block), cmp.Compare(a.Index, b.Index))
	})
	return slices.Compact(all), nil
}

var errTransfer = fmt.Errorf("eth_getLogs: %w: not a transfer that was asked for", errAnswer)

func transferOf(l placed, coin token.Address, wallets []token.Address, first, last uint64) (chain.LoggedTransfer, error) {
	transfer, ok := l.event().Transfer()
	if !ok || l.Removed || l.Block == nil || l.BlockHash == nil || l.Index == nil || l.Tx.IsZero() ||
		transfer.Contract != coin || !slices.Contains(wallets, transfer.From) {
		return chain.LoggedTransfer{}, errTransfer
	}
	block := uint64(*l.Block)
	if block < first || block > last {
		return chain.LoggedTransfer{}, errTransfer
	}
	return chain.LoggedTransfer{Transfer: transfer, Tx: l.Tx, Block: block, BlockHash: *l.BlockHash, Index: uint64(*l.Index)}, nil
}

type minedTx struct {
	Hash      chain.Hash      `json:"hash"`
	From      common.Address  `json:"from"`
	To        *common.Address `json:"to"`
	Nonce     count           `json:"nonce"`
	Value     quantity        `json:"value"`
	Data      hexutil.Bytes   `json:"input"`
	Block     *count          `json:"blockNumber"`
	signature `json:"-"`
}

// Transactions implements chain.Node with two requests: the second reads the blocks' times.
func (n *Node) Transactions(ctx context.Context, hashes []chain.Hash) ([]chain.MinedTx, error) {
	answers := make([]*minedTx, len(hashes))
	calls := make([]query, len(hashes))
	for i, h := range hashes {
		calls[i] = call("eth_getTransactionByHash", &answers[i], h.String())
	}
	err := n.each(ctx, calls...)
	var mined []chain.MinedTx
	blocks := map[uint64]*header{}
	for i, a := range answers {
		if err != nil || a == nil || a.Block == nil {
			continue
		}
		tx := chain.MinedTx{Hash: a.Hash, From: token.Address(a.From), Nonce: uint64(a.Nonce), Value: a.Value.Amount,
			Data: string(a.Data), Block: uint64(*a.Block), Signed: a.signed(n.config.ChainID)}
		if a.To != nil {
			tx.To = token.Address(*a.To)
		}
		if tx.Hash != hashes[i] {
			err = fmt.Errorf("eth_getTransactionByHash: %w: not %v", errAnswer, hashes[i])
		}
		mined, blocks[tx.Block] = append(mined, tx), &header{}
	}
	if err == nil {
		err = n.times(ctx, blocks)
	}
	for i := range mined {
		if err == nil {
			mined[i].At = time.Unix(int64(*blocks[mined[i].Block].Time), 0).UTC()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading %d transactions: %w", len(hashes), err)
	}
	return mined, nil
}

// BlockTime implements chain.Node.
func (n *Node) BlockTime(ctx context.Context, number uint64) (time.Time, error) {
	block := &header{}
	if err := n.times(ctx, map[uint64]*header{number: block}); err != nil {
		return time.Time{}, fmt.Errorf("reading the time of a block: %w", err)
	}
	return time.Unix(int64(*block.Time), 0).UTC(), nil
}

// times reads the headers of blocks, each of which must have a time.
func (n *Node) times(ctx context.Context, blocks map[uint64]*header) error {
	var calls []query
	for number, read := range blocks {
		calls = append(calls, call("eth_getBlockByNumber", read, hexOf(number), false))
	}
	err := n.each(ctx, calls...)
	for number, read := range blocks {
		if err == nil && (read.Number == nil || uint64(*read.Number) != number || read.Time == nil) {
			err = fmt.Errorf("eth_getBlockByNumber: %w: not block %d", errAnswer, number)
		}
	}
	return err
}
