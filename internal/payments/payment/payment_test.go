package payment_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/recovery/onchain"
	"github.com/remit-payouts/remit/internal/proof/fieldtest"
	"github.com/remit-payouts/remit/internal/proof/must"
)

var (
	now   = time.Date(2026, time.January, 2, 3, 4, 5, 678_900_000, time.UTC)
	coin  = token.Token{Symbol: "USDC", Decimals: 6, Contract: token.Address{0xc0}}
	asked = payment.Request{Merchant: "mer_1", Mode: "test", IdempotencyKey: "k", To: token.Address{0xee},
		Amount: token.Units(1000000), Reference: "inv-1",
		Metadata: map[string]string{"order": "2041"}}
	tx = chain.Tx{ChainID: 7, To: coin.Contract, Data: []byte{1}, Gas: 60_000, Fees: chain.Fees{Tip: token.Units(1), Cap: token.Units(10)}}
)

func prepared() payment.Payment {
	return payment.New("pay_1", asked, coin, "net", now).AssignedTo(token.Address{0xaa}, tx)
}

// TestNew: times are whole milliseconds of UTC, as every store keeps them and merchants read them.
func TestNew(t *testing.T) {
	zone := time.FixedZone("UTC+5", 5*3600)
	p := payment.New("pay_1", asked, coin, "net", now.In(zone))
	if want := now.Truncate(time.Millisecond); p.CreatedAt != want || p.UpdatedAt != want || p.State != payment.Prepared || p.Version != 0 {
		t.Errorf("New() = %+v, want %v", p, want)
	}
	p.ID = payment.KeyID("mer_1", "test", "k")
	for _, memo := range []bool{true, false} {
		if p.Tx.Data = p.Call(p.Wallet, memo).Data; p.Memo() != memo {
			t.Errorf("the ID follows the transfer: %t, want %t", p.Memo(), memo)
		}
	}
	if text := must.Get(payment.Time(now.In(zone)).MarshalText())(t); string(text) != "2026-01-02T03:04:05.678Z" {
		t.Errorf("%s", text)
	}
}

