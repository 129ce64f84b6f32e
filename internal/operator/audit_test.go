package operator_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"remit/internal/chain"
	"remit/internal/devnet"
	"remit/internal/disburser"
	"remit/internal/ethrpc"
	"remit/internal/keyring"
	"remit/internal/memory"
	"remit/internal/operator"
	"remit/internal/payment"
	"remit/internal/settings"
	"remit/internal/stack"
	"remit/internal/store"
	"remit/internal/token"
	"remit/internal/wallet"
)

// A ledger is a stack on a chain of its own: payments from its two wallets, and the tables as
// they should be. An audit's tables are made of them anew each time.
type ledger struct {
	*testing.T
	chain    *devnet.Chain
	node     *ethrpc.Node
	urls     []string // of the nodes
	keys     []keyring.Key
	nonces   map[token.Address]uint64
	payments []payment.Payment
	noops    []wallet.PendingTx
	dir      string
}

var (
	fees  = chain.Fees{Tip: token.Units(1_000_000_000), Cap: token.Units(20_000_000_000)}
	payee = token.Address{0: 0x11, 19: 0x11}
	nine  = time.Date(2026, 1, 2, 9, 0, 0, 0, time.UTC)
)

// newLedger returns a ledger in which payments ended in each way, a no-op took a nonce,
// and one payment is mined and not settled yet.
func newLedger(t *testing.T) *ledger {
	t.Helper()
	now := nine
	c, err := devnet.Start(t.Context(), devnet.Config{Listen: "127.0.0.1:0", Wallets: 2, Now: func() time.Time { return now }})
	l := &ledger{T: t, chain: c, nonces: map[token.Address]uint64{}, dir: t.TempDir()}
	l.must(err)
	t.Cleanup(func() { l.must(c.Close()) })
	l.node, err = ethrpc.Open(c.URL(), ethrpc.Config{ChainID: c.ID()})
	l.must(err)
	l.urls = []string{c.URL()}
	for _, w := range c.Wallets() {
		key, err := keyring.ParseKey(w.PrivateKey())
		l.must(err)
		l.keys = append(l.keys, key)
	}
	l.must(c.Blacklist(token.Address{0xbb}))
	l.pay(0, payee, 5, true)
	l.pay(1, payee, 6, true)
	l.pay(0, token.Address{0xbb}, 7, true) // reverts
	noop := chain.Noop(c.ID(), l.keys[0].Address(), fees)
	signed := l.mine(0, noop)
	l.noops = append(l.noops, wallet.PendingTx{ID: wallet.ID{ChainID: c.ID(), Address: noop.To}, Nonce: signed.Nonce,
		Hashes: []chain.Hash{signed.Hash}, Raw: signed.Raw, Fees: fees})
	now = now.AddDate(0, 0, 1)
	l.pay(0, payee, 1_500_000, true)
	l.pay(1, payee, 9, false)
	return l
}

func (l *ledger) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// mine signs a transaction with a wallet's key and puts it into a block.
func (l *ledger) mine(from int, tx chain.Tx) chain.Signed {
	l.Helper()
	key := l.keys[from]
	signed, err := key.Sign(context.Background(), tx, l.nonces[key.Address()])
	l.must(err)
	l.nonces[key.Address()]++
	l.must(l.chain.MineExactly(signed.Raw))
	return signed
}

func (l *ledger) transfer(to token.Address, units uint64) chain.Tx {
	return chain.Tx{ChainID: l.chain.ID(), To: l.chain.Token().Contract, Data: chain.TransferData(to, token.Units(units)), Gas: 100_000,
		Fees: fees}
}

// pay makes a payment, and settles it if it is to be.
func (l *ledger) pay(from int, to token.Address, units uint64, settled bool) {
	l.Helper()
	key := fmt.Sprint("order-", len(l.payments))
	r := payment.Request{Merchant: "mer_1", Mode: "test", IdempotencyKey: key, To: to, Amount: token.Units(units), Reference: "=1+1"}
	at := nine.Add(time.Duration(len(l.payments)) * 24 * time.Hour)
	l.enter(from, payment.New(payment.KeyID("mer_1", "test", key), r, l.chain.Token(), "local", at).AssignedTo(l.keys[from].Address(),
		l.transfer(to, units)), settled)
}

