package chain_test

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/tabletest"
)

// wei draws a price: up to about 18 ether per gas, far beyond any market.
func wei() *rapid.Generator[token.Amount] {
	return rapid.Map(rapid.Uint64(), token.Units)
}

// TestBump is the rule of replacements: nodes refuse a replacement that raises either field by less
// than a tenth, and no node wants more than an eighth.
func TestBump(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old := chain.QuoteFees(wei().Draw(t, "old base fee"), wei().Draw(t, "old tip"), token.Amount{})
		market := chain.QuoteFees(wei().Draw(t, "base fee"), wei().Draw(t, "tip"), token.Amount{})
		limit := rapid.OneOf(rapid.Just(token.Amount{}), wei()).Draw(t, "limit")
		bumped, ok := old.Bump(market, limit)
		if !ok {
			if bumped != old {
				t.Fatalf("refused, and changed %v to %v", old, bumped)
			}
			if limit.IsZero() {
				t.Fatalf("refused %v without a limit", old)
			}
			if room := old.Cap.ScaleUp(9, 8); !limit.Less(room) && old.Tip.ScaleUp(9, 8).Less(limit) {
				t.Fatalf("refused %v although %v leaves room", old, limit)
			}
			return
		}
		eighth := func(name string, before, after token.Amount) {
			a, _ := after.Times(8)
			b, _ := before.Times(9)
			if a.Less(b) || before == after {
				t.Fatalf("%s went from %v to %v: less than an eighth more", name, before, after)
			}
		}
		eighth("tip", old.Tip, bumped.Tip)
		eighth("cap", old.Cap, bumped.Cap)
		if bumped.Cap.Less(bumped.Tip) {
			t.Fatalf("tip %v above cap %v", bumped.Tip, bumped.Cap)
		}
		if !limit.IsZero() && limit.Less(bumped.Cap) {
			t.Fatalf("cap %v above the limit %v", bumped.Cap, limit)
		}
		if limit.IsZero() && (bumped.Cap.Less(market.Cap) || bumped.Tip.Less(market.Tip)) {
			t.Fatalf("%v is below the market %v", bumped, market)
		}
	})
}

func TestFeesAtTheEndOfTheRange(t *testing.T) {
	most := token.MaxAmount()
	if fees := chain.QuoteFees(most, most, token.Amount{}); fees.Cap != most || fees.Tip != most {
		t.Errorf("an absurd base fee gives %v, want it to saturate", fees)
	}
	if fees := chain.QuoteFees(most, token.Units(1), token.Amount{}); fees.Cap != most || fees.Tip != token.Units(1) {
		t.Errorf("a base fee that cannot double gives %v, want it to saturate", fees)
	}
	tx := chain.Noop(5, token.Address{7}, chain.Fees{Cap: most})
	if tx.Cost() != most || tx.To != (token.Address{7}) || tx.Gas != chain.NoopGas || len(tx.Data) != 0 {
		t.Errorf("cost %v, want it to saturate so that nobody can afford it", tx.Cost())
	}
	tx = chain.Tx{Gas: 1, Fees: chain.Fees{Cap: token.Units(1)}, L1Fee: most}
	if tx.Value = token.Units(1); tx.Cost() != most {
		t.Errorf("cost with the fee of its data %v", tx.Cost())
	}
	if tx.L1Fee = token.Units(2); tx.Cost() != token.Units(4) {
		t.Errorf("cost with a value %v", tx.Cost())
	}
}

// TestOutbid: the tip doubles within the limit, and the cap never falls.
func TestOutbid(t *testing.T) {
	fees := func(tip, feeCap uint64) chain.Fees {
		return chain.Fees{Tip: token.Units(tip), Cap: token.Units(feeCap)}
	}
	for _, c := range []struct {
		f     chain.Fees
		limit uint64
		want  chain.Fees
		ok    bool
	}{
		{fees(10, 1_000), 1_000, fees(20, 1_000), true},
		{fees(0, 950), 1_000, fees(1, 1_000), true},
		{fees(600, 1_000), 1_000, fees(1_000, 1_000), true},
		{fees(1_000, 1_000), 1_000, fees(1_000, 1_000), false},
		{fees(10, 1_000), 999, fees(10, 1_000), false},
		{fees(10, 1_000), 0, fees(10, 1_000), false},
	} {
		if got, ok := c.f.Outbid(token.Units(c.limit)); got != c.want || ok != c.ok {
			t.Errorf("%v within %d: %v, %t", c.f, c.limit, got, ok)
		}
	}
}