// in returns a payment in a state, with the fields that it has there.
func in(t *testing.T, s payment.State) payment.Payment {
	t.Helper()
	p, err := prepared(), error(nil)
	switch {
	case s == payment.Proposed || s.UsedUp():
		p.State = s
	case s != payment.Prepared:
		p = must.Get(p.Commit(chain.Signed{Nonce: 9, Hash: chain.Hash{1}, Raw: []byte{2}}, now))(t)
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

// TestMoves is the payment state machine: the moves of a state and where they lead. All others are
// forbidden. A payment that was committed before would be paid twice, an ended payment is announced
// in one form, and a failed payment is never paid later.
func TestMoves(t *testing.T) {
	receipt := chain.Receipt{Tx: chain.Hash{1}, Block: 5}
	moves := map[string]func(payment.Payment) (payment.Payment, error){
		"commit":  func(p payment.Payment) (payment.Payment, error) { return p.Commit(chain.Signed{Nonce: 4}, now) },
		"bump":    func(p payment.Payment) (payment.Payment, error) { return p.Bump(chain.Signed{}, tx, now) },
		"cancel":  func(p payment.Payment) (payment.Payment, error) { return p.Cancel(chain.Signed{}, tx, now) },
		"confirm": func(p payment.Payment) (payment.Payment, error) { return p.Confirm(receipt, now) },
		"fail": func(p payment.Payment) (payment.Payment, error) {
			return p.Fail(payment.ExecutionReverted, receipt, now)
		},
	}
	allowed := map[payment.State]map[string]payment.State{
		payment.Prepared: {"commit": payment.Committed},
		payment.Committed: {
			"bump": payment.Committed, "cancel": payment.Committed, "confirm": payment.Confirmed, "fail": payment.Failed,
		},
	}
	for _, from := range payment.States() {
		for name, move := range moves {
			before := in(t, from)
			got, err := move(before)
			if want := allowed[from][name]; got.State != want || (err != nil) != (want == "") {
				t.Errorf("%s of %s: state = %q, want %q (error %v)", name, from, got.State, want, err)
			}
			if diff := cmp.Diff(in(t, from), before, cmpopts.EquateComparable(token.Amount{})); diff != "" {
				t.Errorf("%s of %s changed the payment that it was given:\n%s", name, from, diff)
			}
			// The version rises by one per visible change, and the event is written with the end.
			if err == nil && (got.State != from && got.Version != before.Version+1 || got.State.Final() != (got.Event != nil)) {
				t.Errorf("%s of %s: version %d after %d, event %v", name, from, got.Version, before.Version, got.Event)
			}
		}
	}
}

// TestAttempts: of two runs that bump the payment which both have read, neither sees the other's attempt.
func TestAttempts(t *testing.T) {
	p := in(t, payment.Committed)
	first := must.Get(p.Bump(chain.Signed{Nonce: 9, Hash: chain.Hash{2}},
		chain.Tx{Fees: chain.Fees{Cap: token.Units(20)}, Gas: tx.Gas}, now))(t)
	other := must.Get(p.Bump(chain.Signed{Nonce: 9, Hash: chain.Hash{3}},
		chain.Tx{Fees: chain.Fees{Cap: token.Units(30)}, Gas: 70_000}, now))(t)
	if !slices.Equal(first.Hashes(), []chain.Hash{{1}, {2}}) || !slices.Equal(other.Hashes(), []chain.Hash{{1}, {3}}) {
		t.Errorf("hashes %v and %v", first.Hashes(), other.Hashes())
	}
	if p.Gas() != tx.Gas || first.Gas() != tx.Gas || other.Gas() != 70_000 {
		t.Errorf("gas limits %d, %d, %d", p.Gas(), first.Gas(), other.Gas())
	}
	if first.TxHash != p.TxHash || first.HasNoop() || first.LastAttempt().Fees.Cap != token.Units(20) || first.Version != p.Version {
		t.Errorf("a bump changed what merchants see: %+v", first.Public())
	}
}

// TestEther: an operator's call carries its ether and its data. It has paid with each attempt that succeeded, but for a
// no-op, and what merchants are told of a mined payment says so.
func TestEther(t *testing.T) {
	order := payment.Request{Merchant: payment.Operator, To: token.Address{0xee}, Amount: token.Units(5),
		Metadata: map[string]string{payment.CallKey: "0a0b"}}
	p := payment.New("pay_1", order, payment.Ether, "net", now).AssignedTo(token.Address{0xaa}, tx)
	if c := p.Call(p.Wallet, true); c.To != p.To || c.Value != p.Amount || string(c.Data) != "\x0a\x0b" {
		t.Errorf("%+v", c)
	}
	p = must.Get(p.Commit(chain.Signed{Nonce: 9, Hash: chain.Hash{1}, Raw: []byte{2}}, now))(t)
	p = must.Get(p.Cancel(chain.Signed{Nonce: 9, Hash: chain.Hash{2}}, tx, now))(t)
	for receipt, want := range map[int]chain.Verdict{1: chain.Transferred, 2: chain.Missing} {
		if got := p.Judge(chain.Receipt{Tx: chain.Hash{byte(receipt)}, Succeeded: true}); got != want {
			t.Errorf("attempt %d: %s, want %s", receipt, got, want)
		}
	}
	if got := p.Judge(chain.Receipt{Tx: chain.Hash{1}}); got != chain.Reverted {
		t.Errorf("without success: %s", got)
	}
	if e := must.Get(in(t, payment.Committed).Mined())(t); !bytes.Contains(e.Body, []byte(`"progress":"mined"`)) {
		t.Errorf("%s", e.Body)
	}
}

// TestRecovered: a batch is found on the chain. The contract pays no batch of one for us.
func TestRecovered(t *testing.T) {
	r, _ := asked.Batch([]payment.Entry{{To: token.Address{1}, Amount: token.Units(5), Reference: "a"},
		{To: token.Address{2}, Amount: token.Units(6)}})
	p := payment.New(payment.KeyID(r.Merchant, r.Mode, r.IdempotencyKey), r, coin, "net", now)
	p.BatchContract = token.Address{0xba}
	find := func(p payment.Payment) (payment.Payment, bool) {
		mined := chain.MinedTx{From: token.Address{0xaa}, To: p.BatchContract, Data: string(p.Call(token.Address{}, true).Data), At: now}
		return onchain.Payment(mined, 7, coin, "net")
	}
	found, ok := find(p)
	if !ok || !found.Pays(r.Entries) || found.Amount != r.Amount ||
		p.AssignedTo(token.Address{0xaa}, chain.Tx{Data: p.Call(token.Address{}, false).Data}).Memo() {
		t.Errorf("found %+v", found)
	}
	p.Entries = p.Entries[:1]
	if found, ok := find(p); ok {
		t.Errorf("found a batch of one: %+v", found)
	}
}

// TestEveryField: of a request's fields, those of its meaning are in its fingerprint; a payment that was found on the
// chain gets all that a new one has; and a redacted one keeps the words alone that name its request.
func TestEveryField(t *testing.T) {
	batch := fieldtest.Filled[payment.Request]()
	single, bare := batch, payment.Request{To: batch.To, Amount: batch.Amount}
	single.Entries = nil
	for _, e := range batch.Entries {
		bare.Entries = append(bare.Entries, payment.Entry{To: e.To, Amount: e.Amount})
	}
	p := payment.New("pay_1", batch, coin, "net", now)
	if diff := cmp.Diff(p, payment.New("pay_1", bare, coin, "net", now).Adopted(batch), cmpopts.EquateComparable(token.Amount{}),
		cmpopts.IgnoreFields(payment.Payment{}, "Version", "Guarded")); diff != "" {
		t.Errorf("adopted (-new +found):\n%s", diff)
	}
	if _, err := p.Redacted(); err == nil {
		t.Error("a payment that is not final is redacted")
	}
	p.State = payment.Confirmed
	redacted := must.Get(p.Redacted())(t)
	kept := fmt.Sprintf("%+v %s", redacted, redacted.Event.Body)
	if redacted.Event.ID != payment.EventID(p.ID, redacted.Event.Type) || p.Entries[0].Reference != batch.Entries[0].Reference {
		t.Errorf("it has another event, or has changed the payment: %+v, %+v", redacted.Event, p)
	}
	for field := range reflect.TypeFor[payment.Request]().Fields() {
		without := func(r payment.Request) string {
			reflect.ValueOf(&r).Elem().FieldByIndex(field.Index).SetZero()
			return r.Fingerprint()
		}
		value := reflect.ValueOf(batch).FieldByIndex(field.Index)
		if value.Kind() == reflect.String && !strings.Contains(fmt.Sprintf("%+v", p), value.String()) {
			t.Errorf("New drops %s", field.Name)
		}
		names := slices.Contains([]string{"Merchant", "Mode", "IdempotencyKey"}, field.Name)
		means := !names && !slices.Contains([]string{"Key", "NotAfter", "DifferentFrom"}, field.Name)
		for unused, r := range map[string]payment.Request{"To, Amount": batch, "Entries": single} {
			want := means && !strings.Contains(unused, field.Name)
			if got := without(r) != r.Fingerprint(); got != want {
				t.Errorf("in a request without %s, %s is in the fingerprint: %t, want %t. Add it to Request.Fingerprint, so that "+
					"one key cannot stand for two payments; if it changes no payment, name it in this test", unused, field.Name, got, want)
			}
		}
		shown := regexp.MustCompile(`"(\w+)":"` + field.Name + ` \d`).FindSubmatch(must.Get(json.Marshal(p.Public()))(t))
		if means && shown != nil {
			r, named := payment.Request{}, payment.Request{Metadata: map[string]string{string(shown[1]): "x"}}
			if reflect.ValueOf(&r).Elem().FieldByIndex(field.Index).SetString("x"); r.Fingerprint() == named.Fingerprint() {
				t.Errorf("%s has the fingerprint of such metadata: put its part in front, as the asset's", field.Name)
			}
		}
		if regexp.MustCompile(`\b`+field.Name+` \d`).MatchString(kept) != names {
			t.Errorf("%s has its words after the redaction: %t, want %t", field.Name, !names, names)
		}
	}
}

// TestRevision: a commit holds only for its own revision.
func TestRevision(t *testing.T) {
	base := prepared()
	away := base.AssignedTo(token.Address{0xbb}, tx)
	all := map[string]payment.Payment{
		"as it is":         base,
		"made again later": payment.New("pay_1", asked, coin, "net", now.Add(time.Second)).AssignedTo(token.Address{0xaa}, tx),
		"another wallet":   away,
		// A handler that sleeps while the payment is moved away and back holds a nonce that has been given up since.
		"moved away and back": away.AssignedTo(token.Address{0xaa}, tx),
	}
	for name, change := range map[string]func(*chain.Tx){
		"another recipient contract": func(x *chain.Tx) { x.To = token.Address{1} },
		"other data":                 func(x *chain.Tx) { x.Data = []byte{2} },
		"another gas limit":          func(x *chain.Tx) { x.Gas++ },
		"another tip":                func(x *chain.Tx) { x.Fees.Tip = token.Units(2) },
		"another cap":                func(x *chain.Tx) { x.Fees.Cap = token.Units(2) },
	} {
		moved := tx
		change(&moved)
		all[name] = payment.New("pay_1", asked, coin, "net", now).AssignedTo(token.Address{0xaa}, moved)
	}
	names := map[string]string{}
	for name, p := range all {
		if other := names[p.Revision]; other != "" {
			t.Errorf("%s has the same revision as %s", name, other)
		}
		names[p.Revision] = name
	}
	if prepared().Revision != base.Revision {
		t.Error("two handlers that make the same payment revision it differently")
	}
}

// TestPublic: the examples of openapi.yaml have the rest.
func TestPublic(t *testing.T) {
	p := in(t, payment.Failed)
	p.Reference, p.Metadata, p.Amount = "", nil, token.MaxAmount()
	view := p.Public()
	if view.Reference != nil || view.Metadata == nil || view.OnchainTxHash != nil || view.BlockNumber != nil ||
		view.Failure == nil || view.Failure.Message == "" {
		t.Errorf("a payment whose nonce somebody else used: %+v", view)
	}
	if paid := in(t, payment.Confirmed).Public(); paid.OnchainTxHash == nil || *paid.OnchainTxHash != (chain.Hash{1}) ||
		paid.BlockNumber == nil || *paid.BlockNumber != 5 {
		t.Errorf("a payment that was made: %+v", paid)
	}
	p.Tx.GasUnit = 1
	if unit := p.Public().FeeUnit; unit != "USDC" {
		t.Errorf("a fee that the token pays is in %s", unit)
	}
	dear := token.MaxAmount()
	failed, err := in(t, payment.Committed).Fail(payment.ExecutionReverted, chain.Receipt{Tx: chain.Hash{1}, Block: 5, Fee: &dear}, now)
	if err != nil || view.NetworkFee != nil || !bytes.Contains(failed.Event.Body, []byte(`"network_fee_text":"`+dear.String()+`"`)) {
		t.Errorf("the fees of a failed payment, and of one with nothing mined: %s, %v, %v", failed.Event.Body, view.NetworkFee, err)
	}
	if got, err := json.Marshal(view.Amount); err != nil || string(got) != token.MaxAmount().String() {
		t.Errorf("the largest amount is written as %s, %v", got, err)
	}
}

func TestEvent(t *testing.T) {
	p := in(t, payment.Confirmed)
	if p.Event.ID != payment.EventID(p.ID, "payment.confirmed") || p.Event.Type != "payment.confirmed" ||
		!bytes.HasPrefix(p.Event.Body, []byte(`{"id":"`+p.Event.ID+`","type":"payment.confirmed","timestamp":"2026-01-02T03:04:05.678Z",`)) {
		t.Errorf("event %s of type %s: %s", p.Event.ID, p.Event.Type, p.Event.Body)
	}
	// A receiver finds the merchant's characters, and not their escapes for HTML.
	plain := in(t, payment.Committed)
	plain.Reference = "<a & b>"
	plain, err := plain.Confirm(chain.Receipt{Tx: chain.Hash{1}, Block: 5}, now)
	if err != nil || !bytes.Contains(plain.Event.Body, []byte(`"reference":"<a & b>"`)) {
		t.Errorf("%s, %v", plain.Event.Body, err)
	}
	paused := must.Get(in(t, payment.Committed).Fail(payment.ExecutionReverted, chain.Receipt{Reason: "Pausable: paused"}, now))(t)
	if want := `The token contract reverted the transfer ("Pausable: paused"). Nothing was paid.`; paused.Failure.Message != want {
		t.Errorf("with a reason: %+v, want %s", paused.Failure, want)
	}
	for code, message := range map[payment.FailureCode]string{
		payment.ExecutionReverted: "The token contract reverted the transfer. Nothing was paid.",
		payment.TransferMissing:   "The transaction was mined without the transfer. Nothing was paid.",
		payment.AmountDiffers:     "The token moved 0 units to the recipient instead of 1000000.",
		payment.NonceConsumed:     "Another transaction took this payment's place. Nothing was paid.",
	} {
		failed := must.Get(in(t, payment.Committed).Fail(code, chain.Receipt{}, now))(t)
		if failed.Failure.Code != code || failed.Failure.Message != message || failed.Event.Type != "payment.failed" {
			t.Errorf("failed with %s: %+v", code, failed.Failure)
		}
	}
}
