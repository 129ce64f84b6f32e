package audit

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
)

// An etherSum accounts for the ether of one wallet in the blocks of an audit, in wei:
// Opening and Received are Closing and all that has left. Where the token pays gas it accounts for the one balance, in
// the unit of gas, to which the chain may keep it more exactly than balanceOf shows.
type etherSum struct {
	Wallet     token.Address `json:"wallet"`
	Opening    *token.Amount `json:"opening"`  // before the wallet's first transaction in these blocks; nil: the nodes lack the state
	Received   *token.Amount `json:"received"` // from the balances: no node lists it
	Payments   token.Amount  `json:"network_fees"`
	Unrecorded token.Amount  `json:"network_fees_not_in_the_tables"` // of payments that are pending, or whose fee the nodes did not agree on
	Noops      token.Amount  `json:"noops"`
	Moved      token.Amount  `json:"operator_transfers"` // ether that they moved; their fees are among network_fees
	Own        token.Amount  `json:"own"`                // fees and amounts
	Unknown    token.Amount  `json:"unknown"`
	Coins      token.Amount  `json:"token_transfers,omitzero"` // where the token pays gas
	Closing    token.Amount  `json:"closing"`
}

func (e etherSum) text(unit string) string {
	var b strings.Builder
	row := func(name string, wei any) { fmt.Fprintf(&b, "  %-34s %26v\n", name, wei) }
	fmt.Fprintf(&b, "\n%s of %s\n", unit, e.Wallet)
	if e.Opening != nil {
		row("before these blocks", *e.Opening)
		row("received", *e.Received)
	} else {
		row("before these blocks", "unknown to the nodes")
	}
	if !e.Coins.IsZero() {
		row("transfers of the token", e.Coins)
	}
	row("network_fee of payments", e.Payments)
	row("fees that are not in the tables", e.Unrecorded)
	row("no-ops", e.Noops)
	row("operator transfers", e.Moved)
	row("your own transactions", e.Own)
	row("unknown transactions", e.Unknown)
	row("left", e.Closing)
	return b.String()
}

// weigh accounts for every nonce and every wei of the wallets.
func (a *auditor) weigh(ctx context.Context) error {
	if a.line.NoEther {
		return nil
	}
	for _, w := range a.wallets {
		if err := a.weighWallet(ctx, w); err != nil {
			return fmt.Errorf("%w; add --no-ether to leave the ether out", err)
		}
	}
	return nil
}

func (a *auditor) weighWallet(ctx context.Context, w token.Address) error {
	txs, err := a.ofWallet(ctx, w)
	if err != nil {
		return err
	}
	sum := etherSum{Wallet: w}
	if unit := a.Config.GasUnit; unit > 0 {
		for _, t := range a.transfers {
			if t.From == w {
				sum.Coins = plus(sum.Coins, unit.Pays(t.Amount, token.Amount{}))
			}
		}
	}
	for some := range slices.Chunk(txs, 200) {
		hashes := make([]chain.Hash, len(some))
		for i, tx := range some {
			hashes[i] = tx.Hash
		}
		costs, err := a.nodes.Costs(ctx, hashes)
		if err != nil {
			return err
		}
		for i, tx := range some {
			a.charge(&sum, tx, costs[i])
		}
	}
	closing, err := a.nodes.AccountAt(ctx, w, a.Asset.Contract, a.report.To)
	if err != nil {
		return err
	}
	sum.Closing = a.wei(closing)
	if first := a.opening(txs); first > 0 {
		opening, err := a.nodes.AccountAt(ctx, w, a.Asset.Contract, first)
		if err == nil {
			a.receive(&sum, a.wei(opening))
		}
	}
	a.Ether = append(a.Ether, sum)
	return nil
}

// wei returns the balance that pays gas, as exactly as the chain shows it.
func (a *auditor) wei(account chain.Account) token.Amount {
	if a.Config.Gas.NoEther && a.Config.GasUnit > 0 {
		return a.Config.GasUnit.Pays(account.Balance, token.Amount{})
	}
	return account.Gas
}

// taken returns what a chain takes for a fee: whole units of the token, rounded up, where it keeps no fractions.
func (a *auditor) taken(fee token.Amount) token.Amount {
	if a.Config.Gas.NoEther && a.Config.GasUnit > 0 {
		coins, _ := a.Config.GasUnit.Takes(token.Amount{}, fee)
		return a.Config.GasUnit.Pays(coins, token.Amount{})
	}
	return fee
}

// opening returns the block before the first transaction, or before the audit's first
// block; 0 if the wallet had none since the chain began.
func (a *auditor) opening(txs []chain.MinedTx) uint64 {
	if a.report.From > 0 || len(txs) == 0 {
		return max(a.report.From, 1) - 1
	}
	return slices.MinFunc(txs, func(x, y chain.MinedTx) int { return int(x.Nonce) - int(y.Nonce) }).Block - 1
}

