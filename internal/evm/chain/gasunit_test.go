package chain_test

import (
	"testing"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
)

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
		{token.Address{}, token.Address{}, other, false}, // a mint
	} {
		if got := (chain.GasRule{Account: row.account}).Moves(chain.Transfer{From: row.from, To: row.to}); got != row.want {
			t.Errorf("%+v: %v", row, got)
		}
	}
}
