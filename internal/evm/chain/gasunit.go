package chain

import "github.com/remit-payouts/remit/internal/evm/token"

// A GasRule is how a chain's gas is paid. The zero GasRule: in ether.
type GasRule struct {
	InToken bool          // in a token, whose balance is all that an account needs
	Token   token.Address // the one token that is the gas; zero: every token of the chain pays its own transfers' gas
	// The account to which, or from which, the token's logs move fees and fractions of its smallest unit, beside the
	// transfers that were asked for; zero: they move none. Nobody else can be paid there.
	Account token.Address
	NoEther bool // the chain has no balance of ether, and nodes give a placeholder for it
}

// Unit returns the GasUnit of a stack whose token is t.
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

// A GasUnit is how many wei of gas the smallest unit of a stack's token pays, on a chain where that token is
// the gas: then a wallet has one balance, in two units. Zero: gas is paid in ether, another balance. It is the
// only place where the two meet.
type GasUnit uint64

// Takes returns what an amount of the token, and a cost of gas in wei, take from a wallet's balances of the
// token and of ether. Gas paid in the token is rounded up, whether the chain does so (Tempo) or keeps
// fractions (Arc, Stable): what payments take together is never less than what the chain takes. It saturates.
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

// Holds returns the balances of the token and of ether that an account may spend. Where the token is the gas,
// a chain's balance of ether is the same money once more, or means nothing.
func (u GasUnit) Holds(a Account) (coin, gas token.Amount) {
	if u == 0 {
		return a.Balance, a.Gas
	}
	return a.Balance, token.Amount{}
}

// Pays returns how many wei of gas balances of the token and of ether pay. It saturates.
func (u GasUnit) Pays(coin, gas token.Amount) token.Amount {
	if u == 0 {
		return gas
	}
	return coin.ScaleUp(uint64(u), 1)
}