// move makes an operator's transfer between wallets.
func (l *ledger) move(from, to int, coin token.Token, units uint64) {
	l.Helper()
	r := payment.Request{Merchant: payment.Operator, Mode: "test", IdempotencyKey: coin.Symbol, To: l.keys[to].Address(),
		Amount: token.Units(units)}
	p := payment.New(payment.KeyID(r.Merchant, r.Mode, r.IdempotencyKey), r, coin, "local", nine)
	tx := l.transfer(r.To, units)
	if p.Ether() {
		tx.To, tx.Value, tx.Data = r.To, r.Amount, nil
	}
	l.enter(from, p.AssignedTo(l.keys[from].Address(), tx), true)
}

// enter has the chain make p, and the tables settle it if they are to.
func (l *ledger) enter(from int, p payment.Payment, settled bool) {
	l.Helper()
	at := p.CreatedAt
	p, err := p.Commit(l.mine(from, p.Tx), at)
	l.must(err)
	if settled {
		receipts, err := l.node.Receipts(l.Context(), p.Hashes())
		l.must(err)
		if receipts[0].Succeeded {
			p, err = p.Confirm(receipts[0], at)
		} else {
			p, err = p.Fail(payment.ExecutionReverted, receipts[0], at)
		}
		l.must(err)
	}
	l.payments = append(l.payments, p)
}

// send sends ether from one wallet to an address.
func (l *ledger) send(from int, to token.Address, wei int64) chain.Hash {
	l.Helper()
	w := l.chain.Wallets()[from]
	key, err := crypto.ToECDSA(w.Key[:])
	l.must(err)
	tx, err := types.SignNewTx(key, types.LatestSignerForChainID(big.NewInt(int64(l.chain.ID()))), &types.DynamicFeeTx{
		ChainID: big.NewInt(int64(l.chain.ID())), Nonce: l.nonces[w.Address], To: new(common.Address(to)), Value: big.NewInt(wei), Gas: 21_000,
		GasTipCap: big.NewInt(1_000_000_000), GasFeeCap: big.NewInt(20_000_000_000),
	})
	l.must(err)
	raw, err := tx.MarshalBinary()
	l.must(err)
	l.nonces[w.Address]++
	l.must(l.chain.MineExactly(raw))
	return chain.Hash(tx.Hash())
}

// run runs a command against tables that change has changed.
func (l *ledger) run(change func([]payment.Payment) []payment.Payment, args ...string) (string, error) {
	l.Helper()
	tables := memory.NewPayments()
	all := slices.Clone(l.payments)
	if change != nil {
		all = change(all)
	}
	l.fill(tables, all)
	l.must(tables.SetSettings(l.Context(), settings.Default()))
	server := httptest.NewServer(operator.Local{
		Payments: tables, Keys: new(memory.APIKeys), Nodes: l.urls,
		Config: stack.Config{ChainID: l.chain.ID(), Token: l.chain.Token(), Own: stack.Own{Window: 16}},
		Health: func() []chain.Health { return nil }, Keyed: func() []token.Address { return nil },
	})
	defer server.Close()
	asked, err := json.Marshal(map[string]any{"Args": args, "Dir": l.dir})
	l.must(err)
	answer, err := http.Post(server.URL, "application/json", bytes.NewReader(asked))
	l.must(err)
	defer func() { _ = answer.Body.Close() }()
	var ended struct{ Out, Error, Consequences string }
	l.must(json.NewDecoder(answer.Body).Decode(&ended))
	if ended.Error != "" {
		return ended.Out, errors.New(ended.Error + ended.Consequences)
	}
	return ended.Out, nil
}

// fill puts payments, the no-ops and the wallets into tables.
func (l *ledger) fill(tables store.Store, all []payment.Payment) {
	l.Helper()
	for _, p := range all {
		prepared := p
		prepared.State, prepared.Attempts = payment.Prepared, nil
		_, _, err := tables.Create(l.Context(), prepared)
		l.must(err)
		committed := p
		committed.State = payment.Committed
		l.must(tables.Commit(l.Context(), committed))
		if p.State.Final() {
			l.must(tables.Finish(l.Context(), p))
		}
	}
	for _, tx := range l.noops {
		l.must(tables.PutNoop(l.Context(), tx))
	}
	for _, key := range l.keys {
		l.must(tables.Register(l.Context(), wallet.Registration{ID: wallet.ID{ChainID: l.chain.ID(), Address: key.Address()},
			State: wallet.Active, Key: wallet.InSecret}))
	}
}

