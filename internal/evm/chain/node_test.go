package chain_test

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

var errDown = errors.New("connection refused")

// A stub is a node with scripted answers.
type stub struct {
	name     string
	down     bool
	half     bool // receipts come with an error
	reverts  bool
	listed   bool
	gas      uint64
	greed    uint64 // its tip by its other prices; 9: none
	account  chain.Account
	receipts []chain.Receipt
	blocks   map[uint64]chain.Hash
	atNonce  chain.Hash
	settled  uint64                 // the count at the final block
	replies  map[string]chain.Reply // by the raw bytes; all others are accepted
	generous bool                   // it gives receipts that nobody asked for
	numbers  []uint64               // of the blocks whose hashes it was asked for
	sent     []string

	transfers []chain.LoggedTransfer
	txs       []chain.MinedTx
	lost      int // requests for transactions, or block hashes, that get no answer

	takes func(request int) time.Duration // for fees, estimates, accounts and bytes, by the number of the request, from 1 on
	asked int                             // such requests
	deaf  bool                            // it takes so long whatever the caller's time
}

func (s *stub) String() string { return s.name }

func (s *stub) err() error {
	if s.down {
		return errDown
	}
	return nil
}

// wait waits for the answer to a request, for ten seconds at most, as ethrpc does.
func (s *stub) wait(ctx context.Context) error {
	if s.takes == nil {
		return s.err()
	}
	s.asked++
	if s.deaf {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	select {
	case <-time.After(s.takes(s.asked)):
		return s.err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *stub) Fees(ctx context.Context) (chain.Market, error) {
	err := s.wait(ctx)
	price := token.Units(s.gas)
	return chain.Market{BaseFee: price, Tip: price.ScaleUp(max(s.greed, 1)%9, 1), L1Fee: price}, err
}

func (s *stub) Estimate(ctx context.Context, _ chain.Call) (uint64, error) {
	switch err := s.wait(ctx); {
	case err != nil:
		return 0, err
	case s.listed:
		return 0, chain.ErrListed
	case s.reverts:
		return 0, chain.ErrReverted
	}
	return s.gas, nil
}

func (s *stub) Head(context.Context, chain.ConfirmationRule) (chain.Head, error) {
	return s.account.Head, s.err()
}

func (s *stub) Account(ctx context.Context, _, _ token.Address, head chain.Head) (chain.Account, error) {
	err := s.wait(ctx)
	if head != s.account.Head {
		return chain.Account{}, errors.New("asked at another node's head")
	}
	return s.account, err
}

func (s *stub) Receipts(_ context.Context, hashes []chain.Hash) ([]chain.Receipt, error) {
	var found []chain.Receipt
	for _, r := range s.receipts {
		if s.generous || slices.Contains(hashes, r.Tx) {
			found = append(found, r)
		}
	}
	if s.half {
		return found, errors.New("one element failed")
	}
	return found, s.err()
}

func (s *stub) BlockHashes(_ context.Context, numbers []uint64) ([]chain.Hash, error) {
	s.numbers = append(s.numbers, numbers...)
	if s.lost > 0 {
		s.lost--
		return nil, errDown
	}
	if s.down {
		return nil, errDown
	}
	hashes := make([]chain.Hash, len(numbers))
	for i, n := range numbers {
		hashes[i] = s.blocks[n]
	}
	return hashes, nil
}

// BlockTime gives two blocks of a second: 10 for the blocks 0 and 1, 11 for the next.
func (s *stub) BlockTime(_ context.Context, number uint64) (time.Time, error) {
	return time.Unix(10+int64(number+s.gas)/2, 0).UTC(), s.err()
}

func (s *stub) Count(_ context.Context, _ token.Address, block uint64) (uint64, error) {
	if block != s.account.Final {
		return 0, errors.New("asked for a block that the node does not call final")
	}
	return s.settled, s.err()
}

func (s *stub) TxAtNonce(_ context.Context, _ token.Address, _, final uint64) (chain.Hash, error) {
	if final != s.account.Final {
		return chain.Hash{}, errors.New("asked with another node's final block")
	}
	return s.atNonce, s.err()
}

func (s *stub) Transfers(context.Context, token.Address, []token.Address, uint64, uint64) ([]chain.LoggedTransfer, error) {
	return s.transfers, s.err()
}

func (s *stub) Transactions(context.Context, []chain.Hash) ([]chain.MinedTx, error) {
	if s.lost > 0 {
		s.lost--
		return nil, errDown
	}
	return s.txs, s.err()
}

func (s *stub) Send(ctx context.Context, raw []byte) chain.Reply {
	s.sent = append(s.sent, string(raw))
	if err := s.wait(ctx); err != nil {
		return chain.Reply{Class: chain.Ambiguous, Detail: err.Error()}
	}
	if r, ok := s.replies[string(raw)]; ok {
		return r
	}
	return chain.Reply{Class: chain.Accepted}
}

// nodes makes stubs configured nodes.
func nodes(stubs ...*stub) chain.Nodes {
	all := make(chain.Nodes, len(stubs))
	for i, s := range stubs {
		s.name = string(rune('a' + i))
		all[i] = s
	}
	return all
}
