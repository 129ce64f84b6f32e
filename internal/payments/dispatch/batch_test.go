package dispatch_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
)

// batchOf is a request for a batch: amounts to the recipients 0x10…, 0x11… and so on.
func batchOf(amounts ...uint64) payment.Request {
	var entries []payment.Entry
	for i, units := range amounts {
		entries = append(entries, payment.Entry{To: token.Address{0x10 + byte(i)}, Amount: unit(units)})
	}
	r, _ := asked.Batch(entries)
	return r
}

// TestBatchRefusals: each rule holds for each entry, and the refusal names the entry.
// Nothing is stored, so that the key is free for the batch without it.
func TestBatchRefusals(t *testing.T) {
	type world = func(p *process, r *payment.Request)
	third := token.Address{0x12}
	setting := func(change func(*settings.Settings)) world {
		return func(p *process, _ *payment.Request) { p.set(change) }
	}
	request := func(change func(*payment.Request)) world { return func(_ *process, r *payment.Request) { change(r) } }
	plain, none := request(func(*payment.Request) {}), setting(func(s *settings.Settings) { s.BatchContract = token.Address{} })
	own := request(func(r *payment.Request) { r.Entries[1].To = second })
	sanctioned := func(a token.Address) world {
		return func(p *process, _ *payment.Request) {
			p.listed = []token.Address{a}
			p.set(func(s *settings.Settings) { s.Sanctions = token.Address{7} })
		}
	}
	refuses := func(a token.Address, tells bool) world {
		return func(p *process, _ *payment.Request) { p.refuses, p.tells = []token.Address{a}, tells }
	}
	large := batchOf(5, 6)
	large.Entries[1].Amount, _ = disburser.MaxAmount().Add(unit(1))
	one, _ := asked.Batch(large.Entries[1:])
	for _, row := range []struct {
		name  string
		world world
		r     payment.Request
		want  error
		index int    // -1: no entry's
		list  string // that refuses it
	}{
		{"a wallet of the service, without batches", func(p *process, r *payment.Request) { own(p, r); none(p, r) },
			batchOf(5, 6, 7), dispatch.ErrOwnWallet, 1, ""},
		{"a stack without batches", none, batchOf(5, 6, 7), dispatch.ErrNoBatches, -1, ""},
		{"below the minimum", setting(func(s *settings.Settings) { s.Minimum = unit(6) }), batchOf(6, 5), dispatch.ErrAmountBelow, 1, ""},
		{"above the maximum", setting(func(s *settings.Settings) { s.Maximum = unit(6) }), batchOf(6, 6, 7), dispatch.ErrAmountAbove, 2,
			""},
		{"above the key's maximum", request(func(r *payment.Request) { r.Key.Maximum = unit(6) }), batchOf(7, 6),
			dispatch.ErrAmountAbove, 0, ""},
		{"more than the contract can carry", plain, large, dispatch.ErrAmountAbove, 1, ""},
		{"not in the book", func(p *process, r *payment.Request) { p.d.Book, r.Key.Book = &book{active: token.Address{0x10}}, true },
			batchOf(5, 6), dispatch.ErrNotInBook, 1, ""},
		{"on the deny list", func(p *process, _ *payment.Request) { p.Must(p.Tables.Deny(t.Context(), store.Denial{To: third})) },
			batchOf(5, 6, 7), dispatch.ErrRecipient, 2, "deny"},
		{"on the sanctions list", sanctioned(third), batchOf(5, 6, 7), dispatch.ErrRecipient, 2, "sanctions"},
		{"one that the token refuses", refuses(third, false), batchOf(5, 6, 7, 8, 9), dispatch.ErrRecipient, 2, ""},
		{"by a node with a reason", refuses(token.Address{0x10}, true), batchOf(5, 6, 7), dispatch.ErrRecipient, 0, ""},
		{"by a node that names none of the entries", func(p *process, r *payment.Request) {
			refuses(token.Address{0x10}, true)(p, r)
			p.lies = 3
		}, batchOf(5, 6, 7), dispatch.ErrRecipient, 0, ""},
		{"while every wallet is draining", func(p *process, _ *payment.Request) { p.draining = p.keys }, batchOf(5),
			dispatch.ErrUnavailable, -1, ""},
		{"a batch of one, which the contract does not carry", plain, one, dispatch.ErrInsufficient, -1, ""},
		{"more than every wallet has", plain, batchOf(600, 600), dispatch.ErrInsufficient, -1, ""},
		{"more than the day's limit in all", setting(func(s *settings.Settings) { s.Daily = unit(10) }), batchOf(5, 6),
			store.ErrDailyLimit, -1, ""},
		{"more in all than needs no approval", request(func(r *payment.Request) { r.Key.ApproveAbove = unit(10) }),
			batchOf(5, 6), dispatch.ErrApprovalRequired, -1, ""},
		{"more entries than the key's day has", request(func(r *payment.Request) {
			r.Key.Daily = payment.DailyLimit{Key: "key_1", Count: 2}
		}), batchOf(1, 1, 1), store.ErrDailyLimit, -1, ""},
		{"no wallet that the contract may spend from", func(p *process, _ *payment.Request) { p.unapproved = p.keys },
			batchOf(5, 6), dispatch.ErrUnavailable, -1, ""},
	} {
		p := newProcess(t, script{})
		row.world(p, &row.r)
		a := p.request(row.r).is(row.name, row.want)
		if strings.Contains(p.log.String(), "recipient refused") != (row.list != "") || !strings.Contains(p.log.String(), "list="+row.list) &&
			row.list != "" {
			t.Errorf("%s: logged %s, want the list %q", row.name, &p.log, row.list)
		}
		index := -1
		if entry, ok := errors.AsType[*chain.EntryError](a.err); ok {
			index = entry.Index
		}
		if index != row.index || p.stored().ID != "" || p.tells && p.lies == 0 && p.asked > 2 {
			t.Errorf("%s: %v of entry %d, want %d; %d simulations; stored is %+v", row.name, a.err, index, row.index, p.asked, p.stored())
		}
	}
}