// auditedEther is one wallet's ether in it.
type auditedEther struct {
	Wallet                                          token.Address
	Opening, Received, Closing, Noops, Own, Unknown token.Amount
	Moved                                           token.Amount `json:"operator_transfers"`
	Payments                                        token.Amount `json:"network_fees"`
	Unrecorded                                      token.Amount `json:"network_fees_not_in_the_tables"`
}

// audited is the answer of remit audit --json, as far as tests read it.
type audited struct {
	Sums []struct {
		Wallet    token.Address
		Day, Kind string
		Count     int
		Amount    token.Amount
		Fees      token.Amount `json:"fees_wei"`
	}
	Ether       []auditedEther
	Differences []struct{ Kind, What string }
}

func (l *ledger) audit(args ...string) (a audited) {
	l.Helper()
	out, err := l.run(nil, append([]string{"audit", "--json"}, args...)...)
	l.must(err)
	l.must(json.Unmarshal([]byte(out), &a))
	return a
}

// TestAuditOfBooksThatBalance: every unit and every wei that left the wallets is in the
// books, by wallet, day and kind, and ether that came in is told from it.
func TestAuditOfBooksThatBalance(t *testing.T) {
	l := newLedger(t)
	const topUp = 123_456_789_012_345
	own := l.send(1, l.keys[0].Address(), topUp)
	got := l.audit("--own", own.String())
	found := map[string]int{}
	sum := token.Amount{}
	for _, s := range got.Sums {
		found[fmt.Sprint(s.Day, " ", s.Kind)] += s.Count
		sum, _ = sum.Add(s.Amount)
	}
	want := "map[2026-01-02 failed and known:1 2026-01-02 no-op:1 2026-01-02 paid and known:2 2026-01-03 paid and known:1 " +
		"2026-01-03 paid and pending:1 2026-01-03 your own:1]"
	if fmt.Sprint(found) != want || sum != token.Units(5+6+1_500_000+9) {
		t.Errorf("%v, %v units; want %s", found, sum, want)
	}
	facts, err := l.chain.Facts(t.Context())
	l.must(err)
	for i, e := range got.Ether {
		at := slices.IndexFunc(facts.Wallets, func(w devnet.WalletFacts) bool { return w.Address == e.Wallet })
		if e.Closing != facts.Wallets[at].GasBalance {
			t.Errorf("%s has %v, the audit says %v", e.Wallet, facts.Wallets[at].GasBalance, e.Closing)
		}
		left, received := token.Amount{}, token.Amount{}
		for _, part := range []token.Amount{e.Payments, e.Unrecorded, e.Noops, e.Own, e.Unknown} {
			left, _ = left.Add(part)
		}
		booked := token.Amount{}
		for _, p := range l.payments {
			if p.Wallet == e.Wallet && p.Fee != nil {
				booked, _ = booked.Add(*p.Fee)
			}
		}
		if e.Wallet == l.keys[0].Address() {
			received = token.Units(topUp)
		}
		before := token.Units(1_000_000_000_000_000_000)
		before, _ = before.Times(1_000) // walletGas
		after, _ := before.Add(received)
		if e.Opening != before || e.Received != received || e.Closing != after.Sub(left) || e.Payments != booked || !e.Unknown.IsZero() {
			t.Errorf("wallet %d: %+v; want %v before, %v received, fees of %v", i, e, before, received, booked)
		}
	}
	if text, err := l.run(nil, "audit", "--own", own.String()); err != nil || !strings.Contains(text, "\nNo difference.") ||
		!strings.Contains(text, "received ") {
		t.Errorf("%v:\n%s", err, text)
	}
	text, err := l.run(nil, "audit", "--csv", "--no-ether")
	rows, parse := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err = errors.Join(err, parse); err != nil || strings.Join(rows[0], ",") != "wallet,day,kind,count,amount,amount_decimal,fees_wei" ||
		len(rows) != 5 || !strings.Contains(text, ",1500000,1.5,0\n") {
		t.Errorf("%v, %q", err, text)
	}
}

