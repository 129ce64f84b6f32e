package proposal_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/evm/token"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/proposal"
	"github.com/remit-payouts/remit/internal/proof/fieldtest"
	"github.com/remit-payouts/remit/internal/proof/must"
)

var noon = time.Date(2026, time.January, 2, 12, 0, 0, 0, time.UTC)

// proposed returns a proposal of the changed request, made at noon.
func proposed(change func(*proposal.Proposal, *payment.Request)) proposal.Proposal {
	p := proposal.Proposal{By: proposal.Author{Key: "key_1", Root: "key_1"}, Required: true, Life: time.Hour}
	r := payment.Request{Merchant: "mer_1", Mode: "test", IdempotencyKey: "k", To: token.Address{9}, Amount: token.Units(5)}
	change(&p, &r)
	return proposal.New(p, r, token.Token{Symbol: "USDC"}, 1, "base", noon)
}

func same(*proposal.Proposal, *payment.Request) {}

// TestWhenSomethingIsToBeDone: a proposal is due at the latest of its making, its time and its approval, is tried again
// after 1, 2, 4, 8 and then every 15 minutes, and expires its life after the later of its making and its time.
func TestWhenSomethingIsToBeDone(t *testing.T) {
	tomorrow := noon.Add(24 * time.Hour)
	at := func(what string, got, want time.Time) {
		t.Helper()
		if !got.Equal(want) {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	published := func(p proposal.Proposal) proposal.Proposal { p.Event = ""; return p }
	p := proposed(same)
	at("its event is not published", p.Next(), noon)
	at("it awaits approval", published(p).Next(), noon.Add(time.Hour))
	later := proposed(func(p *proposal.Proposal, _ *payment.Request) { p.NotBefore = tomorrow })
	at("the expiry of a later one", published(later).Next(), tomorrow.Add(time.Hour))
	later = published(later.Approve(proposal.Author{Key: "key_2"}, noon.Add(time.Minute)))
	at("approved, and not due yet", later.Next(), tomorrow)
	now := tomorrow.Add(time.Minute)
	later = published(later.Approve(proposal.Author{Key: "key_2"}, now))
	at("approved later", later.DueAt(), now)
	for _, minutes := range []int{1, 2, 4, 8, 15, 15} {
		later = later.Refused(proposal.Refusal{Code: "insufficient_funds"}, now)
		want := now.Add(time.Duration(minutes) * time.Minute)
		at("refused", later.Next(), want)
		if r := later.Refused(proposal.Refusal{}, now); r.Tries != later.Tries || r.Version != later.Version || !r.Next().Equal(want) {
			t.Errorf("a refusal for now counts: %+v", r)
		}
		now = want
	}
	at("in a crowd, just refused", later.Later(now.Add(-16*time.Minute)).Next(), now)
	at("in a crowd, due again", later.Later(now).Next(), now.Add(15*time.Minute))
	at("the last try", later.Refused(proposal.Refusal{Code: "x"}, now).Next(), tomorrow.Add(time.Hour))
	at("an approval", later.Approve(proposal.Author{}, now).Retry, time.Time{})
	later.Closed = true
	at("closed", later.Next(), time.Time{})
}

// TestStatus follows the payment's state alone, and the approval.
func TestStatus(t *testing.T) {
	p := proposed(same)
	approved := p.Approve(proposal.Author{Key: "key_2"}, noon)
	free := proposed(func(p *proposal.Proposal, _ *payment.Request) { p.Required = false })
	begun := approved.Begin(payment.Payment{State: payment.Prepared})
	signed := begun
	signed.Payment = must.Get(begun.Payment.Commit(chain.Signed{Hash: chain.Hash{1}}, noon.Add(time.Second)))(t)
	for want, all := range map[string][]proposal.Proposal{
		proposal.StatusAwaiting: {p}, proposal.StatusScheduled: {approved, free, begun, begun.Refused(proposal.Refusal{Code: "x"}, noon)},
		proposal.StatusReleased: {signed}, proposal.StatusCancelled: {approved.End(payment.Cancelled, noon)},
		proposal.StatusExpired: {p.End(payment.Expired, noon)},
	} {
		for _, p := range all {
			if v := p.Public(); v.Status != want || (v.Payment != nil) != (want == proposal.StatusReleased) {
				t.Errorf("%s: %+v, want %s", p, v, want)
			}
		}
	}
	if v, w := signed.Public(), approved.Public(); v.Version != w.Version+1 || time.Time(v.UpdatedAt) != noon.Add(time.Second) {
		t.Errorf("released as %+v", v)
	}
	if again := begun.Refused(proposal.Refusal{}, noon).Begin(payment.Payment{State: payment.Prepared}); again.Payment.Revision ==
		begun.Payment.Revision {
		t.Error("two releases have one revision")
	}
}

// TestRequest: it is the proposed one. The approver's limits hold, or else the proposer's; both address books, and the
// longer guard.
func TestRequest(t *testing.T) {
	asked := fieldtest.Filled[payment.Request]()
	asked.Key.Guard = time.Hour
	p := proposal.New(proposal.Proposal{}, asked, token.Token{}, 1, "base", noon)
	asked.NotAfter = time.Time{} // which bounds the proposing alone
	if diff := cmp.Diff(asked, p.Request(), exactly); diff != "" {
		t.Errorf("by the proposer's limits (-proposed +released):\n%s", diff)
	}
	p = p.Approve(proposal.Author{Key: "key_2", Limits: payment.KeyLimits{Maximum: token.Units(7)}}, noon)
	if r := p.Request(); r.Key != (payment.KeyLimits{Maximum: token.Units(7), Book: true, Guard: time.Hour}) {
		t.Errorf("by the approver's: %+v", r)
	}
	p.By.Limits.Book, p.Approver.Limits = false, payment.KeyLimits{Book: true, Guard: 2 * time.Hour}
	if r := p.Request(); r.Key != p.Approver.Limits {
		t.Errorf("by the approver's address book and longer guard: %+v", r)
	}
}

var exactly = cmpopts.EquateComparable(token.Amount{})

// TestStoredForm: JSON keeps everything but the payment, and the limits that a release reads anew.
func TestStoredForm(t *testing.T) {
	p := fieldtest.Filled[proposal.Proposal]()
	back := proposal.Proposal{Payment: p.Payment}
	must.OK(t, json.Unmarshal(must.Get(json.Marshal(p))(t), &back))
	if diff := cmp.Diff(p, back, exactly, cmpopts.IgnoreFields(payment.KeyLimits{}, "OtherAsset", "OwnWallets", "MerchantMaximum",
		"MerchantDaily")); diff != "" {
		t.Error(diff)
	}
}

func TestNames(t *testing.T) {
	id := payment.KeyID("mer_1", "test", "k")
	for name, want := range map[string]payment.ID{proposal.ID(id): id, "prp_": "", "prp_x": "", string(id): "", "": "",
		proposal.ID(id) + "a": "", "prp_" + "A" + proposal.ID(id)[5:]: ""} {
		if got := proposal.Payment(name); got != want {
			t.Errorf("%q names %q, want %q", name, got, want)
		}
	}
}
