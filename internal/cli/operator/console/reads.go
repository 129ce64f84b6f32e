package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/remit-payouts/remit/internal/cli/page"
	"github.com/remit-payouts/remit/internal/merchants/webhook"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
)

// readNodes asks every node for its head, all at once.
func (k *console) readNodes(ctx context.Context) error {
	if time.Since(k.opened) > refresh {
		if err := k.budget.room(ctx, 3); err != nil {
			return err
		}
		nodes, _, err := k.Nodes(ctx)
		if err != nil {
			return err
		}
		declared, err := k.Account.Alarms(ctx)
		if err != nil {
			return err
		}
		k.open, k.declared, k.opened = nodes, declared, time.Now()
	}
	if err := k.budget.room(ctx, len(k.open)); err != nil {
		return err
	}
	all := make([]nodeHealth, len(k.open))
	var asked sync.WaitGroup
	for i, node := range k.open {
		asked.Go(func() {
			began := time.Now()
			head, err := node.Head(ctx, k.Config.ConfirmationRule)
			all[i] = nodeHealth{Name: node.String(), Head: head.Number, Final: head.Final, MS: time.Since(began).Milliseconds()}
			if err != nil {
				all[i].Error = err.Error()
			}
		})
	}
	asked.Wait()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.view.Nodes = all
	return nil
}

// readWallets reads every wallet and its pending transactions.
func (k *console) readWallets(ctx context.Context) error {
	if err := k.budget.room(ctx, 1); err != nil {
		return err
	}
	registered, err := k.Wallets(ctx)
	if err != nil {
		return err
	}
	wallets, pending, began := []page.Wallet{}, []pendingPayment{}, time.Now().UnixMilli()
	for _, r := range registered {
		w := page.Wallet{Address: r.Address, State: r.State, Tokens: "0", Wei: "0"}
		if r.State != wallet.Retired {
			if err := k.budget.room(ctx, 2); err != nil {
				return err
			}
			found, err := k.readWallet(ctx, &w)
			if err != nil {
				return err
			}
			pending = append(pending, found...)
		}
		wallets = append(wallets, w)
	}
	slices.SortFunc(pending, func(a, b pendingPayment) int { return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.ID, b.ID)) })
	k.mu.Lock()
	defer k.mu.Unlock()
	k.view.Wallets, k.view.pending, k.view.pendingAt = wallets, pending, began
	return nil
}

// readWallet fills in w, and returns the payments under way of the wallet.
func (k *console) readWallet(ctx context.Context, w *page.Wallet) (pending []pendingPayment, err error) {
	id := k.WalletID(w.Address)
	record, err := k.Payments.Wallet(ctx, id)
	if errors.Is(err, wallet.ErrUnknown) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	txs, unreadable, err := k.Payments.PendingTxs(ctx, id, 0)
	w.Tokens, w.Wei, w.Next, w.Reserved, w.Sent, w.Paused = record.Balance.String(), record.Gas.String(), record.NextNonce,
		len(record.Reservations), len(txs)+unreadable, record.Paused
	for _, tx := range txs {
		if !tx.Noop() {
			row := page.Row{ID: tx.Payment, N: tx.Since.UnixMilli(), Begun: tx.Since.UnixMilli(), Amount: tx.Amount.String(),
				State: payment.Committed,
				Hash:  tx.Hashes[0].String(), Wallet: w.Address.String(), Nonce: tx.Nonce, Paid: page.NotCounted}
			row.At[page.Prepared], row.At[page.Committed] = page.Once, row.Begun
			pending = append(pending, pendingPayment{tx.Payment, row.Begun, w.Address, tx.Nonce, row})
		}
	}
	return pending, err
}

// books are what the table of payments reported when it was last read whole.
type books struct {
	at         int64
	read       int
	states     map[payment.State]stateCount
	newest     []page.Row // at most page.Listed
	references map[string]payment.ID
}

// A sweep reads the table of payments once.
type sweep struct {
	books
	next func() (store.Entry, error, bool)
	stop func()
}

func (s *sweep) soFar() int {
	if s == nil {
		return 0
	}
	return s.read
}

// readPayments goes on reading the table of payments, by a third of the budget at most.
func (k *console) readPayments(ctx context.Context) error {
	if k.sweep == nil {
		next, stop := iter.Pull2(k.Payments.Entries(ctx))
		k.sweep = &sweep{books{states: map[payment.State]stateCount{}, references: map[string]payment.ID{}}, next, stop}
	}
	s, began := k.sweep, k.budget.total()
	end := func() { s.stop(); k.sweep = nil }
	for k.budget.total()-began < k.budget.most/3 {
		if err := k.budget.room(ctx, 1); err != nil {
			end()
			return err
		}
		entry, err, more := s.next()
		switch {
		case !more:
			end()
			s.trim()
			s.at = time.Now().UnixMilli()
			k.mu.Lock()
			defer k.mu.Unlock()
			k.view.books = s.books
			return nil
		case errors.Is(err, store.ErrUnreadable):
			s.read++
		case err != nil:
			end()
			return err
		case entry.Payment.ID != "":
			s.add(entry.Payment)
			if entry.Payment.Merchant != "" {
				k.merchants[entry.Payment.Merchant] = true
			}
		}
	}
	return nil
}