// TestAuditOfTransfers: what an operator moved between wallets is in the books as such, to
// the unit and the wei, and held against the chain.
func TestAuditOfTransfers(t *testing.T) {
	l := newLedger(t)
	l.move(0, 1, l.chain.Token(), 40)
	l.move(0, 1, payment.Ether, 777)
	got := l.audit()
	sender := slices.IndexFunc(got.Ether, func(e auditedEther) bool {
		return e.Wallet == l.keys[0].Address()
	})
	count, coins := 0, token.Amount{}
	for _, s := range got.Sums {
		if s.Kind == "operator transfer" {
			count += s.Count
			coins, _ = coins.Add(s.Amount)
		}
	}
	from, to := got.Ether[sender], got.Ether[1-sender]
	if count != 2 || coins != token.Units(40) || from.Moved != token.Units(777) || !from.Received.IsZero() || !to.Moved.IsZero() ||
		to.Received != token.Units(777) {
		t.Errorf("%d transfers of %v units: %+v", count, coins, got)
	}
	last := len(l.payments) - 1
	for name, test := range map[string]struct {
		change func(*payment.Payment)
		want   string
	}{
		"another amount": {func(p *payment.Payment) { p.Amount = token.Units(778) }, "777 wei to"},
		"it failed": {func(p *payment.Payment) {
			p.State, p.Failure = payment.Failed, &payment.Failure{Code: payment.TransferMissing}
		}, "777 wei to"},
		"another transaction": {func(p *payment.Payment) {
			p.Attempts = []payment.Attempt{{Hash: chain.Hash{1}}}
			p.TxHash, p.Onchain = chain.Hash{1}, chain.Hash{1}
		}, "known and not on the chain"},
	} {
		_, err := l.run(func(all []payment.Payment) []payment.Payment { test.change(&all[last]); return all }, "audit")
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	text, err := l.run(nil, "export", "--merchant", payment.Operator, "--csv")
	if err != nil || strings.Count(text, "\n") != 3 || !strings.Contains(text, ",ETH,18,") {
		t.Errorf("%v:\n%s", err, text)
	}
}

// TestAuditOfASource: a transfer of the coins of a source that a stored payment names is
// compared with the tables if a wallet made it. Its owner's are left out.
func TestAuditOfASource(t *testing.T) {
	l := newLedger(t)
	source := l.keys[1].Address()
	approve := l.transfer(l.keys[0].Address(), 1_000)
	copy(approve.Data, []byte{0x09, 0x5e, 0xa7, 0xb3}) // approve(address,uint256) has the arguments of transfer
	l.mine(1, approve)
	l.keys = l.keys[:1]
	l.payments = slices.DeleteFunc(l.payments, func(p payment.Payment) bool { return p.Wallet == source })
	r := payment.Request{Merchant: "mer_1", Mode: "test", IdempotencyKey: "of the source", To: payee, Amount: token.Units(20)}
	p := payment.New(payment.KeyID("mer_1", "test", r.IdempotencyKey), r, l.chain.Token(), "local", nine)
	p.Source = source
	tx := l.transfer(payee, 20)
	tx.Data = p.CallData(true)
	l.enter(0, p.AssignedTo(l.keys[0].Address(), tx), true)
	p = l.payments[len(l.payments)-1]
	receipts, err := l.node.Receipts(t.Context(), p.Hashes())
	l.must(err)
	if verdict := p.Judge(receipts[0]); verdict != chain.Transferred || !p.Memo() {
		t.Errorf("%s, with memo: %t", verdict, p.Memo())
	}
	sum := token.Amount{}
	for _, s := range l.audit().Sums {
		sum, _ = sum.Add(s.Amount)
	}
	if sum != token.Units(5+1_500_000+20) {
		t.Errorf("%s units in the books", sum)
	}
	stolen := l.mine(0, chain.Tx{ChainID: l.chain.ID(), To: tx.To,
		Data: chain.TransferFromData(source, token.Address{0xdd}, token.Units(77)), Gas: 100_000, Fees: fees})
	if _, err := l.run(nil, "audit", "--no-ether"); err == nil || !strings.Contains(err.Error(), "1 differences") ||
		!strings.Contains(err.Error(), "unknown: "+stolen.Hash.String()) {
		t.Errorf("coins that a thief of a wallet's key took: %v", err)
	}
}

// TestMoments: blocks are said by their numbers or by times, and one that cannot be is
// refused before anything is read or changed.
func TestMoments(t *testing.T) {
	l := newLedger(t)
	const midnight = "2026-01-03T00:00:00Z"
	for day, args := range map[string][]string{"2026-01-02": {"--to", midnight}, "2026-01-03": {"--from", midnight}} {
		got := l.audit(append(args, "--no-ether")...)
		for _, s := range got.Sums {
			if s.Day != day {
				t.Errorf("%v: %+v", args, s)
			}
		}
		if len(got.Sums) == 0 {
			t.Errorf("%v: nothing", args)
		}
	}
	for line, want := range map[string]string{
		"audit --from noon":                          `"noon" is neither the number of a block nor a time such as 2026-01-31T18:30:00Z`,
		"audit --from 2999-01-01T00:00:00Z":          "2999-01-01T00:00:00Z is yet to come",
		"audit --to 2025-01-01T00:00:00Z":            "--to is before the chain's first block",
		"audit --to 2026-02-01T00:00:00Z":            "--to is later than block ",
		"recover --since 0":                          "up to 128 transactions that move nothing",
		"recover --since 0 --window 127":             "up to 128 transactions",
		"recover --since 0 --window 129":             "up to 129 transactions",
		"recover --yes --since 2026-01-03":           "is neither the number of a block nor a time",
		"recover --yes --since 9999":                 "--since 9999 is beyond block ",
		"recover --yes --since 2999-01-01T00:00:00Z": "2999-01-01T00:00:00Z is yet to come",
	} {
		if out, err := l.run(nil, strings.Fields(line)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q\n%s", line, err, want, out)
		}
	}
}

// TestAuditFindsEachDifference: whatever the tables and the chain differ on is named, and
// is an error.
func TestAuditFindsEachDifference(t *testing.T) {
	l := newLedger(t)
	alter := func(i int, change func(*payment.Payment)) func([]payment.Payment) []payment.Payment {
		return func(all []payment.Payment) []payment.Payment {
			change(&all[i])
			return all
		}
	}
	id, hash := func(i int) string { return string(l.payments[i].ID) }, func(i int) string { return l.payments[i].TxHash.String() }
	for _, row := range []struct {
		name   string
		change func([]payment.Payment) []payment.Payment
		want   []string
	}{
		{"an item that was deleted", func(all []payment.Payment) []payment.Payment { return slices.Delete(all, 0, 1) },
			[]string{"1 differences", "on the chain and unknown: " + hash(0), "0.000005 USDC to " + payee.String()}},
		{"an amount that was changed", alter(1, func(p *payment.Payment) { p.Amount = token.Units(600) }),
			[]string{"1 differences", "differs: " + hash(1) + " " + id(1), "0.000006 USDC", "the tables say 0.0006 USDC"}},
		{"a recipient that was changed", alter(1, func(p *payment.Payment) { p.To = token.Address{0xcc} }),
			[]string{"2 differences", "unknown: " + hash(1) + " " + id(1), "known and not on the chain: " + hash(1) + " " + id(1)}},
		{"a payment that ended otherwise", alter(1, func(p *payment.Payment) {
			p.State, p.Failure = payment.Failed, &payment.Failure{Code: payment.TransferMissing}
		}), []string{"1 differences", "differs: " + hash(1), "the tables have it as failed: transfer_missing"}},
		{"a payment that the chain reverted", alter(2, func(p *payment.Payment) { p.State, p.Failure = payment.Confirmed, nil }),
			[]string{"1 differences", "known and not on the chain: " + hash(2) + " " + id(2), "0.000007 USDC"}},
		{"another block", alter(0, func(p *payment.Payment) { p.Block++ }),
			[]string{"1 differences", "differs: " + hash(0), "the tables say transaction " + hash(0) + " in block"}},
		{"a fee that was changed", alter(0, func(p *payment.Payment) { p.Fee = new(token.Units(1)) }),
			[]string{"1 differences", "differs: " + hash(0), "the tables say 1"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			out, err := l.run(row.change, "audit")
			for _, want := range row.want {
				if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(out, "No difference") {
					t.Errorf("%v: want %q in:\n%s", err, want, out)
				}
			}
		})
	}
	foreign, drained := l.mine(0, l.transfer(token.Address{0xdd}, 77)), l.send(1, token.Address{0xdd}, 5)
	_, err := l.run(nil, "audit")
	for _, want := range []string{"2 differences", "unknown: " + foreign.Hash.String(), "0.000077 USDC to 0xdD",
		"unknown: " + drained.String(), "5 wei to 0xdD"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("transactions of a stranger: %v, want %q", err, want)
		}
	}
	if _, err := l.run(nil, "audit", "--no-ether"); err == nil || !strings.Contains(err.Error(), "1 differences") {
		t.Errorf("without the ether: %v, want the transfer alone", err)
	}
	got := l.audit("--own", foreign.Hash.String(), "--own", drained.String())
	if len(got.Differences) != 0 {
		t.Errorf("%+v: the operator has named both", got.Differences)
	}
}

