package simulation_test

import (
	"errors"
	"testing"
	"time"

	"github.com/remit-payouts/remit/internal/deployment/settings"
	"github.com/remit-payouts/remit/internal/evm/chain"
	"github.com/remit-payouts/remit/internal/payments/dispatch"
	"github.com/remit-payouts/remit/internal/payments/payment"
	"github.com/remit-payouts/remit/internal/payments/store"
	"github.com/remit-payouts/remit/internal/payments/wallet"
	"github.com/remit-payouts/remit/internal/proof/simulation"
	"github.com/remit-payouts/remit/internal/proof/simulation/fakechain"
	"github.com/remit-payouts/remit/internal/proof/simulation/oracle"
	"github.com/remit-payouts/remit/internal/proof/simulation/scheduler"
)

// sweep is the transfer of all tokens, or all ether, of the first wallet to an operator's funding wallet.
func sweep(key string, ether bool) oracle.Order {
	return oracle.Order{Key: key, From: fakechain.Wallet(0), To: fakechain.Payee(7), Ether: ether}
}

// An operator sweeps a drained wallet while each effect of the command goes wrong in every way, and gives the command
// again. Both transfers are made once; payments of the other wallet go on.
func TestSweep(t *testing.T) {
	effects := []string{"Payment", "Estimate", "Create", "Reserve", "Wallet"}
	outcomes := scheduler.Faults()
	performEach(t, effects, outcomes, func(s *simulation.Scenario, effect string, o scheduler.Outcome) {
		s.AddWallet()
		s.Pay("client", order(0))
		s.Drain(0)
		s.Elapse(5 * time.Minute) // by then every process has read it
		s.On("client-sweep", effect, 1, o)
		call := sweep("call", true)
		call.Call = []byte("approve")
		for _, swept := range []oracle.Order{call, sweep("sweep-false", false), sweep("sweep-true", true)} {
			for range 3 {
				s.StartClient("client-sweep", swept, 1, false)
				s.Elapse(90 * time.Second)
			}
			s.After(3*time.Minute, swept, payment.Confirmed)
		}
		s.Pay("client", order(1))
		s.Elapse(3 * time.Minute)
		s.IsState(order(1), payment.Confirmed)
		s.Is("tokens left", s.Record(0).Balance, unit(0))
		// At most the room for a bump and the unused part of the fees stay in the wallet.
		s.Is("ether left", s.Record(0).Gas.Less(unit(3*chain.NoopGas*210*2)), true)
		s.Is("ether arrived", s.Chain.Account(fakechain.Payee(7), 0).Gas, s.Payment(sweep("sweep-true", true)).Amount)
	})
}

// A transfer's key is for that transfer, and an impossible transfer changes nothing.
func TestTransferRefused(t *testing.T) {
	simulation.Perform(t, simulation.Setup{Wallets: 3, Coins: 1000}, func(s *simulation.Scenario) {
		moved := oracle.Order{Key: "a", From: fakechain.Wallet(0), To: fakechain.Wallet(1), Amount: 400}
		s.Is("denied", s.Store.Deny(s.T.Context(), store.Denial{To: fakechain.Payee(10)}), nil)
		s.Drain(2)
		s.Is("retired", s.Retire(2), nil)
		s.Is("moved", s.Ask("client-move", moved).Err, nil)
		for name, test := range map[string]struct {
			change func(*oracle.Order)
			want   error
		}{
			"the key of a transfer":        {func(o *oracle.Order) { o.Key, o.Amount = "a", 401 }, dispatch.ErrKeyReused},
			"the same of ether":            {func(o *oracle.Order) { o.Key, o.Ether = "a", true }, dispatch.ErrKeyReused},
			"all, under its key":           {func(o *oracle.Order) { o.Key, o.Amount = "a", 0 }, dispatch.ErrKeyReused},
			"more than there is":           {func(o *oracle.Order) { o.Amount = 1001 }, dispatch.ErrInsufficient},
			"more than is spendable":       {func(o *oracle.Order) { o.Amount = 700 }, wallet.ErrToken},
			"more ether than there is":     {func(o *oracle.Order) { o.Amount, o.Ether = 2_000_000_000_000, true }, dispatch.ErrUnavailable},
			"more ether than is spendable": {func(o *oracle.Order) { o.Amount, o.Ether = 999_999_999_000, true }, wallet.ErrGas},
			"to itself":                    {func(o *oracle.Order) { o.To = o.From }, dispatch.ErrRecipient},
			"to the token":                 {func(o *oracle.Order) { o.To = s.Chain.Token }, dispatch.ErrRecipient},
			"from no wallet of ours":       {func(o *oracle.Order) { o.From = fakechain.Payee(9) }, wallet.ErrNoKey},
			"to an address that refuses":   {func(o *oracle.Order) { o.To = fakechain.Payee(8) }, dispatch.ErrRecipient},
			"to one on the deny list":      {func(o *oracle.Order) { o.To = fakechain.Payee(10) }, dispatch.ErrRecipient},
			"to a retired wallet":          {func(o *oracle.Order) { o.To = fakechain.Wallet(2) }, dispatch.ErrRecipient},
			"from a retired wallet":        {func(o *oracle.Order) { o.From, o.To = fakechain.Wallet(2), fakechain.Wallet(1) }, wallet.ErrNoKey},
			"a call instead":               {func(o *oracle.Order) { o.Key, o.Call = "a", []byte("approve") }, dispatch.ErrKeyReused},
			"a call with tokens":           {func(o *oracle.Order) { o.Call = []byte("approve") }, dispatch.ErrRecipient},
		} {
			s.Chain.Recipients[fakechain.Payee(8)] = fakechain.Reverts
			bad := moved
			bad.Key = "other"
			test.change(&bad)
			if a := s.Ask("client-move", bad); !errors.Is(a.Err, test.want) {
				s.T.Errorf("%s: %v, want %v", name, a.Err, test.want)
			}
		}
		s.Is("reserved", len(s.Record(0).Reservations), 1)
		s.After(4*time.Minute, moved, payment.Confirmed)
	})
}

