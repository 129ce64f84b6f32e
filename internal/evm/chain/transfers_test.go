package chain_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

// TestMinedNoop: a transaction that moves anything is no no-op.
func TestMinedNoop(t *testing.T) {
	us := token.Address{1}
	for tx, want := range map[chain.MinedTx]bool{
		{From: us, To: us}: true, {From: us, To: token.Address{2}}: false, {From: us, To: us, Data: "a"}: false,
		{From: us, To: us, Value: token.Units(1)}: false,
	} {
		if tx.Noop() != want {
			t.Errorf("%+v is a no-op: %t", tx, !want)
		}
	}
}

// TestFirstSince: the first of the blocks of a second, as all nodes tell their times.
func TestFirstSince(t *testing.T) {
	for second, want := range map[int64]uint64{9: 0, 10: 0, 11: 2, 13: 6, 14: 8} {
		if got, err := nodes(&stub{}, &stub{}).FirstSince(t.Context(), time.Unix(second, 0), 7); err != nil || got != want {
			t.Errorf("since %d: block %d, %v; want %d", second, got, err, want)
		}
	}
	for other, want := range map[*stub]error{{gas: 2}: chain.ErrDisagree, {down: true}: chain.ErrUnavailable} {
		if _, err := nodes(&stub{}, other).FirstSince(t.Context(), time.Unix(11, 0), 7); !errors.Is(err, want) {
			t.Errorf("beside a node that differs or is silent: %v, want %v", err, want)
		}
	}
}

// TestTransfers: the transfers out of the wallets are those that every node gives, or unknown.
func TestTransfers(t *testing.T) {
	moved := func(tx byte) chain.LoggedTransfer { return chain.LoggedTransfer{Tx: chain.Hash{tx}, Block: 9} }
	node := func(change func(*stub)) *stub {
		s := &stub{blocks: map[uint64]chain.Hash{9: {9}}, account: chain.Account{Head: chain.Head{Number: 12,
			Final: 9}}, transfers: []chain.LoggedTransfer{moved(1), moved(2)},
			txs: []chain.MinedTx{{Hash: chain.Hash{1}, Block: 9}}}
		change(s)
		return s
	}
	same := func(*stub) {}
	for _, test := range []struct {
		name  string
		other func(*stub)
		want  error
		words string
	}{
		{"two that agree", same, nil, ""},
		{"a node that is down", func(s *stub) { s.down = true }, chain.ErrUnavailable, "asking b: connection refused"},
		{"a node without the last block yet", func(s *stub) { s.blocks = nil }, chain.ErrUnavailable, "asking b: node has no block 9"},
		{"one on a fork", func(s *stub) { s.blocks[9] = chain.Hash{0xf9} }, chain.ErrDisagree, "b says 0xf9"},
		{"one without the last transfer", func(s *stub) { s.transfers = s.transfers[:1] }, chain.ErrDisagree, "b says nothing"},
		{"one with a transfer that no other has", func(s *stub) { s.transfers = append(s.transfers, moved(3)) }, chain.ErrDisagree,
			"a says nothing, b says 0 units"},
		{"one with another transfer", func(s *stub) { s.transfers[1] = moved(3) }, chain.ErrDisagree, "0x02"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := nodes(node(same), node(test.other)).Transfers(t.Context(), token.Address{}, nil, 0, 9)
			if !errors.Is(err, test.want) || err == nil && !slices.Equal(got, node(same).transfers) || err != nil &&
				(got != nil || !strings.Contains(err.Error(), test.words)) {
				t.Errorf("Transfers() = %v, %v; want %v with %q", got, err, test.want, test.words)
			}
		})
	}
	for lost, want := range map[int]error{2: nil, 3: chain.ErrUnavailable} {
		if txs, err := nodes(node(same), node(func(s *stub) { s.lost = lost })).Transactions(t.Context(), []chain.Hash{{1}}); !errors.Is(err,
			want) || (err == nil) != (len(txs) == 1) {
			t.Errorf("%d requests in a row are lost: %v, %v, want %v", lost, txs, err, want)
		}
	}
	if _, err := nodes(node(same), node(func(s *stub) { s.txs = nil })).Transactions(t.Context(), []chain.Hash{{1}}); !errors.Is(err,
		chain.ErrDisagree) {
		t.Errorf("a node without the transaction: %v, want ErrDisagree", err)
	}
	one := []chain.Hash{{1}}
	used := func(tx byte) *stub { return node(func(s *stub) { s.atNonce = chain.Hash{tx} }) }
	for other, want := range map[*stub]error{used(5): nil, used(6): chain.ErrDisagree, {down: true}: chain.ErrUnavailable} {
		hash, err := nodes(used(5), other).UserOf(t.Context(), token.Address{}, 7, 9)
		if !errors.Is(err, want) || want == nil && hash != (chain.Hash{5}) {
			t.Errorf("%v, %v, want %v", hash, err, want)
		}
	}
	if txs, err := nodes(node(same), node(same)).TransactionsUntil(t.Context(), one, 8); err != nil || len(txs) != 0 {
		t.Errorf("mined in a later block: %v, %v", txs, err)
	}
	if txs, err := nodes(node(same), node(same)).TransactionsUntil(t.Context(), one, 9); err != nil || len(txs) != 1 {
		t.Errorf("mined in the last block: %v, %v", txs, err)
	}
	behind := node(func(s *stub) { s.account.Final = 7 })
	if final, err := nodes(node(same), behind).FinalOnAll(t.Context(), chain.ConfirmationRule{}); final != 7 || err != nil {
		t.Errorf("FinalOnAll() = %d, %v, want the block of the node that is behind", final, err)
	}
	behind.down = true
	for _, few := range []chain.Nodes{nodes(node(same), behind), nil} {
		if _, err := few.FinalOnAll(t.Context(), chain.ConfirmationRule{}); !errors.Is(err, chain.ErrUnavailable) {
			t.Errorf("%d nodes, one or all silent: %v, want ErrUnavailable", len(few), err)
		}
		if _, err := few.Transfers(t.Context(), token.Address{}, nil, 0, 9); !errors.Is(err, chain.ErrUnavailable) {
			t.Errorf("%d nodes, one or all silent: %v, want ErrUnavailable", len(few), err)
		}
	}
}
