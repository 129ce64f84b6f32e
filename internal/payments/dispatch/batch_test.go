package dispatch_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/disburser"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/must"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
)

// batchOf is a request for a batch: amounts to the recipients 0x10…, 0x11… and so on.
func batchOf(amounts ...uint64) payment.Request {
	var entries []payment.Entry
	for i, units := range amounts {
		entries = append(entries, payment.Entry{To: token.Address{0x10 + byte(i)}, Amount: token.Units(units)})
	}
	r, _ := asked.Batch(entries)
	return r
}

// shortBook has only the recipient 0x10….
type shortBook struct{}

func (shortBook) Active(_ context.Context, _, _ string, to token.Address, _ time.Time) (bool, error) {
	return to == token.Address{0x10}, nil
}

// TestBatchRefusals: each rule holds for each entry, and the refusal names the entry.
// Nothing is stored, so that the key is free for the batch without it.
func TestBatchRefusals(t *testing.T) {
	third := token.Address{0x12}
	large := batchOf(5, 6)
	large.Entries[1].Amount, _ = disburser.MaxAmount().Add(token.Units(1))
	one, _ := asked.Batch(large.Entries[1:])
	for _, row := range []struct {
		name  string
		world func(p *process, r *payment.Request)
		r     payment.Request
		want  error
		index int // -1: no entry's
	}{
		{"a wallet of the service", func(_ *process, r *payment.Request) { r.Entries[1].To = second }, batchOf(5, 6, 7), dispatch.ErrOwnWallet,
			1},
		{"a wallet of the service, on a stack without batches", func(p *process, r *payment.Request) {
			r.Entries[1].To = second
			p.set(func(s *settings.Settings) { s.BatchContract = token.Address{} })
		}, batchOf(5, 6, 7), dispatch.ErrOwnWallet, 1},
		{"a stack without batches", func(p *process, _ *payment.Request) {
			p.set(func(s *settings.Settings) { s.BatchContract = token.Address{} })
		}, batchOf(5, 6, 7), dispatch.ErrNoBatches, -1},
		{"a batch of one there", func(p *process, _ *payment.Request) {
			p.set(func(s *settings.Settings) { s.BatchContract = token.Address{} })
		}, batchOf(5), dispatch.ErrNoBatches, -1},
		{"below the minimum", func(p *process, _ *payment.Request) { p.set(func(s *settings.Settings) { s.Minimum = token.Units(6) }) },
			batchOf(6, 5), dispatch.ErrAmountBelow, 1},
		{"above the maximum", func(p *process, _ *payment.Request) { p.set(func(s *settings.Settings) { s.Maximum = token.Units(6) }) },
			batchOf(6, 6, 7), dispatch.ErrAmountAbove, 2},
		{"above the key's maximum", func(_ *process, r *payment.Request) { r.Key.Maximum = token.Units(6) }, batchOf(7, 6),
			dispatch.ErrAmountAbove, 0},
		{"more than the contract can carry", func(*process, *payment.Request) {}, large, dispatch.ErrAmountAbove, 1},
		{"not in the book", func(p *process, r *payment.Request) { p.d.Book, r.Key.Book = shortBook{}, true }, batchOf(5, 6),
			dispatch.ErrNotInBook, 1},
		{"on the deny list", func(p *process, _ *payment.Request) {
			p.Must(p.Tables.Deny(t.Context(), store.Denial{To: third}))
		}, batchOf(5, 6, 7), dispatch.ErrRecipient, 2},
		{"on the sanctions list", func(p *process, _ *payment.Request) {
			p.listed = []token.Address{{0x10}}
			p.set(func(s *settings.Settings) { s.Sanctions = token.Address{7} })
		}, batchOf(5, 6, 7), dispatch.ErrRecipient, 0},
		{"the third one on it", func(p *process, _ *payment.Request) {
			p.listed = []token.Address{third}
			p.set(func(s *settings.Settings) { s.Sanctions = token.Address{7} })
		}, batchOf(5, 6, 7), dispatch.ErrRecipient, 2},
		{"a recipient that the token refuses", func(p *process, _ *payment.Request) { p.refuses = []token.Address{third} },
			batchOf(5, 6, 7, 8, 9), dispatch.ErrRecipient, 2},
		{"the last one", func(p *process, _ *payment.Request) { p.refuses = []token.Address{third} }, batchOf(5, 6, 7), dispatch.ErrRecipient, 2},
		{"by a node that gives the reason", func(p *process, _ *payment.Request) {
			p.refuses, p.tells = []token.Address{{0x10}}, true
		}, batchOf(5, 6, 7), dispatch.ErrRecipient, 0},
		{"while every wallet is draining", func(p *process, _ *payment.Request) { p.draining = p.keys }, batchOf(5), dispatch.ErrUnavailable, -1},
		{"a batch of one, which the contract does not carry", func(*process, *payment.Request) {}, one, dispatch.ErrInsufficient, -1},
		{"more than every wallet has", func(*process, *payment.Request) {}, batchOf(600, 600), dispatch.ErrInsufficient, -1},
		{"more than the day's limit in all", func(p *process, _ *payment.Request) {
			p.set(func(s *settings.Settings) { s.Daily = token.Units(10) })
		}, batchOf(5, 6), store.ErrDailyLimit, -1},
		{"more entries than the key's day has", func(_ *process, r *payment.Request) {
			r.Key.Daily = payment.DailyLimit{Key: "key_1", Count: 2}
		}, batchOf(1, 1, 1), store.ErrDailyLimit, -1},
		{"no wallet that the contract may spend from", func(p *process, _ *payment.Request) {
			p.unapproved = []token.Address{first, second}
		}, batchOf(5, 6), dispatch.ErrUnavailable, -1},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := newProcess(t, script{})
			var log bytes.Buffer
			p.d.Log = slog.New(slog.NewTextHandler(&log, nil))
			row.world(p, &row.r)
			_, err := p.d.Send(t.Context(), row.r)
			list := map[string]string{"on the deny list": "deny", "on the sanctions list": "sanctions", "the third one on it": "sanctions"}[row.name]
			if strings.Contains(log.String(), "recipient refused") != (list != "") || !strings.Contains(log.String(), "list="+list) && list != "" {
				t.Errorf("logged %s, want the list %q", &log, list)
			}
			index := -1
			if entry, ok := errors.AsType[*chain.EntryError](err); ok {
				index = entry.Index
			}
			if !errors.Is(err, row.want) || index != row.index {
				t.Errorf("%v of entry %d, want %v of %d", err, index, row.want, row.index)
			}
			if stored, err := p.Tables.Payment(t.Context(), payment.KeyID(asked.Merchant, asked.Mode, asked.IdempotencyKey)); !errors.Is(err,
				store.ErrNotFound) {
				t.Errorf("stored is %+v, %v", stored, err)
			}
			if p.tells && p.asked > 2 {
				t.Errorf("the node was asked %d times for a reason that it gave", p.asked)
			}
		})
	}
}