// TestBatchesThatArePaid: one transaction pays the entries by the contract, and a batch of one is a transfer. A wallet
// whose coins the contract may not spend is passed over, and pays on alone.
func TestBatchesThatArePaid(t *testing.T) {
	p := newProcess(t, script{})
	p.unapproved, p.d.ByCall = []token.Address{first}, true
	paid := p.request(batchOf(5, 6)).is("a batch", nil).by(second).Payment
	if slices.ContainsFunc(p.executed, func(to string) bool { return strings.HasPrefix(to, "10 ") }) {
		t.Errorf("executed by a call, beside which no node is asked for the contract's code: %q", p.executed)
	}
	_, entries, rest, ok := disburser.Parse(paid.Tx.Data)
	if paid.Tx.To != fakechain.Batcher || !ok || len(entries) != 2 || payment.MemoID(rest) != paid.ID || paid.Amount != unit(11) ||
		!paid.To.IsZero() || p.Record(walletOf(second)).Balance != unit(989) {
		t.Errorf("paid by %+v, and the wallet has %v to spend", paid, p.Record(walletOf(second)).Balance)
	}
	one := batchOf(7)
	one.IdempotencyKey = "one"
	if paid := p.request(one).is("a batch of one", nil).by(first).Payment; paid.Tx.To != paid.Token.Contract ||
		paid.To != (token.Address{0x10}) || len(paid.Entries) != 1 {
		t.Errorf("a batch of one is paid by %+v", paid)
	}
	p.set(func(s *settings.Settings) { s.BatchContract = token.Address{} })
	p.request(batchOf(5, 6)).is("a batch of before, on a stack that pays none any more", nil)
}

// TestBatchTooLarge: the refusal says how many entries fit.
func TestBatchTooLarge(t *testing.T) {
	for fit, want := range map[int]int{1: 1, 2: 2, 7: 7} {
		p := newProcess(t, script{})
		p.fit = fit
		err := p.request(batchOf(1, 1, 1, 1, 1, 1, 1, 1)).err
		if tooMany, ok := errors.AsType[*dispatch.TooManyError](err); !ok || tooMany.Fit != want {
			t.Errorf("%v, want %d", err, want)
		}
	}
}
