package chain_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto/keccak"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/must"
)

func digest(s string) (h chain.Hash) {
	k := keccak.NewLegacyKeccak256()
	k.Write([]byte(s))
	k.Sum(h[:0])
	return h
}

func topic(a token.Address) (h chain.Hash) {
	copy(h[12:], a[:])
	return h
}

// TestJudge has a row for every way a mined transfer may not have moved the money it promised.
func TestJudge(t *testing.T) {
	coin, from, to, other := token.Address{1}, token.Address{2}, token.Address{3}, token.Address{4}
	transfer := chain.Transfer{Contract: coin, From: from, To: to, Amount: token.Units(1000)}
	word := func(n uint64) []byte { w := token.Units(n).Bytes32(); return w[:] }
	event := digest("Transfer(address,address,uint256)")
	good := chain.Log{Contract: coin, Topics: []chain.Hash{event, topic(from), topic(to)}, Data: word(1000)}
	but := func(change func(*chain.Log)) []chain.Log { l := good; change(&l); return []chain.Log{l} }
	approval := digest("Approval(address,address,uint256)")
	for _, test := range []struct {
		name      string
		succeeded bool
		logs      []chain.Log
		want      chain.Verdict
	}{
		{"the money moved", true, []chain.Log{good}, chain.Transferred},
		{"other logs around it do not matter", true, []chain.Log{{Contract: other}, good, {}}, chain.Transferred},
		{"status 0 moves nothing, whatever it logged", false, []chain.Log{good}, chain.Reverted},
		{"a token may return false instead of reverting", true, nil, chain.Missing},
		{"another contract can log what it likes", true, but(func(l *chain.Log) { l.Contract = other }), chain.Missing},
		{"a fee on transfer takes from the amount", true, but(func(l *chain.Log) { l.Data = word(999) }), chain.AmountDiffers},
		{"more is not what was asked", true, but(func(l *chain.Log) { l.Data = word(1001) }), chain.AmountDiffers},
		{"nothing is no amount", true, but(func(l *chain.Log) { l.Data = word(0) }), chain.Missing},
		{"the amount in two parts", true, append(but(func(l *chain.Log) { l.Data = word(400) }),
			but(func(l *chain.Log) { l.Data = word(600) })...), chain.AmountDiffers},
		{"to somebody else", true, but(func(l *chain.Log) { l.Topics = []chain.Hash{event, topic(from), topic(other)} }), chain.AmountDiffers},
		{"nothing to somebody else", true, but(func(l *chain.Log) {
			l.Topics, l.Data = []chain.Hash{event, topic(from), topic(other)}, word(0)
		}), chain.Missing},
		{"from somebody else", true, but(func(l *chain.Log) { l.Topics = []chain.Hash{event, topic(other), topic(to)} }), chain.Missing},
		{"an approval pays nobody", true, but(func(l *chain.Log) { l.Topics = []chain.Hash{approval, topic(from), topic(to)} }), chain.Missing},
		{"an NFT's Transfer has four topics", true, but(func(l *chain.Log) { l.Topics = append(l.Topics[:3:3], topic(other)) }), chain.Missing},
		{"no topics", true, but(func(l *chain.Log) { l.Topics = nil }), chain.Missing},
		{"data that is no word", true, but(func(l *chain.Log) { l.Data = l.Data[:31] }), chain.Missing},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := chain.Judge(chain.Receipt{Succeeded: test.succeeded, Logs: test.logs}, transfer); got != test.want {
				t.Errorf("verdict %s, want %s", got, test.want)
			}
		})
	}
}

// TestArrived sums what the payees got of the payer's coins, as far as a sum can be told.
func TestArrived(t *testing.T) {
	coin, from, to, other := token.Address{1}, token.Address{2}, token.Address{3}, token.Address{4}
	var logs []chain.Log
	for i, l := range []struct {
		contract, from, to token.Address
		amount             token.Amount
	}{
		{coin, from, to, token.Units(1000)}, {coin, from, to, token.Units(400)}, {other, from, to, token.Units(1)},
		{coin, other, to, token.Units(2)}, {coin, from, other, token.Units(4)}, {coin, from, to, token.MaxAmount()},
	} {
		word := l.amount.Bytes32()
		logs = append(logs, chain.Log{Contract: l.contract, Data: word[:], Index: uint64(i),
			Topics: []chain.Hash{digest("Transfer(address,address,uint256)"), topic(l.from), topic(l.to)}})
	}
	if got := chain.Arrived(chain.Receipt{Logs: logs}, chain.Transfer{Contract: coin, From: from, To: to}); got != token.Units(1400) {
		t.Errorf("%s arrived", got)
	}
}