func TestToNewHolders(t *testing.T) {
	transfer := chain.TransferData(token.Address{1}, token.Units(5))
	approval := slices.Concat([]byte{0x09, 0x5e, 0xa7, 0xb3}, transfer[4:])
	for why, data := range map[string][]byte{"a no-op": nil, "another method": approval, "less than a transfer": transfer[:67]} {
		if c, n := (chain.Call{Data: data}).ToNewHolders(); n > 0 || !bytes.Equal(c.Data, data) {
			t.Errorf("%s is taken for a transfer: %x", why, c.Data)
		}
	}
	for why, data := range map[string][]byte{
		"a transfer": transfer, "one with a memo": append(slices.Clone(transfer), 7),
	} {
		before, at := slices.Clone(data), 16
		c, n := (chain.Call{Data: data}).ToNewHolders()
		if n != 1 || !bytes.Equal(data, before) || bytes.Equal(c.Data[at:at+20], data[at:at+20]) || !bytes.Equal(c.Data[:at], data[:at]) ||
			!bytes.Equal(c.Data[at+20:], data[at+20:]) {
			t.Errorf("%s of %x is to %d new holders %x", why, data, n, c.Data)
		}
	}
	for size, want := range map[int]uint64{2: 1, 10: 1, 11: 2, 100: 10} {
		entries := make([]disburser.Entry, size)
		for i := range entries {
			entries[i] = disburser.Entry{To: token.Address{byte(i)}, Amount: token.Units(5)}
		}
		c, n := (chain.Call{Data: disburser.Calldata(token.Address{1}, entries, []byte{7})}).ToNewHolders()
		coin, changed, rest, ok := disburser.Parse(c.Data)
		for i := range changed {
			if (changed[i] != entries[i]) != (i%10 == 0) || changed[i].Amount != entries[i].Amount {
				t.Errorf("entry %d of %d is %v", i, size, changed[i])
			}
		}
		if n != want || !ok || len(changed) != size || coin != (token.Address{1}) || !bytes.Equal(rest, []byte{7}) {
			t.Errorf("a batch of %d is to %d new holders, want %d", size, n, want)
		}
	}
}

// TestAsks: equal prices ask for no bump.
func TestAsks(t *testing.T) {
	paid := chain.Fees{Tip: token.Units(2), Cap: token.Units(10)}
	for m, want := range map[chain.Market]bool{
		{BaseFee: token.Units(8), Tip: token.Units(2)}: false, {BaseFee: token.Units(9), Tip: token.Units(2)}: true,
		{BaseFee: token.Units(1), Tip: token.Units(3)}: true, {BaseFee: token.MaxAmount(), Tip: token.Units(1)}: true,
	} {
		if m.Asks(paid) != want {
			t.Errorf("%+v asks for more than %+v: %t", m, paid, !want)
		}
	}
}

// TestFits: a gas limit is an estimate and a fifth of it.
func TestFits(t *testing.T) {
	for estimate, want := range map[uint64]bool{25_000: true, 25_001: false} {
		if chain.Fits(estimate, 30_000) != want {
			t.Errorf("%d fits into a block of 30,000: %t", estimate, !want)
		}
	}
}

// TestL1Reserve: a transaction as large as many transfers, or with the gas of many, may pay the L1 fee as often.
func TestL1Reserve(t *testing.T) {
	market := chain.Market{L1Fee: token.Units(5)}
	for _, row := range []struct{ data, gas, want uint64 }{{0, 21_000, 10}, {88, 90_000, 10}, {89, 90_000, 20},
		{88, 300_001, 20}, {132 + 3200 + 20, 4_000_000, 180}} {
		if got := market.L1Reserve(chain.Tx{Data: make([]byte, row.data), Gas: row.gas}); got != token.Units(row.want) {
			t.Errorf("%d bytes and %d gas reserve %v, want %d", row.data, row.gas, got, row.want)
		}
	}
}

