package chain

import "github.com/remit-payouts/remit/internal/evm/token"

// Fees are the two fee fields of an EIP-1559 transaction, in wei per gas.
// Tip is maxPriorityFeePerGas, Cap is maxFeePerGas.
type Fees struct {
	Tip, Cap token.Amount
}

// QuoteFees returns the fees for a transaction to be mined soon. The cap lets the base fee double, which takes at
// least six full blocks since a block raises it by at most an eighth (EIP-1559, BASE_FEE_MAX_CHANGE_DENOMINATOR). The
// cap is at most limit unless limit is zero, and the tip at most the cap, as EIP-1559 demands.
func QuoteFees(baseFee, tip, limit token.Amount) Fees {
	room, err := baseFee.Times(2)
	if err != nil {
		room = token.MaxAmount()
	}
	feeCap, err := room.Add(tip)
	if err != nil {
		feeCap = token.MaxAmount()
	}
	return Fees{Tip: tip, Cap: feeCap}.within(limit)
}

// Market.L1Fee prices a transaction of this size and gas. QuotedSize exceeds the 169 bytes of an unsigned EIP-1559
// transfer with 12-byte fees and a 20-byte suffix; QuotedGas exceeds the gas limit of any transfer.
const (
	QuotedSize = quotedHead + 4 + 32 + 32 + 20
	QuotedGas  = 300_000
	quotedHead = 104 // bytes besides call data
)

// L1Reserve is the amount that a wallet must hold for the L1 fee of tx until it is mined. The fee may double, like
// QuoteFees' base fee. A larger transaction pays it once per QuotedSize or QuotedGas that it contains, rounded up.
func (m Market) L1Reserve(tx Tx) token.Amount {
	size := quotedHead + uint64(len(tx.Data))
	return m.L1Fee.ScaleUp(2*max((size+QuotedSize-1)/QuotedSize, (tx.Gas+QuotedGas-1)/QuotedGas), 1)
}

// Bump returns the fees of a replacement for a transaction with fees f: both fields at least an
// eighth higher, and not below the market's price now. Nodes refuse a replacement that raises
// either field by less than 10 % (geth core/txpool/legacypool PriceBump, Nethermind, Erigon, Besu,
// Reth; blob pools want more). It returns f and false if limit is too low.
func (f Fees) Bump(market Fees, limit token.Amount) (Fees, bool) {
	tip, feeCap := f.Tip.ScaleUp(9, 8), f.Cap.ScaleUp(9, 8)
	bumped := Fees{Tip: larger(larger(tip, token.Units(1)), market.Tip), Cap: larger(feeCap, market.Cap)}.within(limit)
	if bumped.Cap.Less(feeCap) || bumped.Tip.Less(tip) {
		return f, false
	}
	return bumped, true
}

// Outbid returns fees with twice the tip of f and limit as their cap, for when Bump has no room. They can replace a
// pooled transaction that the tables have lost, if its cap is too low to be mined and its tip is lower than theirs.
// Outbid returns f and false if the cap of f is above limit, or the tip cannot rise.
func (f Fees) Outbid(limit token.Amount) (Fees, bool) {
	bid := Fees{Tip: larger(f.Tip.ScaleUp(2, 1), token.Units(1)), Cap: limit}.within(limit)
	if limit.Less(f.Cap) || !f.Tip.Less(bid.Tip) {
		return f, false
	}
	return bid, true
}

// Asks reports whether the next block costs more than f: base fee plus tip is above f's cap, or tip above f's tip.
func (m Market) Asks(f Fees) bool {
	price, err := m.BaseFee.Add(m.Tip)
	return err != nil || f.Cap.Less(price) || f.Tip.Less(m.Tip)
}

func (f Fees) within(limit token.Amount) Fees {
	if !limit.IsZero() && limit.Less(f.Cap) {
		f.Cap = limit
	}
	if f.Cap.Less(f.Tip) {
		f.Tip = f.Cap
	}
	return f
}

func larger(a, b token.Amount) token.Amount {
	if a.Less(b) {
		return b
	}
	return a
}