// TestBatchesThatArePaid: one transaction pays the entries by the contract, and a batch of one is a transfer. A wallet
// whose coins the contract may not spend is passed over, and pays on alone.
func TestBatchesThatArePaid(t *testing.T) {
	p := newProcess(t, script{})
	p.unapproved, p.d.ByCall = []token.Address{first}, true
	result := must.Get(p.d.Send(t.Context(), batchOf(5, 6)))(t)
	if slices.ContainsFunc(p.executed, func(to string) bool { return strings.HasPrefix(to, "10 ") }) {
		t.Errorf("executed by a call, beside which no node is asked for the contract's code: %q", p.executed)
	}
	paid := result.Payment
	_, entries, rest, ok := disburser.Parse(paid.Tx.Data)
	if paid.Wallet != second || paid.Tx.To != fakechain.Batcher || !ok || len(entries) != 2 || payment.MemoID(rest) != paid.ID ||
		paid.Amount != token.Units(11) || !paid.To.IsZero() {
		t.Errorf("paid by %+v", paid)
	}
	w, err := p.Tables.Wallet(t.Context(), wallet.ID{ChainID: 1, Address: second})
	if p.Must(err); w.Balance != token.Units(989) {
		t.Errorf("the wallet has %v to spend, want 989", w.Balance)
	}
	one := batchOf(7)
	one.IdempotencyKey = "one"
	result = must.Get(p.d.Send(t.Context(), one))(t)
	if paid := result.Payment; paid.Wallet != first || paid.Tx.To != paid.Token.Contract || paid.To != (token.Address{0x10}) ||
		len(paid.Entries) != 1 {
		t.Errorf("a batch of one is paid by %+v", paid)
	}
	p.set(func(s *settings.Settings) { s.BatchContract = token.Address{} })
	if again, err := p.d.Send(t.Context(), batchOf(5, 6)); err != nil || !again.Replayed {
		t.Errorf("a batch of before, on a stack that pays none any more: %v", err)
	}
}

// TestBatchTooLarge: the refusal says how many entries fit.
func TestBatchTooLarge(t *testing.T) {
	for fit, want := range map[int]int{1: 1, 2: 2, 7: 7} {
		p := newProcess(t, script{})
		p.fit = fit
		_, err := p.d.Send(t.Context(), batchOf(1, 1, 1, 1, 1, 1, 1, 1))
		if tooMany, ok := errors.AsType[*dispatch.TooManyError](err); !ok || tooMany.Fit != want {
			t.Errorf("%v, want %d", err, want)
		}
	}
}