// TestGasUnit: where the token is the gas, a payment takes amount and gas from one balance, rounded up to its smallest
// unit, and nothing of ether; no sum is less than the chain takes.
func TestGasUnit(t *testing.T) {
	units := token.Units
	for _, row := range []struct {
		unit                    chain.GasUnit
		amount, cost, coin, gas token.Amount
	}{
		{0, units(5), units(7), units(5), units(7)},
		{10, units(5), units(0), units(5), units(0)},
		{10, units(5), units(1), units(6), units(0)},
		{10, units(5), units(10), units(6), units(0)},
		{10, units(5), units(11), units(7), units(0)},
		{1, units(5), units(7), units(12), units(0)},
		{10, token.MaxAmount(), units(1), token.MaxAmount(), units(0)},
		{10, units(5), token.MaxAmount(), token.MaxAmount().ScaleUp(1, 10), units(0)},
	} {
		coin, gas := row.unit.Takes(row.amount, row.cost)
		if row.cost == token.MaxAmount() { // absurd, and refused as such
			row.coin, _ = row.coin.Add(row.amount)
		}
		if coin != row.coin || gas != row.gas {
			t.Errorf("%d a unit: %s and %s take %s and %s, want %s and %s", row.unit, row.amount, row.cost, coin, gas, row.coin, row.gas)
		}
	}
	if wei := chain.GasUnit(10).Pays(units(3), units(9)); wei != units(30) || chain.GasUnit(0).Pays(units(3), units(9)) != units(9) {
		t.Errorf("pays %s", wei)
	}
}

// TestGasRule: only the token that is the gas pays it.
func TestGasRule(t *testing.T) {
	coin, other := token.Token{Decimals: 6, Contract: token.Address{1}}, token.Token{Decimals: 6, Contract: token.Address{2}}
	for _, row := range []struct {
		rule chain.GasRule
		of   token.Token
		want chain.GasUnit
	}{
		{chain.GasRule{}, coin, 0},
		{chain.GasRule{InToken: true}, coin, 1_000_000_000_000},
		{chain.GasRule{InToken: true, Token: coin.Contract}, coin, 1_000_000_000_000},
		{chain.GasRule{InToken: true, Token: coin.Contract}, other, 0},
		{chain.GasRule{InToken: true}, token.Token{Decimals: 18}, 1},
	} {
		if got := row.rule.Unit(row.of); got != row.want {
			t.Errorf("%+v of %+v: %d, want %d", row.rule, row.of, got, row.want)
		}
	}
}

// TestMoves: transfers to and from the account of a rule are fees and fractions; without one none is.
func TestMoves(t *testing.T) {
	fees, other := token.Address{1}, token.Address{2}
	for _, row := range []struct {
		account, from, to token.Address
		want              bool
	}{
		{fees, other, fees, true},
		{fees, fees, other, true},
		{fees, other, other, false},
		{nobody, nobody, other, false}, // a mint
	} {
		if got := (chain.GasRule{Account: row.account}).Moves(chain.Transfer{From: row.from, To: row.to}); got != row.want {
			t.Errorf("%+v: %v", row, got)
		}
	}
}

// priced is a node that answers in time and says n for each price.
func priced(n uint64) *stub { return &stub{gas: n, takes: always(usual)} }

