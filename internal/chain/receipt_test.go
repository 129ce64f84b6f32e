package chain_test

import (
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/sha3"

	"remit/internal/chain"
	"remit/internal/token"
)

func keccak(s string) (h chain.Hash) {
	k := sha3.NewLegacyKeccak256()
	k.Write([]byte(s))
	k.Sum(h[:0])
	return h
}

func topic(a token.Address) (h chain.Hash) {
	copy(h[12:], a[:])
	return h
}

// TestJudge has a row for every way a mined transfer may not have moved the
// money it promised.
func TestJudge(t *testing.T) {
	coin, from, to, other := token.Address{1}, token.Address{2}, token.Address{3}, token.Address{4}
	transfer := chain.Transfer{Contract: coin, From: from, To: to, Amount: token.Units(1000)}
	word := func(n uint64) []byte { w := token.Units(n).Bytes32(); return w[:] }
	event := keccak("Transfer(address,address,uint256)")
	good := chain.Log{Contract: coin, Topics: []chain.Hash{event, topic(from), topic(to)}, Data: word(1000)}
	but := func(change func(*chain.Log)) []chain.Log { l := good; change(&l); return []chain.Log{l} }
	approval := keccak("Approval(address,address,uint256)")
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
		{"the amount in two parts", true, append(but(func(l *chain.Log) { l.Data = word(400) }), but(func(l *chain.Log) { l.Data = word(600) })...), chain.AmountDiffers},
		{"to somebody else", true, but(func(l *chain.Log) { l.Topics = []chain.Hash{event, topic(from), topic(other)} }), chain.Missing},
		{"from somebody else", true, but(func(l *chain.Log) { l.Topics = []chain.Hash{event, topic(other), topic(to)} }), chain.Missing},
		{"an approval pays nobody", true, but(func(l *chain.Log) { l.Topics = []chain.Hash{approval, topic(from), topic(to)} }), chain.Missing},
		{"an NFT's Transfer has four topics", true, but(func(l *chain.Log) { l.Topics = append(l.Topics[:3:3], topic(other)) }), chain.Missing},
		{"no topics", true, but(func(l *chain.Log) { l.Topics = nil }), chain.Missing},
		{"data that is no word", true, but(func(l *chain.Log) { l.Data = l.Data[:31] }), chain.Missing},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := transfer.Judge(chain.Receipt{Succeeded: test.succeeded, Logs: test.logs}); got != test.want {
				t.Errorf("verdict %s, want %s", got, test.want)
			}
		})
	}
	twice := but(func(l *chain.Log) { l.Data = word(900) })
	r := chain.Receipt{Succeeded: true, Logs: slices.Concat(twice, twice, but(func(l *chain.Log) { l.Data = word(90) }))}
	if got := transfer.Arrived(r); got != token.Units(990) {
		t.Errorf("%v arrived by a log of 900 that a node gives twice and one of 90, want 990", got)
	}
}

func TestTransferData(t *testing.T) {
	selector := keccak("transfer(address,uint256)")
	to := token.Address{0: 0xab, 19: 0xcd}
	amount := token.MaxAmount().Bytes32()
	want := hex.EncodeToString(selector[:4]) + "000000000000000000000000" + hex.EncodeToString(to[:]) + hex.EncodeToString(amount[:])
	if got := hex.EncodeToString(chain.TransferData(to, token.MaxAmount())); got != want {
		t.Errorf("data %s, want %s", got, want)
	}
	selector = keccak("transferFrom(address,address,uint256)")
	from := token.Address{0: 0xef, 19: 0x01}
	data := chain.TransferFromData(from, to, token.Units(7))
	if want := hex.EncodeToString(selector[:4]) + "000000000000000000000000" + hex.EncodeToString(from[:]); hex.EncodeToString(data[:36]) != want || len(data) != 100 {
		t.Errorf("data %x, want %s and two words", data, want)
	}
	for name, test := range map[string]struct {
		data []byte
		want chain.Transfer
		ok   bool
	}{
		"a transfer":                 {chain.TransferData(to, token.Units(7)), chain.Transfer{To: to, Amount: token.Units(7)}, true},
		"a transfer by an allowance": {data, chain.Transfer{From: from, To: to, Amount: token.Units(7)}, true},
		"another method":             {[]byte(strings.Repeat("x", 200)), chain.Transfer{}, false},
		"less than its arguments":    {data[:99], chain.Transfer{}, false},
	} {
		got, rest, ok := chain.ParseTransfer(append(slices.Clone(test.data), 9))
		if name == "less than its arguments" {
			got, rest, ok = chain.ParseTransfer(test.data)
		}
		if ok != test.ok || ok && (got != test.want || len(rest) != 1) {
			t.Errorf("%s: %+v, %x, %t", name, got, rest, ok)
		}
	}
}
