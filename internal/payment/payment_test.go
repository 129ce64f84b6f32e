package payment_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"remit/internal/chain"
	"remit/internal/payment"
	"remit/internal/token"
)

var (
	now   = time.Date(2026, time.January, 2, 3, 4, 5, 678_900_000, time.UTC)
	coin  = token.Token{Symbol: "USDC", Decimals: 6, Contract: token.Address{0xc0}}
	asked = payment.Request{Merchant: "mer_1", Mode: "test", IdempotencyKey: "k", To: token.Address{0xee}, Amount: token.Units(1000000), Reference: "inv-1",
		Metadata: map[string]string{"order": "2041"}}
	tx = chain.Tx{ChainID: 7, To: coin.Contract, Data: []byte{1}, Gas: 60_000, Fees: chain.Fees{Tip: token.Units(1), Cap: token.Units(10)}}
)

func prepared() payment.Payment {
	return payment.New("pay_1", asked, coin, "net", now).AssignedTo(token.Address{0xaa}, tx)
}

// TestNew: times are whole milliseconds of UTC, as every store keeps them.
func TestNew(t *testing.T) {
	p := payment.New("pay_1", asked, coin, "net", now.In(time.FixedZone("UTC+5", 5*3600)))
	if want := now.Truncate(time.Millisecond); p.CreatedAt != want || p.UpdatedAt != want || p.State != payment.Prepared || p.Version != 0 {
		t.Errorf("New() = %+v, want %v", p, want)
	}
}

// in returns a payment in a state, with what it would have there.
func in(t *testing.T, s payment.State) payment.Payment {
	t.Helper()
	p, err := prepared(), error(nil)
	if s != payment.Prepared {
		if p, err = p.Commit(chain.Signed{Nonce: 9, Hash: chain.Hash{1}, Raw: []byte{2}}, now); err != nil {
			t.Fatal(err)
		}
	}
	switch s {
	case payment.Confirmed:
		p, err = p.Confirm(chain.Receipt{Tx: chain.Hash{1}, Block: 5}, now)
	case payment.Failed:
		p, err = p.Fail(payment.NonceConsumed, chain.Receipt{}, now)
	}
	if err != nil || p.State != s {
		t.Fatalf("no payment in %s: %v", s, err)
	}
	return p
}

// TestMoves is the payment state machine, one row per state and move.
func TestMoves(t *testing.T) {
	const forbidden = payment.State("")
	tests := []struct {
		from payment.State
		move string
		want payment.State
	}{
		{payment.Prepared, "commit", payment.Committed},
		{payment.Prepared, "bump", forbidden},    // nothing was sent
		{payment.Prepared, "confirm", forbidden}, // nothing to confirm
		{payment.Prepared, "fail", forbidden},    // refused ones are discarded

		{payment.Committed, "commit", forbidden}, // would pay twice
		{payment.Committed, "bump", payment.Committed},
		{payment.Committed, "confirm", payment.Confirmed},
		{payment.Committed, "fail", payment.Failed},

		{payment.Confirmed, "commit", forbidden}, // would pay twice
		{payment.Confirmed, "bump", forbidden},
		{payment.Confirmed, "confirm", forbidden}, // announced once, in one form
		{payment.Confirmed, "fail", forbidden},    // the money has moved

		{payment.Failed, "commit", forbidden}, // reported failed: never paid later
		{payment.Failed, "bump", forbidden},
		{payment.Failed, "confirm", forbidden},
		{payment.Failed, "fail", forbidden},
	}
	receipt := chain.Receipt{Tx: chain.Hash{1}, Block: 5}
	moves := map[string]func(payment.Payment) (payment.Payment, error){
		"commit": func(p payment.Payment) (payment.Payment, error) { return p.Commit(chain.Signed{Nonce: 4}, now) },
		"bump":   func(p payment.Payment) (payment.Payment, error) { return p.Bump(chain.Signed{}, tx.Fees, now) },
		"confirm": func(p payment.Payment) (payment.Payment, error) {
			return p.Confirm(receipt, now)
		},
		"fail": func(p payment.Payment) (payment.Payment, error) {
			return p.Fail(payment.ExecutionReverted, receipt, now)
		},
	}
	for _, test := range tests {
		t.Run(string(test.from)+"/"+test.move, func(t *testing.T) {
			before := in(t, test.from)
			got, err := moves[test.move](before)
			if got.State != test.want {
				t.Errorf("state = %q, want %q (error %v)", got.State, test.want, err)
			}
			if wantErr := test.want == forbidden; (err != nil) != wantErr {
				t.Errorf("error = %v, want an error: %v", err, wantErr)
			}
			if isFinal := errors.Is(err, payment.ErrFinal); isFinal != test.from.Final() {
				t.Errorf("errors.Is(%v, ErrFinal) = %v, want %v", err, isFinal, test.from.Final())
			}
			if diff := cmp.Diff(in(t, test.from), before, cmpopts.EquateComparable(token.Amount{})); diff != "" {
				t.Errorf("the move changed the payment it was given:\n%s", diff)
			}
			if err == nil && test.move != "bump" && got.Version != before.Version+1 {
				t.Errorf("version %d after %d: it rises by one per visible change", got.Version, before.Version)
			}
			if err == nil && got.State.Final() != (got.Event != nil) {
				t.Errorf("event %v in state %q: it is written with the end", got.Event, got.State)
			}
		})
	}
	if n := len(payment.States()) * len(moves); len(tests) != n {
		t.Errorf("table has %d rows, want %d: cover every state and move", len(tests), n)
	}
}

