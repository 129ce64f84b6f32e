package oracle

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// A counting is the nodes' answers to a run about the mined transactions of a wallet.
type counting struct {
	last map[string]answer // of each node
	most uint64            // that as many nodes as confirm a payment have ever counted at once
}

type answer struct {
	at    time.Time
	count uint64
}

// A counter is a run that counts a wallet's transactions.
type counter struct {
	run    string
	wallet token.Address
}

// Counted notes how many transactions of a wallet a node has counted for a run that asked for them then.
func (o *Oracle) Counted(run, node string, of token.Address, count uint64, asked time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if strings.HasPrefix(run, "recover") && count <= o.Chain.MostMined(of)+o.Spare { // else it asks again
		o.led[of] = max(o.led[of], count)
	}
	c := o.countings[counter{run, of}]
	if c == nil {
		c = &counting{last: map[string]answer{}}
		o.countings[counter{run, of}] = c
	}
	c.last[node] = answer{time.Now(), count}
	ages := []time.Duration{time.Minute} // the shortest SilentAfter
	if o.Skew > 0 {
		ages = append(ages, time.Second) // a clock that is wrong may call a node silent at once
	}
	for _, age := range ages {
		var counts []uint64
		for _, a := range c.last {
			if !o.Silent || asked.Sub(a.at) < age {
				counts = append(counts, a.count)
			}
		}
		slices.Sort(counts)
		need := len(o.Chain.Nodes)/2 + 1
		if o.Silent { // of the others, none may count; at least two of three or more do
			need = min(need, max(len(counts)/2+1, min(2, len(o.Chain.Nodes)-1)))
		}
		if len(counts) >= need {
			c.most = max(c.most, counts[len(counts)-need])
		}
	}
}

// Progressed checks the progress that a run has just stored of a wallet. It added a nonce only if enough nodes have
// counted it, and payment.mined was published; one with a no-op only if a paying attempt was ever in a block.
func (o *Oracle) Progressed(run string, before wallet.Wallet, seen *wallet.Progress) {
	if seen == nil {
		return
	}
	ctx, id := context.Background(), before.ID
	txs, _, _ := o.Store.PendingTxs(ctx, id, 0)
	o.mu.Lock()
	c, most := o.countings[counter{run, id.Address}], max(before.Progress.Mined, o.progressed[id.Address])
	o.progressed[id.Address] = max(most, seen.Mined)
	o.mu.Unlock()
	if seen.Mined > most && (c == nil || seen.Mined > c.most) {
		o.Violate(ProgressHolds, "%d nonces of %s are stored as mined: too few nodes count so many", seen.Mined, short(id.Address))
	}
	for _, tx := range txs {
		p, err := o.Store.Payment(ctx, tx.Payment)
		if err != nil || !seen.IsMined(tx.Nonce, p.HasNoop()) || before.Progress.IsMined(tx.Nonce, p.HasNoop()) {
			continue
		}
		o.checkPaid(p)
		if len(o.past) == 0 && WantsMined(p.Merchant) && !o.told(p.ID) {
			o.Violate(Announced, "%s is stored as mined before that was published", at(id, tx.Nonce))
		}
	}
}

// Shown notes the receipts that a node has given.
func (o *Oracle) Shown(node string, receipts []chain.Receipt) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range receipts {
		if !slices.Contains(o.shown[r.Tx], node) {
			o.shown[r.Tx] = append(o.shown[r.Tx], node)
		}
	}
}

// checkPaid checks that enough nodes have shown a receipt of a payment with a no-op that counts as mined.
func (o *Oracle) checkPaid(p payment.Payment) {
	o.mu.Lock()
	paid := slices.ContainsFunc(p.Attempts, func(a payment.Attempt) bool {
		return !a.Noop && len(o.shown[a.Hash]) >= max(1, min(2, len(o.Chain.Nodes)-1))
	})
	o.mu.Unlock()
	if p.HasNoop() && !paid && !o.Stolen() {
		o.Violate(ProgressHolds, "%s counts as mined, and too few nodes have shown that it pays", p.ID)
	}
}

// WantsMined reports whether a merchant has an endpoint that names payment.mined.
func WantsMined(merchant string) bool {
	return merchant != "" && merchant != payment.Operator && (merchant[len(merchant)-1]-'0')%2 == 1
}

func (o *Oracle) told(id payment.ID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.events[payment.EventID(id, "payment.mined")]) > 0
}

// checkOrder checks an event that was just published: payment.mined comes first, unless a no-op was mined.
func (o *Oracle) checkOrder(kind string, tx chain.Hash) {
	p, err := o.known(tx)
	switch {
	case err != nil || len(o.past) > 0 || !WantsMined(p.Merchant) || !o.here(p):
	case kind == "payment.mined":
		o.checkPaid(p)
	case !p.Cancelled(p.Onchain) && !o.told(p.ID):
		o.Violate(Announced, "the end of %s was published before that it is mined", p.ID)
	}
}