// TestAuditNeedsNodesThatAgree: a node that gives other transfers, or none, is named, and
// nothing is concluded.
func TestAuditNeedsNodesThatAgree(t *testing.T) {
	l := newLedger(t)
	// A request whose answer takes two seconds is sent again: two may be served at once.
	var logs atomic.Int64
	var lies atomic.Bool
	liar := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, _ := io.ReadAll(r.Body)
		answer, err := http.Post(l.chain.URL(), "application/json", bytes.NewReader(asked))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer func() { _ = answer.Body.Close() }()
		body, _ := io.ReadAll(answer.Body)
		if bytes.Contains(asked, []byte("eth_getLogs")) {
			logs.Add(1)
			if lies.Load() {
				body = bytes.Replace(body, []byte(`0011"`), []byte(`0022"`), 1)
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
	}))
	defer liar.Close()
	l.urls = append(l.urls, liar.URL)
	keep := filepath.Join(l.dir, "kept")
	if out, err := l.run(nil, "audit", "--keep", "kept"); err != nil || logs.Load() != 1 {
		t.Fatalf("both are honest: %v, %d requests for logs\n%s", err, logs.Load(), out)
	}
	lies.Store(true)
	if out, err := l.run(nil, "audit"); err == nil || !strings.Contains(err.Error(), "nodes disagree") ||
		!strings.Contains(err.Error(), strings.TrimPrefix(liar.URL, "http://")) || out != "" {
		t.Errorf("one lies: %v\n%s", err, out)
	}
	// What was kept is not asked for again, and a line that a killed process left half
	// written is.
	logs.Store(0)
	file, err := os.ReadFile(keep)
	l.must(err)
	if _, err := l.run(nil, "audit", "--keep", keep); err != nil || logs.Load() != 0 {
		t.Errorf("everything was kept: %v, %d requests for logs", err, logs.Load())
	}
	l.mine(0, l.transfer(token.Address{0xdd}, 77))
	lies.Store(false)
	l.must(os.WriteFile(keep, append(file, `{"Chain":1337,"Fir`...), 0o600))
	if _, err := l.run(nil, "audit", "--keep", keep); err == nil || !strings.Contains(err.Error(), "0.000077 USDC") || logs.Load() != 1 {
		t.Errorf("a new transfer: %v, %d requests for logs", err, logs.Load())
	}
	if _, err := l.run(nil, "audit", "--keep", keep, "--from", "1"); err == nil || !strings.Contains(err.Error(), "is of another audit") {
		t.Errorf("the file of another range: %v", err)
	}
	for _, row := range [][2]string{{"--from", "is beyond block"}, {"--to", "every node calls final: wait"}} {
		if _, err := l.run(nil, "audit", row[0], "1000000"); err == nil || !strings.Contains(err.Error(), row[1]) {
			t.Errorf("%s in the future: %v", row[0], err)
		}
	}
	liar.Close()
	if _, err := l.run(nil, "audit"); err == nil || !strings.Contains(err.Error(), "every configured node must answer") {
		t.Errorf("one is down: %v", err)
	}
}

