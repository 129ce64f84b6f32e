package chain

import "github.com/remit-payouts/remit/internal/evm/token"

// A GasRule describes how a chain's gas is paid. The zero GasRule: in ether.
type GasRule struct {
	InToken bool          // in a token: an account needs no other balance
	Token   token.Address // the only token that pays gas; zero: every token pays its own transfers' gas
	// Beside requested transfers, the token logs fees and fractions of its smallest unit that move to or from this
	// account; zero: no such logs. Remit never pays this account.
	Account token.Address
	NoEther bool // nodes return a placeholder as the balance of ether
}

// Unit returns the GasUnit of a rail whose token is t.
func (r GasRule) Unit(t token.Token) GasUnit {
	if !r.InToken || !r.Token.IsZero() && r.Token != t.Contract {
		return 0
	}
	unit := GasUnit(1)
	for range max(0, 18-t.Decimals) {
		unit *= 10
	}
	return unit
}

// Moves reports whether t moves fees or fractions.
func (r GasRule) Moves(t Transfer) bool {
	return !r.Account.IsZero() && (t.To == r.Account || t.From == r.Account)
}

// A GasUnit is the number of wei of gas that the smallest unit of the rail's token pays, on a
// chain where that token is the gas. A wallet then has one balance, in two units. Zero: gas is paid
// in ether, another balance. No other code converts between the two.
type GasUnit uint64

// Takes returns the units of the token and the wei of ether taken from a wallet by a token amount and a gas cost in
// wei. Gas paid in the token is rounded up, whether the chain rounds (Tempo) or keeps fractions (Arc, Stable), so Remit
// never counts less than the chain takes. It saturates.
func (u GasUnit) Takes(amount, cost token.Amount) (coin, gas token.Amount) {
	if u == 0 {
		return amount, cost
	}
	coin, err := amount.Add(cost.ScaleUp(1, uint64(u)))
	if err != nil {
		coin = token.MaxAmount()
	}
	return coin, token.Amount{}
}

// Holds returns the balances of the token and of ether that an account may spend. Where the token
// is the gas, a chain's balance of ether is the same money again, or meaningless.
func (u GasUnit) Holds(a Account) (coin, gas token.Amount) {
	if u == 0 {
		return a.Balance, a.Gas
	}
	return a.Balance, token.Amount{}
}

// Pays returns how much gas, in wei, the balances of the token and of ether can pay. It saturates.
func (u GasUnit) Pays(coin, gas token.Amount) token.Amount {
	if u == 0 {
		return gas
	}
	return coin.ScaleUp(uint64(u), 1)
}