// receive fills in the opening balance, and what came in since.
func (a *auditor) receive(sum *etherSum, opening token.Amount) {
	after := plus(sum.Closing, sum.Coins, sum.Payments, sum.Unrecorded, sum.Noops, sum.Moved, sum.Own, sum.Unknown)
	received := after.Sub(opening)
	if after.Less(opening) {
		a.differ(kindDiffers, difference{Wallet: sum.Wallet,
			What: fmt.Sprintf("%s wei left %s by none of its transactions", opening.Sub(after), sum.Wallet)})
	}
	sum.Opening, sum.Received = &opening, &received
}

// ofWallet returns the transactions of a wallet in the audit's blocks, in nonce order. Nonces
// named by no transfer and no table are searched on the chain.
func (a *auditor) ofWallet(ctx context.Context, w token.Address) ([]chain.MinedTx, error) {
	var first uint64
	var err error
	if a.report.From > 0 {
		if first, err = a.nodes.CountAt(ctx, w, a.report.From-1); err != nil {
			return nil, err
		}
	}
	end, err := a.nodes.CountAt(ctx, w, a.report.To)
	if err != nil {
		return nil, err
	}
	at := map[uint64]chain.MinedTx{}
	for _, tx := range a.txs {
		if tx.From == w {
			at[tx.Nonce] = tx
		}
	}
	var txs []chain.MinedTx
	for nonce := first; nonce < end; nonce++ {
		tx, ok := at[nonce]
		if !ok {
			hash, err := a.nodes.UserOf(ctx, w, nonce, a.report.To)
			if err == nil {
				err = a.fetch(ctx, []chain.Hash{hash})
			}
			if tx, ok = a.txs[hash]; !ok {
				a.differ(kindUnknown, difference{Wallet: w,
					What: fmt.Sprintf("a transaction of %s at nonce %d, which the nodes do not name: %v", w, nonce, err)})
				continue
			}
		}
		txs = append(txs, tx)
	}
	return txs, nil
}

// asPromised reports whether the ether that a payment's transaction moved is what the
// tables say: none, or the amount of an operator's transfer or call, which moved it
// unless it failed.
func (a *auditor) asPromised(tx chain.MinedTx, p *entry) bool {
	switch {
	case !p.Ether():
		return tx.Value.IsZero()
	case tx.Noop():
		return p.State != payment.Confirmed
	default:
		return tx.To == p.To && tx.Value == p.Amount && (p.State != payment.Failed || p.Failure.Code == payment.ExecutionReverted)
	}
}

// charge adds the fee of a transaction, and the ether that it moved, to the sums.
func (a *auditor) charge(sum *etherSum, tx chain.MinedTx, fee token.Amount) {
	p, kind := a.known[tx.Hash], a.counted[tx.Hash]
	taken := a.taken(fee)
	spent := taken
	if tx.To != tx.From {
		spent = plus(taken, tx.Value)
	}
	switch {
	case slices.Contains(a.line.Own, tx.Hash):
		kind, sum.Own = kindOwn, plus(sum.Own, spent)
	case p != nil && !a.asPromised(tx, p):
		sum.Unknown = plus(sum.Unknown, spent)
		a.differ(kindDiffers, difference{Wallet: tx.From, Tx: &tx.Hash, Payment: p.ID,
			What: fmt.Sprintf("%s wei to %s; the tables say %s of %s to %s, %s", tx.Value, tx.To, p.Amount, p.Token.Symbol, p.To, p.State)})
		kind = kindDiffers
	case p != nil && p.Fee != nil:
		if p.State == payment.Confirmed && p.Ether() {
			kind, sum.Moved = kindMoved, plus(sum.Moved, tx.Value)
		}
		sum.Payments = plus(sum.Payments, taken)
		if *p.Fee != fee {
			a.differ(kindDiffers, difference{Wallet: tx.From, Tx: &tx.Hash, Payment: p.ID,
				What: fmt.Sprintf("it cost %s wei; the tables say %s", fee, p.Fee)})
		}
	case p != nil:
		sum.Moved = plus(sum.Moved, tx.Value)
		sum.Unrecorded = plus(sum.Unrecorded, taken)
	case tx.Noop():
		kind, sum.Noops = kindNoop, plus(sum.Noops, taken)
	default:
		sum.Unknown = plus(sum.Unknown, spent)
		if kind == "" {
			a.differ(kindUnknown, difference{Wallet: tx.From, Tx: &tx.Hash,
				What: fmt.Sprintf("%s wei to %s at nonce %d in block %d", tx.Value, tx.To, tx.Nonce, tx.Block)})
		}
		kind = kindUnknown
	}
	if kind == "" {
		kind = map[bool]string{true: kindFailed, false: kindPending}[p.State.Final()]
	}
	if _, counted := a.counted[tx.Hash]; !counted {
		a.count(kind, tx.From, tx.At, token.Amount{})
	}
	line := a.sum(kind, tx.From, tx.At)
	line.Fees = plus(line.Fees, fee)
}