// TestExport: every payment of a time, whole, and in two forms.
func TestExport(t *testing.T) {
	l := newLedger(t)
	for _, row := range []struct {
		line string
		want []uint64 // amounts, in any order
	}{
		{"export", []uint64{5, 6, 7, 9, 1_500_000}},
		{"export --merchant mer_1", []uint64{5, 6, 7, 9, 1_500_000}},
		{"export --merchant mer_2", nil},
		{"export --since 2026-01-03 --until 2026-01-04", []uint64{6, 7}},
		{"export --merchant mer_1 --since 2026-01-03 --until 2026-01-04", []uint64{6, 7}},
		{"export --since 2026-01-05", []uint64{9, 1_500_000}},
	} {
		text, err := l.run(nil, strings.Fields(row.line)...)
		l.must(err)
		var amounts []uint64
		for line := range strings.Lines(text) {
			var p struct {
				Amount   uint64
				Decimal  string  `json:"amount_decimal"`
				Merchant string  `json:"merchant_id"`
				Fee      *uint64 `json:"network_fee"`
			}
			l.must(json.Unmarshal([]byte(line), &p))
			amounts = append(amounts, p.Amount)
			if p.Merchant != "mer_1" || p.Amount == 1_500_000 && p.Decimal != "1.5" || (p.Fee == nil) != (p.Amount == 9) {
				t.Errorf("remit %s: %s", row.line, line)
			}
		}
		slices.Sort(amounts)
		if !slices.Equal(amounts, row.want) {
			t.Errorf("remit %s: amounts %v, want %v", row.line, amounts, row.want)
		}
		text, err = l.run(nil, append(strings.Fields(row.line), "--csv")...)
		rows, parse := csv.NewReader(strings.NewReader(text)).ReadAll()
		if err = errors.Join(err, parse); err != nil || len(rows) != len(row.want)+1 ||
			!strings.HasPrefix(text, "id,merchant_id,idempotency_key,paid_by,amount_decimal,tx_hash,status,amount,") {
			t.Errorf("remit %s --csv: %v\n%s", row.line, err, text)
		}
		if len(row.want) > 0 && !strings.Contains(text, ",'=1+1,{},") {
			t.Errorf("remit %s --csv: a spreadsheet would take the reference for a formula:\n%s", row.line, text)
		}
	}
	if _, err := l.run(nil, "export", "--since", "2026-01-05", "--until", "2026-01-04"); err == nil ||
		!strings.Contains(err.Error(), "is before --since") {
		t.Errorf("no time at all: %v", err)
	}
}