func TestStatuses(t *testing.T) {
	want := map[payment.State]payment.Status{
		payment.Prepared: payment.StatusPending, payment.Committed: payment.StatusPending,
		payment.Confirmed: payment.StatusConfirmed, payment.Failed: payment.StatusFailed,
	}
	for _, s := range payment.States() {
		if s.Status() != want[s] {
			t.Errorf("%s is shown as %q, want %q", s, s.Status(), want[s])
		}
	}
	if len(want) != len(payment.States()) {
		t.Error("a state has no row")
	}
}

func TestAttempts(t *testing.T) {
	p := in(t, payment.Committed)
	first, err := p.Bump(chain.Signed{Nonce: 9, Hash: chain.Hash{2}}, chain.Fees{Cap: token.Units(20)}, now)
	if err != nil {
		t.Fatal(err)
	}
	// A second run bumps what it read before: neither may see the other's.
	other, err := p.Bump(chain.Signed{Nonce: 9, Hash: chain.Hash{3}}, chain.Fees{Cap: token.Units(30)}, now)
	if err != nil {
		t.Fatal(err)
	}
	if want := []chain.Hash{{1}, {2}}; !slices.Equal(first.Hashes(), want) {
		t.Errorf("hashes %v, want %v", first.Hashes(), want)
	}
	if want := []chain.Hash{{1}, {3}}; !slices.Equal(other.Hashes(), want) {
		t.Errorf("hashes %v, want %v", other.Hashes(), want)
	}
	if first.TxHash != p.TxHash || first.LastAttempt().Fees.Cap != token.Units(20) || first.Version != p.Version {
		t.Errorf("a bump changed what merchants see: %+v", first.Public())
	}
}

// TestRevision: a commit holds only for what it was signed for.
func TestRevision(t *testing.T) {
	base := prepared()
	revisions := map[string]string{"as it is": base.Revision}
	add := func(name string, p payment.Payment) {
		for other, revision := range revisions {
			if revision == p.Revision {
				t.Errorf("%s has the same revision as %s", name, other)
			}
		}
		revisions[name] = p.Revision
	}
	change := func(name string, f func(*chain.Tx)) {
		moved := tx
		f(&moved)
		add(name, payment.New("pay_1", asked, coin, "net", now).AssignedTo(token.Address{0xaa}, moved))
	}
	change("another recipient contract", func(x *chain.Tx) { x.To = token.Address{1} })
	change("other data", func(x *chain.Tx) { x.Data = []byte{2} })
	change("another gas limit", func(x *chain.Tx) { x.Gas++ })
	change("another tip", func(x *chain.Tx) { x.Fees.Tip = token.Units(2) })
	change("another cap", func(x *chain.Tx) { x.Fees.Cap = token.Units(2) })
	add("made again later", payment.New("pay_1", asked, coin, "net", now.Add(time.Second)).AssignedTo(token.Address{0xaa}, tx))
	away := base.AssignedTo(token.Address{0xbb}, tx)
	add("another wallet", away)
	// A handler that sleeps while the payment is moved away and back holds a
	// nonce that has been given up since.
	add("moved away and back", away.AssignedTo(token.Address{0xaa}, tx))
	if prepared().Revision != base.Revision {
		t.Error("two handlers that make the same payment revision it differently")
	}
}
