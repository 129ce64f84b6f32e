package memory

import (
	"maps"
	"slices"
)

// Image returns a copy of everything that s keeps, as a backup would hold it.
func (s *Payments) Image() *Payments {
	s.mu.Lock()
	defer s.mu.Unlock()
	to := NewPayments()
	for id, r := range s.payments {
		copied := *r
		to.payments[id] = &copied
	}
	for by, list := range s.lists {
		for _, r := range list {
			to.lists[by] = append(to.lists[by], to.payments[r.p.ID])
		}
	}
	for id, p := range s.wallets {
		to.wallets[id] = &purse{w: p.read(), by: p.by}
	}
	for id, pendingTxs := range s.pendingTxs {
		for _, n := range pendingTxs {
			copied := *n
			to.pendingTxs[id] = append(to.pendingTxs[id], &copied)
		}
	}
	to.hashes, to.spent = maps.Clone(s.hashes), maps.Clone(s.spent)
	return to
}

// Restore makes s what image is. Image is not to be used after that.
func (s *Payments) Restore(image *Payments) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.payments, s.hashes, s.lists = image.payments, image.hashes, image.lists
	s.spent, s.wallets, s.pendingTxs = image.spent, image.wallets, image.pendingTxs
}

// Mend makes what was spoiled readable again.
func (s *Payments) Mend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.payments {
		r.spoiled = false
	}
	for _, n := range slices.Concat(slices.Collect(maps.Values(s.pendingTxs))...) {
		n.spoiled = false
	}
}