// TestAuditOfABatch: each entry of a batch is held against a log of its own.
func TestAuditOfABatch(t *testing.T) {
	l := newLedger(t)
	entries := []payment.Entry{{To: payee, Amount: token.Units(30)}, {To: token.Address{0x33}, Amount: token.Units(40)},
		{To: payee, Amount: token.Units(30)}}
	r, _ := payment.Request{Merchant: "mer_1", Mode: "test", IdempotencyKey: "batch"}.Batch(entries)
	p := payment.New(payment.KeyID(r.Merchant, r.Mode, r.IdempotencyKey), r, l.chain.Token(), "local", nine)
	p.BatchContract = disburser.Address()
	call := p.Call(l.keys[0].Address(), true)
	l.enter(0, p.AssignedTo(call.From, chain.Tx{ChainID: l.chain.ID(), To: call.To, Data: call.Data, Gas: 500_000, Fees: fees}), true)
	count, sum := 0, token.Amount{}
	for _, s := range l.audit().Sums {
		if s.Kind == "paid and known" {
			count += s.Count
			sum, _ = sum.Add(s.Amount)
		}
	}
	if count != 3+3 || sum != token.Units(5+6+1_500_000+100) {
		t.Errorf("%d transfers of %v units are paid and known", count, sum)
	}
	last := len(l.payments) - 1
	for want, change := range map[string]func([]payment.Entry) []payment.Entry{
		"0.00003 USDC to " + payee.String() + " in block 9; the tables say 0.000031 USDC": func(e []payment.Entry) []payment.Entry {
			e[2].Amount = token.Units(31)
			return e
		},
		"0.00003 USDC to " + payee.String() + " in block 9, by the transaction of a payment " +
			"of 0.0001 USDC to 2 recipients": func(e []payment.Entry) []payment.Entry {
			return e[:2]
		},
		"the tables have it as confirmed in block 9: 0.0001 USDC to 4 recipients": func(e []payment.Entry) []payment.Entry {
			return append(e,
				e[0])
		},
	} {
		_, err := l.run(func(all []payment.Payment) []payment.Payment {
			all[last].Entries = change(slices.Clone(entries))
			return all
		}, "audit")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}