// TestJudgeBatch: each transfer of a batch needs a log of its own, and a node that gives a log twice adds none.
func TestJudgeBatch(t *testing.T) {
	coin, from := token.Address{1}, token.Address{2}
	to := func(n byte, units uint64) chain.Transfer {
		return chain.Transfer{Contract: coin, From: from, To: token.Address{n}, Amount: token.Units(units)}
	}
	logs := func(all ...chain.Transfer) (logs []chain.Log) {
		for i, moved := range all {
			word := moved.Amount.Bytes32()
			logs = append(logs, chain.Log{Contract: coin,
				Topics: []chain.Hash{digest("Transfer(address,address,uint256)"), topic(from), topic(moved.To)}, Data: word[:], Index: uint64(7 + i)})
		}
		return logs
	}
	batch := []chain.Transfer{to(3, 5), to(4, 6), to(3, 5)}
	twice := logs(batch[:2]...)
	for _, row := range []struct {
		name string
		logs []chain.Log
		want chain.Verdict
	}{
		{"every entry", logs(batch...), chain.Transferred},
		{"in another order, with a transfer of none", logs(to(9, 1), to(3, 5), to(3, 5), to(4, 6)), chain.Transferred},
		{"a node that gives the logs twice", append(logs(batch...), logs(batch...)...), chain.Transferred},
		{"of two equal entries one", logs(batch[:2]...), chain.AmountDiffers},
		{"of two equal entries one, which a node gives twice", append(twice, twice...), chain.AmountDiffers},
		{"one entry less", logs(batch[0], batch[2]), chain.AmountDiffers},
		{"the sum to one", logs(to(3, 16)), chain.AmountDiffers},
		{"nothing", nil, chain.Missing},
		{"only others", logs(to(8, 16)), chain.AmountDiffers},
		{"one entry to another, who keeps it", logs(to(3, 5), to(9, 6), to(3, 5)), chain.AmountDiffers},
	} {
		if got := chain.Judge(chain.Receipt{Succeeded: true, Logs: row.logs}, batch...); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
}

// TestTransferTopics: the topics ask for the transfers out of wallets. A log of less is none.
func TestTransferTopics(t *testing.T) {
	wallet := token.Address{1}
	topics := chain.TransferTopics([]token.Address{wallet})
	if len(topics) != 2 || topics[0][0] != digest("Transfer(address,address,uint256)") || topics[1][0] != topic(wallet) {
		t.Errorf("%v", topics)
	}
	if moved, ok := (chain.Log{}).Transfer(); ok {
		t.Errorf("%+v", moved)
	}
}

// TestHashText: httpapi's TestHashes has the forms.
func TestHashText(t *testing.T) {
	want := "0x" + strings.Repeat("0af1", 16)
	var h chain.Hash
	must.OK(t, h.UnmarshalText([]byte(want)))
	if text, err := h.MarshalText(); err != nil || string(text) != want || h.IsZero() {
		t.Errorf("MarshalText() = %s, %v", text, err)
	}
	if err := h.UnmarshalText([]byte("x")); !errors.Is(err, chain.ErrHash) || h.IsZero() {
		t.Errorf("UnmarshalText(x) = %v, left %v", err, h)
	}
}

func TestParseConfirmationRule(t *testing.T) {
	for in, want := range map[string]chain.ConfirmationRule{
		"safe": {Tag: "safe"}, "finalized": {Tag: "finalized"}, "0": {}, "12": {Depth: 12},
	} {
		f, err := chain.ParseConfirmationRule(in)
		if err != nil || f != want || f.String() != in {
			t.Errorf("ParseConfirmationRule(%q) = %v, %v", in, f, err)
		}
	}
	for _, bad := range []string{"", "latest", "pending", "-1", "1.5", "Safe", "4294967296", " 1"} {
		if f, err := chain.ParseConfirmationRule(bad); !errors.Is(err, chain.ErrConfirmationRule) {
			t.Errorf("ParseConfirmationRule(%q) = %v, %v; want ErrConfirmationRule", bad, f, err)
		}
	}
}

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
		{"one with a transfer that no other has", func(s *stub) { s.transfers = append(s.transfers, moved(3)) },
			chain.ErrDisagree, "a says nothing, b says 0 units"},
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
	if final, err := nodes(node(same), behind).FinalOnAll(t.Context(), latest); final != 7 || err != nil {
		t.Errorf("FinalOnAll() = %d, %v, want the block of the node that is behind", final, err)
	}
	behind.down = true
	for _, few := range []chain.Nodes{nodes(node(same), behind), nil} {
		if _, err := few.FinalOnAll(t.Context(), latest); !errors.Is(err, chain.ErrUnavailable) {
			t.Errorf("%d nodes, one or all silent: %v, want ErrUnavailable", len(few), err)
		}
		if _, err := few.Transfers(t.Context(), token.Address{}, nil, 0, 9); !errors.Is(err, chain.ErrUnavailable) {
			t.Errorf("%d nodes, one or all silent: %v, want ErrUnavailable", len(few), err)
		}
	}
}