// A transfer of ether is bumped as a payment is, as far as the wallet can pay for that
// beside the value, and cancelled if no node takes its bytes: then the ether has stayed.
func TestTransferOfEther(t *testing.T) {
	perform(t, "bumped", simulation.Setup{}, func(s *simulation.Scenario) {
		s.StartClient("client-sweep", sweep("sweep", true), 1, false)
		s.Elapse(3 * time.Second)
		s.Chain.BaseFee = unit(250) // above the cap of 210, within twice of it
		s.After(6*time.Minute, sweep("sweep", true), payment.Confirmed)
		s.Is("bumped", len(s.Payment(sweep("sweep", true)).Attempts) > 1, true)
	})
	perform(t, "cancelled", simulation.Setup{}, func(s *simulation.Scenario) {
		moved := sweep("move", true)
		moved.Amount = 5_000
		refuse := func(class chain.Class) { s.Chain.Each(func(n *fakechain.Node) { n.Answers = class }) }
		refuse(chain.Wrong)
		s.StartClient("client-move", moved, 1, false)
		s.Elapse(3 * time.Minute)
		refuse("")
		s.After(5*time.Minute, moved, payment.Failed)
		s.Is("why", codeOf(s.Payment(moved)), payment.TransferMissing)
		s.Is("ether arrived", s.Chain.Account(moved.To, 0).Gas, unit(0))
	})
}

// Tables that were restored show a transfer as prepared which was made since, at a nonce behind another payment's. An
// operator gives it again before anyone has noticed, and once more when the tables are recovered.
func TestTransferTakenUpWhileTheChainIsAhead(t *testing.T) {
	simulation.Perform(t, simulation.Setup{Nodes: 1}, func(s *simulation.Scenario) {
		moved := sweep("move", false)
		moved.Amount = 400
		s.Pay("client", order(0))
		s.After(3*time.Minute, order(0), payment.Confirmed)
		s.On("client-move", "Reserve", 1, scheduler.KillBefore)
		s.StartClient("client-move", moved, 1, false)
		s.Elapse(time.Second)
		s.IsState(moved, payment.Prepared)
		image := s.Store.Image()
		s.Pay("client", order(1))
		s.StartClient("client-move", moved, 1, false)
		s.After(4*time.Minute, moved, payment.Confirmed)
		s.Idle = true
		s.Forget(image)
		s.Is("refused", errors.Is(s.Ask("client-move", moved).Err, dispatch.ErrInProgress), true)
		s.Is("reserved", len(s.Record(0).Reservations), 0)
	})
}

// refilled is a small wallet beside a funding wallet that sends it 800 when it has less than 1,000, once in a day.
var refilled = simulation.Setup{Coins: 1_500, Depth: 1,
	Refills: settings.Refills{Token: settings.Refill{Low: unit(1_000), Amount: unit(800), Daily: unit(1_000)}}}

// runLow has a wallet pay before it is refilled.
func runLow(s *simulation.Scenario) {
	rules := s.Refills
	s.Refills = settings.Refills{}
	s.Pay("client", order(0))
	s.After(3*time.Minute, order(0), payment.Confirmed)
	s.Refills = rules
}

// A wallet that runs low is refilled once, while each effect of two runs at once goes
// wrong in every way, and each run asks again.
func TestRefill(t *testing.T) {
	for _, effect := range []string{"Payment", "Create", "Charge", "Reserve"} {
		for _, o := range scheduler.Faults() {
			setup := refilled
			setup.Refills.Token.Daily = unit(3_000) // a charge that is unknown is made again
			perform(t, effect+" "+o.String(), setup, func(s *simulation.Scenario) {
				runLow(s)
				s.On("refill", effect, 1, o)
				s.StartRefill()
				s.StartRefill()
				s.Elapse(8 * time.Minute)
				s.Is("tokens", s.Record(0).Balance, unit(1_500-1_000+800))
			})
		}
	}
}

// A run that looked at a wallet before its refill was there asks for no other one.
func TestRefillAfterAnOldLook(t *testing.T) {
	setup := refilled
	setup.Refills.Token.Daily = unit(0)
	simulation.Perform(t, setup, func(s *simulation.Scenario) {
		runLow(s)
		s.Idle = true
		late := s.StartRefill()
		s.On(late, "Payment", 1, scheduler.Freeze)
		s.Elapse(time.Second)
		for range 4 {
			s.StartRun()
			s.StartRefill()
			s.Elapse(12 * time.Second)
		}
		s.Elapse(3 * time.Second) // the refill is final, and the late run still alive
		s.Is("tokens", s.Record(0).Balance, unit(1_300))
		s.Thaw()
		for range 6 {
			s.StartRun()
			s.StartRefill()
			s.Elapse(30 * time.Second)
		}
		s.Is("tokens in the end", s.Record(0).Balance, unit(1_300))
	})
}
