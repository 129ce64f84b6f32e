package oracle

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
)

// A question is a request for receipts that a run sent to several nodes at one instant.
type question struct {
	at     time.Time
	hashes []chain.Hash
	chains map[string]*fakechain.Snapshot // of each node asked; nil: it has not answered
}

// Asking notes that a run asks a node for receipts.
func (o *Oracle) Asking(run, node string, hashes []chain.Hash) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now, all := time.Now(), o.questions[run]
	i := slices.IndexFunc(all, func(q *question) bool { return q.at.Equal(now) && slices.Equal(q.hashes, hashes) })
	if i < 0 {
		all = append(all[max(0, len(all)-200):], &question{now, slices.Clone(hashes), map[string]*fakechain.Snapshot{}})
		o.questions[run], i = all, len(all)-1
	}
	all[i].chains[node] = nil
}

// Answers notes the chain from which a node answers a run that asks for receipts.
func (o *Oracle) Answers(run, node string, hashes []chain.Hash, from *fakechain.Snapshot) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, q := range slices.Backward(o.questions[run]) {
		if _, asked := q.chains[node]; asked && slices.Equal(q.hashes, hashes) {
			q.chains[node] = from
			return
		}
	}
}

// mined reports whether a node had one of the transactions at a nonce.
func (q *question) mined(from token.Address, nonce uint64) bool {
	for _, shown := range q.chains {
		if tx, _ := shown.Used(from, nonce); slices.Contains(q.hashes, tx) {
			return true
		}
	}
	return false
}

// Sees checks the progress of a wallet that a run is about to store: each nonce is in the named
// block of every node that the run asked for the last of them, and is used by a transaction of the
// tables.
func (o *Oracle) Sees(run string, id wallet.ID, seen *wallet.Progress) {
	if seen == nil || len(seen.Mined.Runs) == 0 {
		return
	}
	o.mu.Lock()
	all := slices.Clone(o.questions[run])
	o.mu.Unlock()
	last := seen.Mined.Next() - 1
	for _, q := range slices.Backward(all) {
		if !slices.ContainsFunc(q.hashes, func(h chain.Hash) bool {
			p, err := o.known(h)
			return err == nil && p.Wallet == id.Address && p.Nonce == last
		}) && !q.mined(id.Address, last) {
			continue
		}
		for node, shown := range q.chains {
			for nonce := seen.Mined.First; nonce <= last; nonce++ {
				block, _ := seen.Mined.Of(nonce)
				hash, in := shown.Used(id.Address, nonce)
				if shown == nil || in != block || !o.ours(hash) {
					o.Violate(ProgressHolds, "%s is stored as mined in block %d, and %s had it in %d", at(id, nonce), block, node, in)
				}
				p, err := o.known(hash)
				if err == nil && len(o.past) == 0 && WantsMined(p.Merchant) && !p.Cancelled(hash) && !o.told(p.TxHash, block) {
					o.Violate(Announced, "%s is stored as mined in block %d before that was published", at(id, nonce), block)
				}
			}
		}
		return
	}
	o.Violate(ProgressHolds, "%s is stored as mined, and no node was asked for it", at(id, last))
}

// WantsMined reports whether a merchant has an endpoint that names payment.mined.
func WantsMined(merchant string) bool {
	return merchant != "" && merchant != payment.Operator && (merchant[len(merchant)-1]-'0')%2 == 1
}

// told reports whether a payment was published as mined in a block; 0: in any.
func (o *Oracle) told(tx chain.Hash, block uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, events := range o.events {
		var e struct {
			Data struct {
				Hash     chain.Hash        `json:"tx_hash"`
				Progress *payment.Progress `json:"progress"`
			} `json:"data"`
		}
		if events[0].Type != webhook.PaymentMined || json.Unmarshal(events[0].Body, &e) != nil || e.Data.Hash != tx {
			continue
		}
		if p := e.Data.Progress; p != nil && p.Block != nil && (block == 0 || *p.Block == block) {
			return true
		}
	}
	return false
}
