package chain

import "github.com/remit-payouts/remit/internal/evm/token"

// Fees are the two fee fields of an EIP-1559 transaction, in wei per gas.
// Tip is maxPriorityFeePerGas, Cap is maxFeePerGas.
type Fees struct {
	Tip, Cap token.Amount
}

// QuoteFees returns the fees for a transaction to be mined soon: the cap
// leaves room for the base fee to double, which takes at least six full blocks
// since a block raises it by at most an eighth (EIP-1559,
// BASE_FEE_MAX_CHANGE_DENOMINATOR). The cap is held to limit unless limit is
// zero, and the tip to the cap, as EIP-1559 demands.
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

// The transaction that a Market's L1Fee prices. It is larger than an unsigned transfer with fees of
// 12 bytes and 20 bytes after its call data (169 bytes, EIP-1559), and uses more gas than a
// transfer may.
const (
	QuotedSize = quotedHead + 4 + 32 + 32 + 20
	QuotedGas  = 300_000
	quotedHead = 104 // beside call data
)

// L1Reserve is what a wallet must hold for the L1 fee of tx until it is
// mined: room for it to double, as QuoteFees leaves the base fee. A larger transaction
// pays it as often as it has QuotedSize or QuotedGas.
func (m Market) L1Reserve(tx Tx) token.Amount {
	size := quotedHead + uint64(len(tx.Data))
	return m.L1Fee.ScaleUp(2*max((size+QuotedSize-1)/QuotedSize, (tx.Gas+QuotedGas-1)/QuotedGas), 1)
}

// Bump returns the fees of a replacement for a transaction with fees f: both
// fields at least an eighth higher, since nodes refuse a replacement that
// raises either by less (geth wants 10 %, core/txpool/legacypool PriceBump;
// Nethermind 10 %; Erigon 10 %; Besu 10 %; Reth 10 %; blob pools more), and
// not below the market's price now. It reports false, and f, when limit
// leaves no room for that.
func (f Fees) Bump(market Fees, limit token.Amount) (Fees, bool) {
	bumped := Fees{Tip: larger(f.Tip.ScaleUp(9, 8), market.Tip), Cap: larger(f.Cap.ScaleUp(9, 8), market.Cap)}
	if f.Tip.IsZero() {
		bumped.Tip = larger(token.Units(1), market.Tip)
	}
	least := f.Cap.ScaleUp(9, 8)
	bumped = bumped.within(limit)
	if bumped.Cap.Less(least) || bumped.Tip.Less(f.Tip.ScaleUp(9, 8)) {
		return f, false
	}
	return bumped, true
}

// Outbid returns fees with twice the tip of f and all the cap that limit allows, where
// that leaves no room for Bump. It is for a nonce at which pools hold a transaction that
// the tables have lost, with a cap that no block takes and a tip that keeps f out. It
// reports false, and f, when the tip is as high as limit already.
func (f Fees) Outbid(limit token.Amount) (Fees, bool) {
	bid := Fees{Tip: larger(f.Tip.ScaleUp(2, 1), token.Units(1)), Cap: limit}.within(limit)
	if limit.Less(f.Cap) || !f.Tip.Less(bid.Tip) {
		return f, false
	}
	return bid, true
}

// Asks reports whether the next block is dearer than f: its price is above the
// cap, or the tip above f's.
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