func TestFees(t *testing.T) {
	never := &stub{gas: 9, takes: always(time.Hour)}
	for _, test := range []struct {
		why       string
		nodes     []*stub
		base, tip uint64
		took      time.Duration
	}{
		{"one node is believed", []*stub{priced(5)}, 5, 5, usual},
		{"of two the larger base fee and the smaller tip", []*stub{priced(5), priced(7)}, 7, 5, usual},
		{"of two one alone, at its tip", []*stub{{gas: 5, greed: 8, takes: always(usual)}, {down: true, takes: always(usual)}}, 5, 40, usual},
		{"of three the middle", []*stub{priced(7_000), priced(5), priced(6)}, 6, 6, usual},
		{"of four the middle two", []*stub{priced(7_000), priced(5), priced(6), priced(0)}, 6, 5, usual},
		{"a late node is not waited for", []*stub{never, priced(5), priced(6)}, 6, 5, usual + 500*time.Millisecond},
		{"a slow node is", []*stub{priced(5), {gas: 6, takes: always(499 * time.Millisecond)}}, 6, 5, 499 * time.Millisecond},
		{"while none has answered all are", []*stub{{down: true, takes: always(usual)},
			{gas: 6, takes: always(9 * time.Second)}}, 6, 6, 9 * time.Second},
	} {
		t.Run(test.why, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := slowly(test.nodes...)
				var got chain.Market
				var err error
				took := took(func() { got, err = nodes.Fees(t.Context()) })
				want := chain.Market{BaseFee: token.Units(test.base), Tip: token.Units(test.tip), L1Fee: token.Units(test.base)}
				if err != nil || got != want || took != test.took {
					t.Errorf("%v, %v after %v; want %v after %v", got, err, took, want, test.took)
				}
				for i, h := range nodes.Health() {
					if late := test.nodes[i] == never || test.nodes[i].down; (h.Missed == 1) != late {
						t.Errorf("node %s missed %d", h.Node, h.Missed)
					}
				}
			})
		})
	}
}

// TestOneFastNodeOfThree sets no price: a second answer is awaited, and a third if the two differ and none was agreed
// of late. A node that answers alone sets at most the last agreed tip. In a new process, the base fee is its bound.
func TestOneFastNodeOfThree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		greedy, b, c := priced(200_000), priced(100), priced(100)
		quote := func(why string, nodes chain.Nodes, base, tip uint64, within time.Duration) {
			t.Helper()
			began := time.Now()
			got, err := nodes.Fees(t.Context())
			want := chain.Market{BaseFee: token.Units(base), Tip: token.Units(tip), L1Fee: token.Units(base)}
			if took := time.Since(began); (err == nil) != (base > 0) || err == nil && got != want || took > within {
				t.Errorf("%s: %v, %v after %v, want %v", why, got, err, took, want)
			}
			synctest.Wait()
		}
		b.takes, c.takes = always(600*time.Millisecond), always(600*time.Millisecond)
		nodes := slowly(greedy, b, c)
		quote("the others are slow", nodes, 100, 100, 600*time.Millisecond)
		nodes.Deliver(t.Context(), []byte("x"), nil)
		health(t, nodes, chain.Health{Node: "a", Slowest: usual}, chain.Health{Node: "b", Slowest: 30 * usual},
			chain.Health{Node: "c", Slowest: 30 * usual})
		b.down, b.takes = true, always(usual) // an error is no reply
		nodes.Deliver(t.Context(), []byte("x"), nil)
		health(t, nodes, chain.Health{Node: "a"}, chain.Health{Node: "b"}, chain.Health{Node: "c"})
		b.down, b.gas, greedy.gas, c.takes = false, 1, 300, always(900*time.Millisecond)
		quote("in a new process the third is waited for", slowly(greedy, b, c), 100, 100, 2*time.Second)
		greedy.greed, b.greed, c.greed = 9, 9, 9
		quote("also if the tips agree", slowly(greedy, b, c), 100, 0, 2*time.Second)
		greedy.greed, b.greed, c.greed = 1, 1, 1
		b.gas, c.gas, c.takes, greedy.takes = 100, 3_000, always(usual), always(9*time.Second)
		nodes = slowly(greedy, b, c)
		quote("but not for ever, where two differ", nodes, 3_000, 100, 2*time.Second)
		c.gas = 300
		quote("and then the lower tip counts as agreed", nodes, 300, 100, 2*time.Second)
		c.down, greedy.down = true, true
		quote("and no base fee", nodes, 100, 100, time.Second)
		greedy.takes, greedy.gas, greedy.greed, b.down, greedy.down, c.gas = always(usual), 0, 8, true, false, 100
		quote("one answers alone, and nothing is known", slowly(greedy, b, c), 0, 0, 2*time.Second)
		greedy.gas = 100
		quote("but a base fee", slowly(greedy, b, c), 100, 100, time.Second)
		for _, row := range []struct{ agreed, minutes, greedy, b, want uint64 }{ // tips by base fees; 9: 0; b 0: down
			{1, 60, 1, 0, 1}, {1, 60, 8, 0, 1}, {8, 60, 1, 0, 1}, {9, 60, 8, 0, 0}, {9, 60, 9, 0, 0},
			{1, 3, 8, 3, 3}, {1, 3, 8, 9, 1}, {4, 3, 8, 1, 4}, {4, 4, 8, 1, 1},
		} {
			nodes := slowly(greedy, b, c)
			greedy.greed, b.greed, c.greed, b.down, c.down = row.agreed, row.agreed, row.agreed, false, false
			quote("agreed", nodes, 100, row.agreed%9*100, time.Second)
			time.Sleep(time.Duration(row.minutes) * time.Minute)
			greedy.greed, b.greed, b.down, c.down = row.greedy, row.b, row.b == 0, true
			quote(fmt.Sprint("one or two are down: ", row), nodes, 100, row.want*100, time.Second)
		}
	})
}