// add counts a payment.
func (s *sweep) add(p payment.Payment) {
	s.read++
	c, created := s.states[p.State], p.CreatedAt.UnixMilli()
	c.State = p.State
	if c.Count++; !p.State.Final() && (c.Oldest == 0 || created < c.Oldest) {
		c.Oldest = created
	}
	s.states[p.State] = c
	if p.Reference != "" && len(s.references) < remembered {
		s.references[p.Reference] = p.ID
	}
	if s.newest = append(s.newest, page.RowOf(p)); len(s.newest) >= 10*page.Listed {
		s.trim()
	}
}

// trim leaves the newest payments.
func (s *sweep) trim() {
	slices.SortFunc(s.newest, func(a, b page.Row) int { return cmp.Compare(a.N, b.N) })
	s.newest = s.newest[max(0, len(s.newest)-page.Listed):]
}

// readAlarms asks for the stack's alarms.
func (k *console) readAlarms(ctx context.Context) error {
	if err := k.budget.room(ctx, 1+len(k.declared)/100); err != nil {
		return err
	}
	found, err := k.Account.Alarmed(ctx, k.declared)
	if err != nil {
		return err
	}
	all := []alarm{}
	for _, m := range found {
		all = append(all, alarm{aws.ToString(m.AlarmName), string(m.StateValue), aws.ToTime(m.StateUpdatedTimestamp).UnixMilli(),
			aws.ToString(m.StateReason)})
	}
	slices.SortStableFunc(all, func(a, b alarm) int { return cmp.Compare(a.State, b.State) }) // ALARM is first
	k.mu.Lock()
	defer k.mu.Unlock()
	k.view.Alarms.All, k.view.Alarms.At = all, time.Now().UnixMilli()
	return nil
}

// merchantsAtOnce is of how many merchants a round reads the endpoints.
const merchantsAtOnce = 3

// readEndpoints looks for failing endpoints, of some merchants after the other.
func (k *console) readEndpoints(ctx context.Context) error {
	for range min(merchantsAtOnce, len(k.merchants)) {
		if len(k.due) == 0 {
			k.due = slices.Sorted(maps.Keys(k.merchants))
		}
		if err := k.readMerchant(ctx, k.due[0]); err != nil {
			return err
		}
		k.due = k.due[1:]
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	e := &k.view.Endpoints
	e.Failing, e.Endpoints, e.Merchants = []failing{}, 0, len(k.endpoints)
	for _, merchant := range slices.Sorted(maps.Keys(k.endpoints)) {
		e.Failing, e.Endpoints = append(e.Failing, k.failing[merchant]...), e.Endpoints+k.endpoints[merchant]
	}
	return nil
}

// readMerchant reads the endpoints of a merchant, and the log of a day of each that fails.
func (k *console) readMerchant(ctx context.Context, merchant string) error {
	if err := k.budget.room(ctx, 1); err != nil {
		return err
	}
	endpoints, err := k.Webhooks.Endpoints(ctx, k.Owner(merchant))
	if err != nil {
		return err
	}
	var all []failing
	for _, e := range endpoints {
		if e.Status == webhook.Enabled && e.QuietSince.IsZero() && e.Exhausted == "" {
			continue
		}
		if err := k.budget.room(ctx, 1); err != nil {
			return err
		}
		sent, err := k.Webhooks.Deliveries(ctx, e.Owner, e.ID, time.Now().Add(-24*time.Hour), time.Time{}, webhook.LogLimit)
		if err != nil {
			return err
		}
		f := failing{Merchant: merchant, ID: e.ID, URL: e.URL, Status: e.Status}
		if !e.QuietSince.IsZero() {
			f.Quiet = e.QuietSince.UnixMilli()
		}
		for _, d := range sent {
			switch d.Status {
			case webhook.Pending:
				f.Pending++
			case webhook.Delivered:
			default:
				f.Failed++
			}
			if last, tried := d.LastAttempt(); tried && f.Last == "" {
				f.Last = cmp.Or(last.Error, fmt.Sprint("status ", last.StatusCode))
			}
		}
		all = append(all, f)
	}
	k.failing[merchant], k.endpoints[merchant] = all, len(endpoints)
	return nil
}