// TestPricesAreHeldAgainstTheLast: a price that is far from the one on which most
// nodes last agreed counts when most say so, or when that is four minutes old.
func TestPricesAreHeldAgainstTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := priced(100), priced(100)
		nodes := slowly(a, b)
		quote := func(why string, ofA, ofB, want uint64) {
			t.Helper()
			a.gas, b.gas, b.down = ofA, ofB, ofB == 0
			if got, err := nodes.Fees(t.Context()); err != nil || got.BaseFee != token.Units(want) {
				t.Errorf("%s: %v, %v; want %d", why, got.BaseFee, err, want)
			}
		}
		quote("both agree", 100, 100, 100)
		agreed := time.Now()
		quote("one is far", 1001, 100, 100)
		quote("one is far below", 9, 100, 100)
		quote("one is alone and near", 1000, 0, 1000)
		quote("one is alone and near below", 10, 0, 10)
		quote("one is alone and far", 1001, 0, 100)
		time.Sleep(4*time.Minute - time.Since(agreed) - 2*usual)
		quote("it still is", 9, 0, 100)
		quote("one is alone, four minutes after", 1001, 0, 1001)
		quote("which nobody remembers", 9, 0, 9)
		time.Sleep(10 * time.Second) // until the circuit breaker lets a request through
		quote("both agree that far", 20_000, 10_000, 20_000)
		quote("that is remembered", 201, 0, 20_000)
		quote("two that differ more are not agreed", 20_000, 9_999, 20_000)
		quote("both agree, as far below", 4, 2, 4)
	})
}

// TestWorstCase: one node's word makes no transfer too cheap where others answer, and none much dearer than the last. A
// row has the last one and the nodes.
func TestWorstCase(t *testing.T) {
	for _, c := range tabletest.Read(t, nil) {
		synctest.Test(t, func(t *testing.T) {
			last := must.Get(strconv.ParseUint(c.In[0], 10, 64))(t)
			got, err := slowly(answering(t, c.In[1])...).WorstCase(t.Context(), chain.Call{Data: []byte{1, 2}}, last)
			if text := fmt.Sprint(got); err == nil && text != c.Want || err != nil && c.Want != "an error" {
				t.Errorf("%s: %d, %v, want %s", c.Name, got, err, c.Want)
			}
		})
	}
	if got, err := (chain.Nodes{&stub{gas: 60}}).WorstCase(t.Context(), chain.Call{Data: []byte{1, 0, 2, 0}}, 0); got != 60+2*12 ||
		err != nil {
		t.Errorf("two bytes that may cost 12 more each: %d, %v", got, err)
	}
}
